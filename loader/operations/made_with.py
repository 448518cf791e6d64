"""Would this configuration have made this file? slapd trusts that it did. Compares the schemas where both are known,
and has the core look entries up in every index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loader import indexes
from loader.backmdb import INTLEN, Settings
from loader.config import Config, Database
from loader.errors import ConfigUnreadable, MadeOtherwise, NotProven, SchemaMissing, SettingRefused
from loader.mdb import contents, meta, verify
from loader.mdb.verify import AuditReport, Problem, Resources
from loader.operations.build import native
from loader.operations.verify import target_spec
from loader.progress import Meter
from loader.sinks import mdb
from loader.sinks.mdb import Schema, Target


@dataclass(frozen=True)
class Definition:
    """builtin: compiled into slapd. stored: what decides how values are stored; keys: what besides decides their index
    keys."""

    name: str
    builtin: bool
    stored: str
    keys: str

    def differs(self, other: Definition) -> bool:
        """Two versions of slapd may differ in what is compiled in."""
        same = (self.stored, self.keys) == (other.stored, other.keys)
        return not same and not (self.builtin and other.builtin)


@dataclass(frozen=True)
class Difference:
    """index_only: values are stored as before, and index keys are made otherwise."""

    text: str
    index_only: bool


@dataclass(frozen=True)
class SchemaFacts:
    """By all names and the OID, in lower case."""

    attributes: dict[str, Definition]
    classes: dict[str, Definition]

    @classmethod
    def of(cls, schema: Schema) -> SchemaFacts:
        found: dict[str, dict[str, Definition]] = {"attribute": {}, "class": {}}
        for kind, name, aliases, builtin, stored, keys in schema.facts():
            one = Definition(name, builtin, stored, keys)
            found[kind] |= {text.lower(): one for text in aliases}
        return cls(found["attribute"], found["class"])

    def is_builtin(self, description: str) -> bool:
        one = self.attributes.get(_base(description))
        return one is not None and one.builtin

    def called(self, description: str) -> str:
        """In lower case, with the first name of the type; as it is, if the type is unknown."""
        base, semicolon, options = description.lower().partition(";")
        one = self.attributes.get(base)
        return f"{one.name.lower() if one else base}{semicolon}{options}"

    def lacks_class(self, before: SchemaFacts) -> bool:
        return any(name not in self.classes for name in before.classes)

    def differences(self, before: SchemaFacts, used: Iterable[str]) -> tuple[Difference, ...]:
        """Of the attributes that are `used`, and of object classes, which have other superiors."""
        found = [self._difference(before, _base(name)) for name in used]
        superiors = [
            Difference(f"object class {one.name}", True)
            for name, one in before.classes.items()
            if name in self.classes and one.differs(self.classes[name])
        ]
        return (*(one for one in found if one is not None), *superiors)

    def _difference(self, before: SchemaFacts, name: str) -> Difference | None:
        one, other = before.attributes.get(name), self.attributes.get(name)
        if one is None or other is None or not one.differs(other):
            return None
        text = f"{other.name} is stored by {one.stored}, and the configuration has {other.stored}"
        return Difference(text, one.stored == other.stored)


def _base(description: str) -> str:
    return description.partition(";")[0].lower()


# --- made with -------------------------------------------------------------------------------------------------------
#
# Is this file what this configuration would have made? slapd trusts that it is, and nothing in the file tells.
#
# Where the configuration that it was made with is known, the two are compared; and in any case entries are held
# against the configuration and looked for in every index: all of them in a file that is read in seconds, else a
# sample, the newest entries among them. Index tables can be made again (indexing.py). What else differs is refused by
# name.


SAMPLE = 2048  # entries
ALL_UP_TO = 512 << 20  # bytes of a file all entries of which are looked at: seconds
_TOLD = 10_000  # problems of a kind that are looked through
_SHOWN = 5
# The schema, or what values are sorted by, is another one.
_OTHER = ("indexes.normal_form", "indexes.no_key", "indexes.order", "indexes.name")
# Values stand in the entry that `multival` puts into id2v: the next change of the entry makes slapd lose them. Or there
# are equal ones where `sortvals` has slapd put them in order: it cannot read the entry.
_SETTINGS = ("indexes.multival", "indexes.sortvals")
# No equality rule was there when the entries were written. Overlays store values so, too: where the configuration that
# the file was made with is known, the rules themselves are compared.
_WITHOUT_RULE = "indexes.no_normal_form"
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
    looked at. left_out: index tables that could not be, which are in `rebuild` too unless nothing differs."""

    rebuild: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    entries: int = 0
    left_out: tuple[str, ...] = ()

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
    place: Path, config: Config, database: Database, meter: Meter, origin: Origin | None = None, *, whole: bool = True
) -> Fit:
    """Of an environment directory, beside a running slapd if need be, or a data file that nobody writes to. Without
    `whole` never more than a sample is looked at."""
    facts = meta.read_meta(place)
    target = _target(config, database, place)
    if target is None:
        return Fit(rebuild=_configured(database))
    followed = _followed(target)
    known, used = SchemaFacts.of(target.schema), contents.attributes(place)
    before = _before(origin, place)
    compared = _Comparison.of(before, target.settings, known, used)
    every = compared.asks_for_all or (whole and not compared.is_equal and facts.used <= ALL_UP_TO)
    found = verify.audit(
        place, "indexes", Resources(limit=_TOLD), meter, mdb.database(followed), sample=0 if every else SAMPLE
    )
    unproven = () if compared.is_equal else found.left_out
    all_indexes = compared.all_indexes or followed is not target
    every_index = tuple(name for name, _ in target.settings.indexes)
    rebuild = every_index if all_indexes else compared.indexes
    return Fit(
        rebuild=tuple(dict.fromkeys((*rebuild, *found.drifted, *unproven))),
        unknown=tuple(dict.fromkeys((*target.schema.unknown(used), *_classes(found)))),
        otherwise=(*compared.otherwise, *_otherwise(found, known, of_unknown=before is None)),
        entries=found.entries if every else min(SAMPLE, found.entries),
        left_out=found.left_out,
    )


def _target(config: Config, database: Database, place: Path) -> Target | None:
    """What the configuration says of the file; None where it cannot be told."""
    try:
        return target_spec(config, database, place).target()
    except NotProven:
        return None


def _followed(target: Target) -> Target:
    """Without its indexes, if the core cannot make their keys: entries are looked at all the same."""
    try:
        native.require_keys(target.settings)
    except NotProven:
        return replace(target, settings=replace(target.settings, indexes=(), intlen=INTLEN))
    return target


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
        cls, before: tuple[Settings, SchemaFacts] | None, now: Settings, known: SchemaFacts, used: Sequence[str]
    ) -> _Comparison:
        if before is None:
            return cls(asks_for_all=bool(now.multival or now.sortvals))
        settings, schema = before
        differing = known.differences(schema, used)
        changed, lacks = tuple(_changed(settings, now)), known.lacks_class(schema)
        resorted = set(now.sortvals) - set(settings.sortvals)
        return cls(
            is_equal=not (differing or changed or lacks),
            asks_for_all=lacks or settings.multival != now.multival or bool(resorted),
            all_indexes=any(one.index_only for one in differing),
            indexes=changed,
            otherwise=tuple(one.text for one in differing if not one.index_only),
        )


def _configured(database: Database) -> tuple[str, ...]:
    return tuple(one.attribute for one in indexes.configured(database.indexes).values())


def _before(origin: Origin | None, place: Path) -> tuple[Settings, SchemaFacts] | None:
    """What the configuration of the origin says; None where it cannot be told."""
    if origin is None:
        return None
    try:
        target = _target(origin.config, origin.database, place)
    except (ConfigUnreadable, SettingRefused):
        return None
    return None if target is None else (target.settings, SchemaFacts.of(target.schema))


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


def _classes(found: AuditReport) -> Iterator[str]:
    """Object classes that the schema does not know; attribute types are in ad2i."""
    for problem in found.problems:
        if problem.kind == _SCHEMA:
            told = (one.message for one in problem.told if one.attribute == "objectClass")
            yield from (message.rpartition(" ")[2] for message in told)


def _otherwise(found: AuditReport, facts: SchemaFacts, *, of_unknown: bool) -> Iterator[str]:
    """What is compiled into slapd no configuration changes; slapd and its overlays store some of that otherwise.
    of_unknown: nothing is known of the configuration that the file was made with."""
    for problem in found.problems:
        if problem.kind in _OTHER:
            yield from _of(problem, lambda attribute: not facts.is_builtin(attribute))
        elif problem.kind in _SETTINGS or (of_unknown and problem.kind == _WITHOUT_RULE):
            yield from _of(problem)


def _of(problem: Problem, counts: Callable[[str], bool] = lambda _: True) -> Iterator[str]:
    """The first of each attribute that counts."""
    attributes = dict.fromkeys(one.attribute for one in problem.told)
    for attribute in attributes:
        if attribute is None or counts(attribute):
            first = next(one for one in problem.told if one.attribute == attribute)
            yield str(first)
