"""A few records out of much LDIF, by DN: for showing what differs.

Whoever reads every entry uses the native core.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import zstandard

from loader import dn

Entry = dict[str, frozenset[bytes]]  # attribute description in lower case -> values
Entries = dict[str, Entry]  # dn.key(DN) -> entry

_PIECE = 1 << 20
_DN = re.compile(rb"^dn:(.*)$", re.MULTILINE | re.IGNORECASE)


class Stream(Protocol):
    """Something to read bytes from."""

    def read(self, size: int, /) -> bytes: ...


@contextmanager
def opened(path: Path) -> Iterator[Stream]:
    """A file, decompressed when its first bytes say that it is compressed."""
    with path.open("rb") as file:
        magic = file.read(4)
        file.seek(0)
        if magic == b"\x28\xb5\x2f\xfd":
            with zstandard.ZstdDecompressor().stream_reader(
                file, read_across_frames=True
            ) as reader:
                yield reader
        elif magic[:2] == b"\x1f\x8b":
            with gzip.open(file) as unpacked:
                yield unpacked
        else:
            yield file


def find(stream: Stream, names: Sequence[str]) -> Entries:
    """The records of these DNs."""
    wanted, found = {dn.key(name) for name in names}, Entries()
    for block in _blocks(stream):
        found.update(_records(block, wanted))
        if len(found) == len(wanted):
            break
    return found


def entries(stream: Stream) -> Iterator[tuple[str, Entry]]:
    """All records, in order, with their DNs as they are written."""
    for block in _blocks(stream):
        for match in _DN.finditer(block):
            yield _decoded(match[1]).decode("utf-8", "replace"), _behind(match, block)


def names(stream: Stream) -> Iterator[str]:
    """The DNs of all records, in order."""
    for block in _blocks(stream):
        for match in _DN.finditer(block):
            yield _decoded(match[1].rstrip(b"\r")).decode("utf-8", "replace")


def _blocks(stream: Stream) -> Iterator[bytes]:
    """Whole records, lines unfolded, ends of lines made "\\n"."""
    carried = b""
    while piece := stream.read(_PIECE):
        data = (carried + piece).replace(b"\r\n", b"\n")
        cut = data.rfind(b"\n\n") + 1
        if cut:
            yield data[:cut].replace(b"\n ", b"")
        carried = data[cut:]
    yield carried.replace(b"\n ", b"")


def _records(block: bytes, wanted: set[str]) -> Iterator[tuple[str, Entry]]:
    for match in _DN.finditer(block):
        name = dn.key(_decoded(match[1]).decode("utf-8", "replace"))
        if name in wanted:
            yield name, _behind(match, block)


def _behind(match: re.Match[bytes], block: bytes) -> Entry:
    """What a record holds besides its DN."""
    end = block.find(b"\n\n", match.end())
    return _entry(block[match.end() : end if end >= 0 else None])


def _entry(lines: bytes) -> Entry:
    """python-ldap's ldif module is not used: to it `DN:` is an error, and `cn` and `CN` are two attributes."""
    found: dict[str, set[bytes]] = {}
    for line in lines.split(b"\n"):
        name, colon, value = line.partition(b":")
        if colon and not line.startswith(b"#"):
            found.setdefault(name.decode("ascii", "replace").lower(), set()).add(_decoded(value))
    return {name: frozenset(values) for name, values in found.items()}


def _decoded(value: bytes) -> bytes:
    """What stands behind the first colon of a line."""
    return base64.b64decode(value[1:]) if value.startswith(b":") else value.lstrip(b" ")
