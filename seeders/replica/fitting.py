"""Will the consumer take what the provider holds? Asked before the reading: does its schema know what the entries use,
and is there room in its map and on its disk."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import replace

from loader import backmdb, dn, plain
from loader.errors import ConfigUnreadable, LimitTooLow, LoaderError, NotProven, SchemaMissing, ServerRefused
from loader.operations import sizing
from loader.operations.build import native
from loader.operations.build.inputs import BuildOptions
from loader.operations.made_with import SchemaFacts
from loader.operations.publish import TargetDatabase
from loader.operations.room import require_room
from loader.operations.server_sample import of_server
from loader.overlays import COMPUTED
from loader.progress import Meter
from loader.server import configuration, questions, subschema
from loader.server.options import EVERYTHING, Connection
from loader.server.searches import Attributes
from loader.server.session import Session
from loader.sinks.configured import schema_of
from loader.sources.sampling import SampleSize
from loader.storage import temporary
from seeders.replica.strategies import Consumer

_SAMPLE = 500  # entries
_BUILT = SampleSize(5000, 0.0)
_UNSEEN = 8192.0  # bytes of an entry in the database: there may be large ones that are not among the first
_SECONDS = 10  # that the provider may look for object classes; by an index on objectClass it takes none
_NAMED = 10
_COMPUTED = {name.lower() for name in COMPUTED}

log = logging.getLogger(__name__)


def require(
    connection: Connection,
    provider: Session,
    base: str,
    consumer: Consumer,
    place: TargetDatabase,
    options: BuildOptions,
) -> None:
    """What cannot be found out is told in a note. Raises SchemaMissing, MaxsizeTooSmall, NoSpace."""
    # What another server computes is not loaded, whether the consumer knows it or not.
    asked = EVERYTHING if subschema.is_openldap(provider) else EVERYTHING[:1]
    found, whole = provider.first(base, _SAMPLE, asked)
    entries = [attributes for _, attributes in found]
    _require_known(provider, base, consumer, entries)
    count = len(entries) if whole else _count(provider, base)
    at_most = count * _largest(entries) if count else math.inf
    at_base = replace(connection, base=base)
    require_room(native.limits_of(options, place), lambda: _needed(at_base, place, options), at_most)


def _require_known(provider: Session, base: str, consumer: Consumer, entries: Sequence[Attributes]) -> None:
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
    lacking = [one for one in subschema.object_classes(provider) if one.lower() not in known.classes]
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
    """Of all entries below the base, about; 0 where the provider does not tell, or tells it of a larger tree."""
    if dn.key(provider.context_of(base)) != dn.key(base):
        return 0
    return questions.entries(provider, base, sampled=True) or 0


def _needed(connection: Connection, place: TargetDatabase, options: BuildOptions) -> int:
    """Bytes of the database, as a sample of the provider's entries tells; 0 where only slapadd builds it."""
    try:
        target = native.target_of(options, place)
    except NotProven:
        return 0
    with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
        sample = of_server(connection, _BUILT, scratch, Meter("sample"))
        return sizing.forecast(sample, target, Meter("build"), timed=0.0).bytes


def _largest(entries: Sequence[Attributes]) -> float:
    """Bytes that an entry takes in the database at most, as the first ones tell."""
    sizes = [_size(found) for found in entries]
    return max(_UNSEEN, sizing.LARGEST * sum(sizes) / max(1, len(sizes)))


def _size(found: Attributes) -> int:
    """Bytes in LDIF."""
    return sum(len(name) + len(value) + 3 for name, values in found.items() for value in values)
