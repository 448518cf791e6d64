"""Does whoever writes to an environment heed the reader slots of its present lock.mdb? Else a snapshot is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loader.errors import LockUnheeded, MdbBusy, MdbDamaged
from loader.mdb import meta
from loader.mdb.environment import UNHEEDED
from loader.storage import holders


@contextmanager
def required(place: Path) -> Iterator[None]:
    """While an environment directory `place` is read without a reader slot: a writer that is seen is refused before,
    one that is not when the file has changed meanwhile. A data file alone has no slots. Raises LockUnheeded."""
    if not place.is_dir():
        yield
        return
    holders.require_heeded(place)
    before = meta.read_meta(place).txnid
    try:
        yield
    except (MdbBusy, MdbDamaged):  # the pages of a snapshot that nobody heeds
        _require_unwritten(place, before)
        raise
    _require_unwritten(place, before)


def _require_unwritten(place: Path, before: int) -> None:
    if meta.read_meta(place).txnid != before and holders.locker(place) is None:
        raise LockUnheeded(path=meta.data_file(place), reason=UNHEEDED)
