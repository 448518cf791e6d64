"""The schema that a configuration gives one of its databases, as the native core wants it."""

from __future__ import annotations

from collections.abc import Sequence

from loader import schema
from loader.config import Config, Database
from loader.server import compiled_schema
from loader.sinks import mdb


def schema_of(
    config: Config, database: Database, attribute_options: Sequence[str] = ()
) -> mdb.Schema:
    """Raises NotProven for definitions that the core cannot read, ConfigUnreadable."""
    definitions = schema.definitions(config, compiled_schema.read(config))
    return mdb.schema(definitions, attribute_options, **schema.effects(config, database))
