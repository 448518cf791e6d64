"""Is this file what this configuration would have made? slapd trusts that it is, and nothing in the file tells.

Where the configuration that it was made with is known, the two are compared; and in any case entries are held against
the configuration and looked for in every index: all of them in a file that is read in seconds, else a sample, the
newest entries among them. Index tables can be made again (indexing.py). What else differs is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loader import indexes
from loader.backmdb import Settings
from loader.config import Config, Database
from loader.errors import ConfigUnreadable, MadeOtherwise, NotProven, SchemaMissing
from loader.mdb import meta, names, verify
from loader.mdb.verify import AuditReport, Problem, Resources
from loader.operations.schema_facts import SchemaFacts
from loader.operations.verify import given_to_core
from loader.progress import Meter
from loader.sinks import mdb

SAMPLE = 2048  # entries
ALL_UP_TO = 512 << 20  # bytes of a file all entries of which are looked at: seconds
_TOLD = 10_000  # problems of a kind that are looked through
_SHOWN = 5
# The schema, or what values are sorted by, is another one.
_OTHER = ("indexes.normal_form", "indexes.order", "indexes.name")
_SCHEMA = "indexes.schema"


@dataclass(frozen=True)
class Origin:
    """The configuration that a file was made with, and the database in it."""

    config: Config
    database: Database


@dataclass(frozen=True)
class Fit:
    """rebuild: index tables that have to be made again. unknown: attribute types and object classes that the
    configuration lacks. otherwise: what was made in another way and cannot be mended in place. entries: how many were
    looked at."""

    rebuild: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    entries: int = 0

    def require(self, path: Path, config: Config, advice: str) -> None:
        """Raises SchemaMissing, MadeOtherwise."""
        if self.unknown:
            raise SchemaMissing(config=config.where, names=_listed(self.unknown))
        if self.otherwise:
            reason = _listed(self.otherwise)
            raise MadeOtherwise(path=path, config=config.where, reason=reason, advice=advice)


def _listed(found: tuple[str, ...]) -> str:
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return "; ".join([*found[:_SHOWN], *more])


def look(
    place: Path,
    config: Config,
    database: Database,
    meter: Meter,
    origin: Origin | None = None,
    *,
    whole: bool = True,
) -> Fit:
    """Of an environment directory, beside a running slapd if need be, or a data file that nobody writes to. Without
    `whole` never more than a sample is looked at."""
    facts = meta.read_meta(place)
    if facts.format != 1:
        return Fit()  # of LMDB 1.0, which the core does not read
    try:
        spec = given_to_core(config, database)
        target = spec.target()
    except NotProven:
        return Fit(rebuild=_configured(database))
    known, used = SchemaFacts.of(target.schema), names.attributes(place)
    compared = _Comparison.of(_before(origin), spec.settings, known, used)
    every = compared.asks_for_all or (whole and not compared.is_equal and facts.used <= ALL_UP_TO)
    found = verify.audit(
        place,
        "indexes",
        Resources(limit=_TOLD),
        meter,
        mdb.database(target),
        sample=0 if every else SAMPLE,
    )
    unproven = () if compared.is_equal else found.left_out
    rebuild = _configured(database) if compared.all_indexes else compared.indexes
    return Fit(
        rebuild=tuple(dict.fromkeys((*rebuild, *found.drifted, *unproven))),
        unknown=tuple(dict.fromkeys((*target.schema.unknown(used), *_classes(found)))),
        otherwise=(*compared.otherwise, *_otherwise(found, known)),
        entries=found.entries if every else min(SAMPLE, found.entries),
    )


@dataclass(frozen=True)
class _Comparison:
    """Of two configurations. indexes: those whose keys are made otherwise. asks_for_all: only a look at every entry
    tells whether what differs matters. is_equal: both are known, and make the same."""

    is_equal: bool = False
    asks_for_all: bool = False
    all_indexes: bool = False
    indexes: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        before: tuple[Settings, SchemaFacts] | None,
        now: Settings,
        known: SchemaFacts,
        used: Sequence[str],
    ) -> _Comparison:
        if before is None:
            return cls()
        settings, schema = before
        differing = known.differences(schema, used)
        changed, lacks = tuple(_changed(settings, now)), known.lacks_class(schema)
        return cls(
            is_equal=not (differing or changed or lacks),
            asks_for_all=lacks,
            all_indexes=any(one.index_only for one in differing),
            indexes=changed,
            otherwise=(
                *(one.text for one in differing if not one.index_only),
                *_kept_apart_otherwise(settings, now, known, used),
            ),
        )


def _configured(database: Database) -> tuple[str, ...]:
    found = indexes.parse(database.indexes).values()
    return tuple(one.attribute for one in found if one.key != indexes.DEFAULT)


def _before(origin: Origin | None) -> tuple[Settings, SchemaFacts] | None:
    """What the configuration of the origin says; None where it cannot be told."""
    if origin is None:
        return None
    try:
        spec = given_to_core(origin.config, origin.database)
        return spec.settings, SchemaFacts.of(spec.target().schema)
    except (NotProven, ConfigUnreadable):
        return None


def _changed(before: Settings, now: Settings) -> Iterator[str]:
    """Indexes whose keys were made otherwise, or not at all. Keys that no longer would be made do no harm."""
    width = (before.hash64, before.intlen, before.attribute_options)
    all_of_them = width != (now.hash64, now.intlen, now.attribute_options)
    all_of_them |= now.idlexp < before.idlexp
    kinds = {name.lower(): set(kinds) for name, kinds in before.indexes}
    for name, wanted in now.indexes:
        lengths = "sub" in wanted and before.substr != now.substr
        if all_of_them or lengths or set(wanted) - kinds.get(name.lower(), set()):
            yield name


def _kept_apart_otherwise(
    before: Settings, now: Settings, known: SchemaFacts, used: Sequence[str]
) -> Iterator[str]:
    """Values that stand where another `multival` puts them are found, and some later changes make slapd lose them: seen
    by bin/campaign copies --pairs 1 --seed 2085."""
    both = [{known.called(name): most for name, most in one.multival} for one in (before, now)]
    for name in used:
        limits = [one.get(known.called(name), one.get("default")) for one in both]
        if limits[0] != limits[1]:
            told = ("without" if one is None else f"beyond {one} values" for one in limits)
            yield "{} has multival {}, and the configuration {}".format(name, *told)


def _classes(found: AuditReport) -> Iterator[str]:
    """Object classes that the schema does not know; attribute types are in ad2i."""
    for problem in found.problems:
        if problem.kind == _SCHEMA:
            told = (one.message for one in problem.told if one.attribute == "objectClass")
            yield from (message.rpartition(" ")[2] for message in told)


def _otherwise(found: AuditReport, facts: SchemaFacts) -> Iterator[str]:
    for problem in found.problems:
        if problem.kind in _OTHER:
            yield from _of(problem, facts)


def _of(problem: Problem, facts: SchemaFacts) -> Iterator[str]:
    """What is compiled into slapd no configuration changes; slapd and its overlays store some of that otherwise."""
    attributes = dict.fromkeys(one.attribute for one in problem.told)
    for attribute in attributes:
        if attribute is None or not facts.is_builtin(attribute):
            first = next(one for one in problem.told if one.attribute == attribute)
            yield str(first)
