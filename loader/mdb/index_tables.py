"""How many records the index tables of a database hold, asked in a process apart."""

from __future__ import annotations

from pathlib import Path

from loader.mdb import apart, meta, names
from loader.mdb.environment import opened, require_table, rows


def keys(place: Path) -> dict[str, int]:
    """Attribute as the schema spells it -> records of its index; nothing where there is no database yet."""
    if not meta.data_file(place).exists():
        return {}
    found: dict[str, int] = apart.ask(__name__, place, origin=meta.data_file(place))
    return found


def _work(text: str) -> dict[str, int]:
    """In the process apart."""
    attributes = names.indexed(Path(text))
    with opened(Path(text)) as environment:
        handles = {name: require_table(environment, name) for name in attributes}
        with environment.begin() as transaction:
            return {name: rows(transaction, handle) for name, handle in handles.items()}


if __name__ == "__main__":
    apart.answering(_work)
