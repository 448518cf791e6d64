"""Will the consumer take what the provider holds? Asked before the reading: does its schema know what the entries use,
and is there room on its disk."""

from __future__ import annotations

import logging
import math
import statistics
import time
from collections.abc import Sequence

from loader import backmdb, dn, plain, units
from loader.errors import (
    ConfigUnreadable,
    LimitTooLow,
    LoaderError,
    NotProven,
    SchemaMissing,
    ServerRefused,
)
from loader.operations.build.native import LEAST
from loader.operations.estimate import SMALLEST
from loader.operations.publish import TargetDatabase
from loader.operations.schema_facts import SchemaFacts
from loader.overlays import COMPUTED
from loader.server import subschema
from loader.server.search import EVERYTHING
from loader.server.session import Attributes, Session
from loader.sinks.configured import schema_of
from loader.sources import planner
from loader.storage import files
from seeders.replica.strategies import Consumer

_SAMPLE = 500  # entries
_SECONDS = (
    10  # that the provider may look for object classes; by an index on objectClass it takes none
)
_NAMED = 10
_COMPUTED = {name.lower() for name in COMPUTED}

log = logging.getLogger(__name__)


def require(provider: Session, base: str, consumer: Consumer, place: TargetDatabase) -> None:
    """What cannot be found out is told in a note. Raises SchemaMissing, NoSpace."""
    # What another server computes is not loaded, whether the consumer knows it or not.
    asked = EVERYTHING if subschema.is_openldap(provider) else EVERYTHING[:1]
    found, whole = provider.first(base, _SAMPLE, asked)
    entries = [attributes for _, attributes in found]
    _require_known(provider, base, consumer, entries)
    _require_room(place, entries, 0 if whole else _count(provider, base))


def _require_known(
    provider: Session, base: str, consumer: Consumer, entries: Sequence[Attributes]
) -> None:
    try:
        options = backmdb.settings(consumer.config, consumer.database).attribute_options
        schema = schema_of(consumer.config, consumer.database, options)
    except (NotProven, ConfigUnreadable) as error:
        log.warning("schema: not compared with the provider's before the reading: %s", error)
        return
    used = dict.fromkeys(name for found in entries for name in found if name not in _COMPUTED)
    unknown = [*schema.unknown(list(used)), *classes(provider, base, SchemaFacts.of(schema))]
    if unknown:
        raise SchemaMissing(config=consumer.config.where, names=_named(unknown))


def _named(names: Sequence[str]) -> str:
    more = [f"and {len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return ", ".join([*names[:_NAMED], *more])


def classes(provider: Session, base: str, known: SchemaFacts) -> list[str]:
    """Object classes that the provider knows, the consumer does not, and an entry has, as far as the provider tells."""
    lacking = [
        one for one in subschema.object_classes(provider) if one.lower() not in known.classes
    ]
    found: list[str] = []
    end = time.monotonic() + _SECONDS
    while lacking:
        left = math.ceil(end - time.monotonic())
        try:
            met = _met(provider, base, lacking, left) if left > 0 else []
        except (LimitTooLow, ServerRefused) as error:
            _note(provider, lacking, error)
            return found
        if not met:
            return found
        found += met
        lacking = [name for name in lacking if name not in met]
    return found


def _met(provider: Session, base: str, lacking: Sequence[str], seconds: int) -> list[str]:
    """Those of one entry that has any; a superior class that an entry only inherits is not among its values."""
    where = "".join(f"(objectClass={name})" for name in lacking)
    found, _ = provider.first(base, 1, ["objectClass"], f"(|{where})", seconds)
    values = {value.lower() for _, one in found for value in one.get("objectclass", ())}
    return [name for name in lacking if name.lower().encode() in values]


def _note(provider: Session, lacking: Sequence[str], error: LoaderError) -> None:
    log.warning(
        "schema: the consumer does not know %s; %s did not say whether any entry has them (%s), so only the reading "
        "will tell. An index on objectClass lets it answer at once",
        plain.printable(_named(lacking)),
        provider.uri,
        error.facts["reason"],
    )


def _count(provider: Session, base: str) -> int:
    """Of all entries below the base; 0 where the provider does not tell, or tells it of a larger tree."""
    if dn.key(provider.context_of(base)) != dn.key(base):
        return 0
    return planner.expected(provider, base) or 0


def _require_room(place: TargetDatabase, entries: Sequence[Attributes], count: int) -> None:
    """If all entries are as small as the smallest of the first ones; a note, if they are like most of those."""
    sizes = [_size(found) for found in entries] or [0]
    many = max(count, len(entries))
    files.require_space(place.directory, _least(min(sizes), many))
    expected, free = _least(statistics.median(sizes), many), files.free_bytes(place.directory)
    if free < expected:
        log.warning(
            "disk: %s entries like the first ones need %s, and %s has %s free",
            *(f"{many:,}", units.size(expected), place.directory, units.size(free)),
        )


def _least(size: float, entries: int) -> int:
    """Bytes of a database of so many entries of that size."""
    return SMALLEST + round(LEAST * size * entries)


def _size(found: Attributes) -> int:
    """Bytes in LDIF."""
    return sum(len(name) + len(value) + 3 for name, values in found.items() for value in values)
