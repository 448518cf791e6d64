"""The door to the part of loader._native that copies data files, and its errors made ours."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import _native
from loader._native import PageBlock, PageBlocks, Seen
from loader.errors import (
    FULL,
    LoaderError,
    MdbDamaged,
    NoSpace,
    StreamBroken,
    StreamRefused,
    SystemFailed,
)
from loader.ldif import with_counters
from loader.mdb import meta
from loader.progress import Meter

__all__ = [
    "CopySource",
    "PageBlock",
    "PageBlocks",
    "Seen",
    "compact",
    "compact_in_pieces",
    "noting",
    "plain",
    "receive",
    "send",
]


def plain(
    source: Path, target: Path, head: bytes, length: int, seen: Seen | None, meter: Meter
) -> None:
    """Copy a data file as it stands, up to `length` and without its holes; `head`: both meta pages of the copy. `seen`
    gets to know its pages."""
    with with_counters(meter) as counters, _explained(source, target):
        _native.clone_plain(source, target, head, length, counters, seen=seen)


def noting(source: Path, page: bytes) -> Seen:
    """What `plain` notes of the snapshot that the meta page `page` tells of, for a check of the copy."""
    with _explained(source, source):
        return Seen(source, page)


def compact(source: Path, target: Path, page: bytes, meter: Meter) -> None:
    """Write the snapshot that the meta page tells of again, its pages in order. What `verify` finds out at level pages
    is found out on the way."""
    with with_counters(meter) as counters, _explained(source, target):
        _native.clone_compact(source, target, page, counters)


def compact_in_pieces(source: Path, pieces: PageBlocks, page: bytes, meter: Meter) -> bytes:
    """The same copy to whoever takes the pieces; returns its meta pages, which are not among them. Raises StreamBroken
    when nobody takes them any more."""
    with with_counters(meter) as counters, _explained(source, source):
        return _native.compact_in_pieces(source, pieces, page, counters)


@dataclass(frozen=True)
class CopySource:
    """What `plain` copies: a data file, both meta pages of the copy, its length. compacted: `compact` made the file.
    origin: what errors name."""

    source: Path
    head: bytes
    length: int
    origin: Path
    compacted: bool = False


def send(what: CopySource, descriptor: int, token: str | None, meter: Meter) -> int:
    """Send it; from which byte on: that which `token` tells, if it is of the same copy, or 0."""
    origin = what.origin
    with with_counters(meter) as counters, _explained(origin, origin):
        try:
            return _native.clone_send(
                what.source,
                descriptor,
                what.head,
                what.length,
                token,
                counters,
                compacted=what.compacted,
            )
        except ValueError as error:
            raise StreamRefused(path=origin, reason=f"{token}: {error}") from error


def receive(descriptor: int, target: Path, journal: Path, meter: Meter) -> None:
    """Receive what `send` sends. When the stream breaks, `journal` holds the token that goes on with it."""
    with with_counters(meter) as counters, _explained(target, target):
        _native.clone_receive(descriptor, target, journal, counters)


@contextmanager
def _explained(source: Path, target: Path) -> Iterator[None]:
    try:
        yield
    except _native.NativeError as error:
        if error.code == "cancelled":
            raise  # counting() knows it
        raise _ours(error, source, target) from error


def _ours(error: _native.NativeError, source: Path, target: Path) -> LoaderError:
    if error.code == "lmdb.no_space":
        return NoSpace(path=target, lack=FULL)
    if error.code == "lmdb.damaged":
        return MdbDamaged(path=source, reason=error.message)
    if error.code == "lmdb.misuse":
        return StreamRefused(path=target, reason=error.message)
    if error.code == "lmdb.stream" or error.errno == errno.EPIPE:
        reason = error.message if error.code == "lmdb.stream" else "nobody receives it any more"
        return StreamBroken(
            path=target,
            reason=reason,
            advice="Look at the messages of the other side, which give the reason.",
        )
    if error.errno is not None:
        return meta.system_error(error.errno, source)
    return SystemFailed(path=source, reason=error.message)
