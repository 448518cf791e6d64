"""Values of id2e that no other table knows: of entries that a build met twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loader.mdb import environment, isolated


@isolated.isolated
def remove(place: Path, ids: Sequence[int]) -> None:
    """Take the entries with these IDs out of id2e, in one transaction; the disk has it when this returns."""
    with environment.opened(place, writable=True) as opened:
        entries = environment.require_table(opened, "id2e")
        with environment.explained(place), opened.begin(write=True) as transaction:
            for one in ids:
                transaction.delete(environment.ID.pack(one), db=entries)
