"""What the indexes of a database take: a door to the native core, which reads their keys beside a running slapd."""

from __future__ import annotations

from pathlib import Path

from loader import _native
from loader._native import IndexCost, IndexCosts
from loader.errors import MdbDamaged
from loader.ldif import with_counters
from loader.mdb import meta, snapshot
from loader.progress import Meter

__all__ = ["IndexCost", "IndexCosts", "read"]


def read(place: Path, meter: Meter) -> IndexCosts:
    """Of one snapshot of an environment directory.

    Raises NotLmdb, MdbProtected, MdbDamaged, NotPermitted, ReadersFull, NoSuchPath.
    """
    path = meta.data_file(place)
    with snapshot.held(place) as held, with_counters(meter, str(path)) as counters:
        try:
            return _native.index_costs(held.path, counters, txn=held.txn)
        except _native.NativeError as error:
            if error.code != "build.damaged":
                raise
            raise MdbDamaged(path=path, reason=error.message) from error
