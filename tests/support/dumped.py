"""Reads the records of an export and of slapcat's output, in order."""

from __future__ import annotations

import io
import json
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zstandard

from fixtures.damage.reading import Tables
from fixtures.golden import blobs
from fixtures.golden.tables import Row
from loader import ldif
from loader.progress import Meter

Record = tuple[str, ...]  # lines
Rows = list[Row]


def exported(out: Path) -> list[Record]:
    """Returns the records of all shards in the manifest's order, after checking them against the manifest."""
    found = ldif.read_manifest(out)
    assert found is not None
    assert_as_manifest(out)
    made = _records_of(found, out)
    assert len(made) == found.entries
    return made


def _records_of(found: ldif.Manifest, out: Path) -> list[Record]:
    return [record for path in found.paths(out) for record in records(text_of(path))]


def assert_as_manifest(out: Path) -> None:
    """Asserts that the export agrees with its manifest."""
    meter = Meter("hold")
    with ldif.verified_inputs([out], meter) as paths:
        scan = ldif.scan(paths, meter)
    ldif.require_read([out], scan.entries)


def text_of_export(directory: Path) -> str:
    """Returns the records of all files of an export."""
    shards = json.loads((directory / "manifest.json").read_text())["shards"]
    return "".join(text_of(directory / shard["name"]) for shard in shards)


def text_of(path: Path) -> str:
    """Returns the records of a file, decompressed, with a blank line at the end."""
    content = path.read_bytes()
    if path.suffix == ".zst":
        reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(content), read_across_frames=True)
        content = reader.read()
    return content.decode()


def records(text: str) -> list[Record]:
    """Returns the records of unfolded LDIF."""
    return [tuple(one.strip("\n").split("\n")) for one in text.split("\n\n") if one.strip()]


def together(record: Record) -> Record:
    """Groups the lines of each attribute after its first line; slapcat prints them in stored order."""
    names = [line.partition(":")[0].lower() for line in record]
    return tuple(sorted(record, key=lambda line: names.index(line.partition(":")[0].lower())))


def orphans(made: list[Record], above: str) -> Iterator[str]:
    """Yields DN lines that come before their parent's. `above`: the DN above all entries."""
    met = set()
    for record in made:
        name = _lowered(record[0])
        parent = name.partition(",")[2]
        if met and parent not in met and parent != above:
            yield record[0]
        met.add(name)


def _lowered(line: str) -> str:
    """Returns a DN line in lower case. slapcat prints no comma inside a value of a DN."""
    name, _, value = line.partition(":")
    assert name == "dn"
    text = b64decode(value[1:]).decode() if value.startswith(":") else value[1:]
    return text.lower()


# --- entries that LMDB reads --------------------------------------------------------------------

Entries = dict[bytes, Counter[tuple[str, bytes]]]  # DN -> descriptions and values


def parsed(out: Path) -> Entries:
    """Returns the entries of all shards."""
    found = ldif.read_manifest(out)
    assert found is not None
    made = _records_of(found, out)
    entries: Entries = {}
    for (_, dn), *lines in (map(_line, record) for record in made):
        assert dn not in entries
        entries[dn] = Counter(lines)
    return entries


def _line(line: str) -> tuple[str, bytes]:
    name, _, value = line.partition(":")
    return name, b64decode(value[1:]) if value.startswith(":") else value[1:].encode()


def stored(tables: Tables) -> Entries:
    """Returns the entries in the rows of id2e, dn2i, ad2i and id2v, as tolerantly as slapd. Raises ValueError, KeyError
    or struct.error if they form no tree."""
    names = {int.from_bytes(key, "little"): text.decode() for key, text in tables["ad2i"]}
    numbers = {name: number for number, name in names.items()}
    nodes, apart = _nodes(tables["dn2i"]), _apart(tables["id2v"])
    found: Entries = {}
    for key, value in tables["id2e"]:
        if value:
            values = found[_dn(nodes, key)] = Counter()
            for one in blobs.decode(value, names, by_lengths=True).attributes:
                there = apart[key, numbers[one.name]] if one.elsewhere else one.values
                values.update((one.name, text) for text in there)
    return found


def _nodes(rows: Rows) -> dict[bytes, tuple[bytes, bytes]]:
    """Returns ID -> (the parent's ID, the RDN), from the record of each node about itself."""
    own = [(key, node) for key, node in rows if not node[0] & 0x80 and key != bytes(8)]
    return {key: (node[-8:], node[3 + int.from_bytes(node[:2]) : -9]) for key, node in own}


def _dn(nodes: dict[bytes, tuple[bytes, bytes]], id: bytes) -> bytes:
    rdns: list[bytes] = []
    while id != bytes(8):
        if len(rdns) > len(nodes):
            raise ValueError("nodes that go round and round")
        id, rdn = nodes[id]
        rdns.append(rdn)
    return b",".join(rdns)


def _apart(rows: Rows) -> dict[tuple[bytes, int], list[bytes]]:
    """Returns (ID, number of the description) -> values; a normal form precedes its value."""
    found: dict[tuple[bytes, int], list[bytes]] = {}
    for key, row in rows:
        length = int.from_bytes(row[-2:], "little")
        value = row[-3 - length : -3] if length else row[:-3]
        found.setdefault((key[:8], int.from_bytes(key[8:], "little")), []).append(value)
    return found


def described(path: Path) -> ldif.ShardFile:
    """Returns what a manifest says of a shard."""
    meter = Meter("digest")
    with ldif.digesting((), meter) as tree:
        tree.add_path(str(path))
    ((_, size, checksum),) = meter.files
    return ldif.ShardFile(path.name, size, checksum, tree.entries, tree.checksum)


def edit_manifest(export: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = export / ldif.MANIFEST
    facts = json.loads(path.read_bytes())
    change(facts)
    path.write_text(json.dumps(facts))
