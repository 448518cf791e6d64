"""The index tables of a database: how many records they hold, and emptying them. Done in a process apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loader.mdb import isolated, meta, names
from loader.mdb.environment import explained, opened, require_table, rows


def keys(place: Path) -> dict[str, int]:
    """Attribute as the schema spells it -> records of its index; nothing where there is no database yet."""
    return _keys(place) if meta.data_file(place).exists() else {}


@isolated.isolated
def _keys(place: Path) -> dict[str, int]:
    attributes = names.indexed(place)
    with opened(place) as environment:
        handles = {name: require_table(environment, name) for name in attributes}
        with environment.begin() as transaction:
            return {name: rows(transaction, handle) for name, handle in handles.items()}


@isolated.isolated
def empty(place: Path, attributes: Sequence[str]) -> None:
    """Take everything out of those of these indexes that are there; the disk has it when this returns."""
    wanted = {name.lower() for name in attributes}
    found = [name for name in names.indexed(place) if name.lower() in wanted]
    with opened(place, writable=True) as environment:
        handles = [require_table(environment, name) for name in found]
        with explained(place), environment.begin(write=True) as transaction:
            for handle in handles:
                transaction.drop(handle, delete=False)
