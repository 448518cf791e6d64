"""A copy through a pipe: one process sends the snapshot of an environment, another receives it, on this host or not.

The stream has a checksum for each block and one over all at its end. Where it breaks, the receiver keeps what came and
a line that tells how much of which copy that is (a token); given that, the sender leaves it out, if the snapshot is
still the same, and else sends all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import _native, units
from loader.errors import (
    LoaderError,
    MdbDamaged,
    NoSpace,
    StreamBroken,
    StreamRefused,
    SystemFailed,
)
from loader.ldif import counting
from loader.mdb import meta
from loader.mdb.copy import JOURNAL, PARTIAL, held
from loader.progress import Meter


@dataclass(frozen=True)
class Sent:
    """A stream that went out whole. skipped: bytes that the receiver had. length: of the file."""

    facts: meta.Facts
    skipped: int
    length: int


def send(source: Path, descriptor: int, token: str | None, meter: Meter) -> Sent:
    """Send the environment in directory `source`. Raises StreamBroken when nobody listens any more."""
    path = meta.data_file(source)
    with held(source) as snapshot:
        length = min(snapshot.facts.used, path.stat().st_size)
        with counting(meter) as counters, _explained(path):
            try:
                skipped = _native.clone_send(
                    path, descriptor, snapshot.head, snapshot.facts.used, token, counters
                )
            except ValueError as error:
                raise StreamRefused(path=source, reason=f"{token}: {error}") from error
    return Sent(snapshot.facts, skipped, length)


def receive(descriptor: int, target: Path, meter: Meter) -> Path:
    """Receive into `target`/data.mdb.partial, mode 0600, which the caller publishes.

    Raises StreamBroken with the token that lets the sender go on; what has come stays.
    """
    partial, journal = target / PARTIAL, target / JOURNAL
    with counting(meter) as counters, _explained(partial, journal):
        _native.clone_receive(descriptor, partial, journal, counters)
    return partial


def token(target: Path) -> str | None:
    """What a stream that broke has left in directory `target`, for the sender."""
    try:
        return (target / JOURNAL).read_text().strip()
    except FileNotFoundError:
        return None


def forget(target: Path) -> None:
    """What has come of no use."""
    for name in (JOURNAL, PARTIAL):
        (target / name).unlink(missing_ok=True)


@contextmanager
def _explained(path: Path, journal: Path | None = None) -> Iterator[None]:
    try:
        yield
    except _native.NativeError as error:
        if error.code == "cancelled":
            raise  # counting() knows it
        raise _ours(error, path, journal) from error


def _ours(error: _native.NativeError, path: Path, journal: Path | None = None) -> LoaderError:
    if error.code == "lmdb.no_space":
        return NoSpace(path=path, needed="more", free="nothing")
    if error.code == "lmdb.misuse":
        return StreamRefused(path=path, reason=error.message)
    if error.code == "lmdb.damaged":
        return MdbDamaged(path=path, reason=error.message)
    if journal is None:
        return StreamBroken(path=path, reason=error.message, advice=_AT_RECEIVER)
    if error.code != "lmdb.stream":
        return SystemFailed(path=path, reason=error.message)
    return StreamBroken(path=path, reason=error.message, advice=_advice(path.parent))


_AT_RECEIVER = "The receiver says what it has, and how to go on."


def _advice(target: Path) -> str:
    known = token(target)
    if known is None:
        return "Nothing has come yet: look what the sender says."
    have = units.size(int(known.rpartition("-")[2]))
    sending, receiving = f"ditseed clone SOURCE - --skip {known}", f"ditseed clone - {target}"
    return f"{have} are there. Go on with: {sending} | ... {receiving}"
