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
    config: Config, database: Database, logs: Sequence[Path], filters: Sequence[Path], meter: Meter
) -> list[SearchesFound]:
    """Of slapd's logs (loglevel stats), and of files with a filter on each line, as far as there are any of either.

    Raises NotProven where the schema cannot be read, ConfigUnreadable, NoSuchPath, and what is wrong with a compressed
    file.
    """
    settings = backmdb.settings(config, database)
    schema = schema_of(config, database, settings.attribute_options)
    configured = indexes.configured(database.indexes).values()
    with with_counters(meter) as counters:
        return [
            _native.searches(
                paths,
                schema,
                counters,
                filters=of_filters,
                suffix=database.suffix,
                indexes=[(one.attribute, one.kinds) for one in configured],
                substr=settings.substr,
            )
            for paths, of_filters in ((logs, False), (filters, True))
            if paths
        ]
