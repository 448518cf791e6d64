"""The schema that a configuration gives one of its databases, as the native core wants it."""

from __future__ import annotations

from collections.abc import Sequence

from loader import schema
from loader.config import Config, Database
from loader.schema import Definition
from loader.server import configuration
from loader.sinks import mdb


def schema_of(
    config: Config, database: Database, attribute_options: Sequence[str] = (), *, seeding: bool = False
) -> mdb.Schema:
    """`seeding`: of a replica, which slapd lets hold dynamic objects without slapo-dds, for syncrepl checks no schema.
    Raises NotProven for definitions that the core cannot read, ConfigUnreadable."""
    effects = schema.effects(config, database)
    effects["dynamic_objects"] |= seeding
    return mdb.schema(definitions_of(config), attribute_options, **effects)


def definitions_of(config: Config) -> list[Definition]:
    """Raises ConfigUnreadable."""
    return schema.definitions(config, configuration.read_compiled_schema(config))
