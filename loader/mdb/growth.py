"""How fast a busy environment will grow while a reader's slot holds a snapshot of it.

Each change makes new pages of those on its way from the roots; those that it replaces can be taken again only when no
reader can want them. Measured on databases of slapd: 8 to 11 pages for each modification, which is a transaction.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from loader.mdb import meta

PAGES = 10  # a transaction
_LOOK = 0.5  # seconds


@dataclass(frozen=True)
class Growth:
    """What is to be expected. transactions: a second. rate: bytes a second. room: bytes left in the map."""

    transactions: float
    rate: float
    room: int

    def fills_in(self, free: int) -> float | None:
        """Seconds until the map is full, or the disk with `free` bytes on it; None where it does not grow."""
        return min(self.room, free) / self.rate if self.rate else None


def measure(source: Path) -> Growth:
    """Looks at the meta pages twice, half a second apart."""
    first, started = meta.read_meta(source), time.monotonic()
    time.sleep(_LOOK)
    last = meta.read_meta(source)
    transactions = (last.txnid - first.txnid) / (time.monotonic() - started)
    return Growth(
        transactions, transactions * PAGES * last.page_size, max(0, last.map_size - last.used)
    )
