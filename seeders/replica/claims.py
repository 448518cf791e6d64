"""The contextCSN that a seed will claim, known before the seeding as far as that can be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from loader import csn, exports, manifest

_HEAD = 1 << 18  # bytes; contextCSN stands in the entry of the suffix, which comes first
_LINE = re.compile(rb"^contextCSN: ([0-9A-Za-z.#]+)\s*$", re.MULTILINE | re.IGNORECASE)


def of_ldif(given: Sequence[Path]) -> list[str] | None:
    """Of an export, or of plain LDIF that begins with the entry of the suffix; None where only reading it all tells."""
    found = _of_manifests(given)
    if found is None:
        first = next(iter(exports.files_of(given)), None)
        found = _of_head(first) if first is not None and first.is_file() else []
    return sorted(csn.by_server(found).values()) or None


def _of_manifests(given: Iterable[Path]) -> list[str] | None:
    made = [manifest.read(one) for one in given if one.is_dir()]
    if not made or None in made:
        return None
    return [text for one in made if one for text in one.context_csns]


def _of_head(path: Path) -> list[str]:
    with path.open("rb") as file:
        return [found[1].decode() for found in _LINE.finditer(file.read(_HEAD))]
