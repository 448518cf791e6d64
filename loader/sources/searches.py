"""Searches that a server was asked for: which indexes of a database they use, and which they lack. A door to the native
core, where the lines of the log are read (native/select/src/searches)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loader import _native, backmdb, indexes
from loader._native import SearchesFound, SearchGroup
from loader.config import Config, Database
from loader.ldif import with_counters
from loader.progress import Meter
from loader.sinks.configured import schema_of

__all__ = ["SearchGroup", "SearchesFound", "read"]


def read(
    paths: Sequence[Path], config: Config, database: Database, meter: Meter, *, filters: bool
) -> SearchesFound:
    """Of slapd's log (loglevel stats), or with `filters` of files with a filter on each line.

    Raises NotProven where the schema cannot be read, ConfigUnreadable, NoSuchPath, and what is wrong with a compressed
    file.
    """
    settings = backmdb.settings(config, database)
    schema = schema_of(config, database, settings.attribute_options)
    configured = indexes.configured(database.indexes).values()
    with with_counters(meter) as counters:
        return _native.searches(
            paths,
            schema,
            counters,
            filters=filters,
            suffix=database.suffix,
            indexes=[(one.attribute, one.kinds) for one in configured],
            substr=settings.substr,
        )
