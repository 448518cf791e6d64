"""A few records out of much LDIF, by DN: for showing what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from loader import dn, ldif
from loader.storage import files

Entry = dict[str, frozenset[bytes]]  # attribute description in lower case -> values
Entries = dict[str, Entry]  # dn.key(DN) -> entry


def find(source: bytes | Path, names: Sequence[str]) -> Entries:
    """The records of these DNs; of each the first."""
    return {dn.key(name): entry for name, entry in entries(source, names)}


def entries(
    source: bytes | Path, names: Sequence[str] | None = None, most: int = 0
) -> list[tuple[str, Entry]]:
    """Of LDIF, or a file that may be compressed: the records of these DNs or all, at `most` so many. In order, with DNs
    as they are written."""
    if isinstance(source, bytes):
        found = ldif.records(source, "LDIF", names, most)
    else:
        with files.explained(source), source.open("rb") as file:
            found = ldif.records(file.fileno(), str(source), names, most)
    return [(name, _entry(attributes)) for name, attributes in found]


def _entry(attributes: Mapping[str, Sequence[bytes]]) -> Entry:
    found: dict[str, set[bytes]] = {}
    for name, values in attributes.items():
        found.setdefault(name.lower(), set()).update(values)
    return {name: frozenset(values) for name, values in found.items()}
