"""An export of a database, and what slapcat says of the same one: records in their order."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

from loader import exports, ldif, manifest
from loader.progress import Meter
from tests.support.ldif import text_of

Record = tuple[str, ...]  # lines


def exported(out: Path) -> list[Record]:
    """Of all shards in the manifest's order; the manifest is held against them."""
    found = manifest.read(out)
    assert found is not None
    hold(out)
    made = [record for path in found.paths(out) for record in records(text_of(path))]
    assert len(made) == found.entries
    return made


def hold(out: Path) -> None:
    """Is the export as its manifest says?"""
    meter = Meter("hold")
    with exports.held([out], meter) as paths:
        scan = ldif.scan(paths, meter)
    exports.require_entries([out], scan.entries)


def records(text: str) -> list[Record]:
    """Unfolded LDIF taken apart."""
    return [tuple(one.strip("\n").split("\n")) for one in text.split("\n\n") if one.strip()]


def together(record: Record) -> Record:
    """The lines of each attribute side by side, where its first one stands: slapcat shows them as they are stored."""
    names = [line.partition(":")[0].lower() for line in record]
    return tuple(sorted(record, key=lambda line: names.index(line.partition(":")[0].lower())))


def orphans(made: list[Record], above: str) -> Iterator[str]:
    """DN lines that come before their parent's; `above`: the DN above all."""
    met = set()
    for record in made:
        name = _lowered(record[0])
        parent = name.partition(",")[2]
        if met and parent not in met and parent != above:
            yield record[0]
        met.add(name)


def _lowered(line: str) -> str:
    """A DN as slapcat prints it has no comma inside a value."""
    name, _, value = line.partition(":")
    assert name == "dn"
    text = b64decode(value[1:]).decode() if value.startswith(":") else value[1:]
    return text.lower()
