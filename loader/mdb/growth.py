"""How fast a busy environment will grow while a reader's slot holds a snapshot of it.

Each change makes new pages of those on its way from the roots; those that it replaces can be taken again only when no
reader can want them. So a transaction makes the file grow by as many pages as it frees, which the free list tells. The
deeper the trees and the more the indexes, the more these are: for a modification of slapd, 8 to 11 with 100,000
entries, and 20 with 2.3 million.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from loader.mdb import free_list, meta

PAGES = 25  # a transaction, where none is seen
MARGIN = 1.25  # other half seconds see more
_LOOK = 0.5  # seconds
_PAUSE = 0.02


@dataclass(frozen=True)
class Growth:
    """What is to be expected. transactions: a second. pages: new ones of a transaction, with a margin. rate: bytes a
    second. room: bytes left in the map."""

    transactions: float
    pages: float
    rate: float
    room: int

    def fills_in(self, free: int) -> float | None:
        """Seconds until the map is full, or the disk with `free` bytes on it; None where it does not grow."""
        return min(self.room, free) / self.rate if self.rate else None


def measure(source: Path) -> Growth:
    """Looks at the meta pages and the end of the free list for half a second."""
    first, started, freed = meta.read_meta(source), time.monotonic(), dict[int, int]()
    while time.monotonic() - started < _LOOK:
        time.sleep(_PAUSE)
        freed |= free_list.newest(source)
    last = meta.read_meta(source)
    transactions = (last.txnid - first.txnid) / (time.monotonic() - started)
    counts = [count for txnid, count in freed.items() if txnid > first.txnid]
    pages = statistics.fmean(counts) * MARGIN if counts else PAGES
    rate = transactions * pages * last.page_size
    return Growth(transactions, pages, rate, max(0, last.map_size - last.used))
