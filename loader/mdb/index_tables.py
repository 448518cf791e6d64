"""How many records the index tables of a database hold, asked in a process apart."""

from __future__ import annotations

from pathlib import Path

from loader.mdb import isolated, meta, names
from loader.mdb.environment import opened, require_table, rows


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
