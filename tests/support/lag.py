"""Measures how far the readers of an environment lag behind."""

from __future__ import annotations

from pathlib import Path

from loader.mdb import meta, readers


def oldest_lag(directory: Path) -> int:
    """Returns the number of transactions since the snapshot of the oldest living reader."""
    last = meta.read_meta(directory).txnid
    snapshots = [slot.txnid for slot in readers.slots(directory) if slot.is_alive and slot.txnid is not None]
    return max((last - txnid for txnid in snapshots), default=0)
