"""Would this configuration have made this file? slapd trusts that it did, and nothing in the file tells.

If the configuration that the file was made with is known, the two are compared. In any case the core checks entries
against the configuration and looks them up in every index: all entries of a file that is read in seconds, else a sample
that includes the newest ones. Index tables can be made again, by the core, or by slapindex where the core is not
proven. Every other difference is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from loader import defaults, indexes, units
from loader.backmdb import INTLEN, Settings
from loader.child import Child
from loader.config import Config, Database
from loader.declared import AuditResources
from loader.errors import ConfigUnreadable, MadeOtherwise, MapFull, NotProven, SchemaMissing, SettingRefused, ToolFailed
from loader.mdb import contents, edits, meta, verify
from loader.mdb.verify import AuditReport
from loader.operations.build import native
from loader.operations.publish import TargetDatabase
from loader.operations.verify import given_to_core, target_spec
from loader.progress import Meter
from loader.server import tools
from loader.sinks import changing, mdb
from loader.sinks.mdb import Schema, Target

SAMPLE = 2048  # entries
ALL_UP_TO = 512 << 20  # bytes of a file all entries of which are checked: seconds
ROOM = 4  # times the file, for the transaction; LMDB does not make the file larger for it
_REPORTED = 10_000  # problems of a kind that the core reports
_SHOWN = 5
# The schema, or what values are sorted by, is another one.
_OTHER = ("indexes.normal_form", "indexes.no_key", "indexes.order", "indexes.name")
# Values are in the entry that `multival` puts into id2v: the next change of the entry makes slapd lose them. Or equal
# values are where `sortvals` has slapd put them in order: it cannot read the entry.
_SETTINGS = ("indexes.multival", "indexes.sortvals")
# There was no equality rule when the entries were written. Overlays store values so, too: if the configuration that the
# file was made with is known, the rules themselves are compared.
_WITHOUT_RULE = "indexes.no_normal_form"
_SCHEMA = "indexes.schema"


class Definition(Struct, frozen=True):
    """`builtin`: compiled into slapd. `stored`: what decides how values are stored; `keys`: what besides decides their
    index keys."""

    name: str
    builtin: bool
    stored: str
    keys: str

    def differs(self, other: Definition) -> bool:
        """Two versions of slapd may differ in what is compiled in."""
        same = (self.stored, self.keys) == (other.stored, other.keys)
        return not same and not (self.builtin and other.builtin)


class SchemaFacts(Struct, frozen=True):
    """By all names and the OID, in lower case."""

    attributes: dict[str, Definition]
    classes: dict[str, Definition]

    @classmethod
    def of(cls, schema: Schema) -> SchemaFacts:
        kinds: dict[str, dict[str, Definition]] = {"attribute": {}, "class": {}}
        for kind, name, aliases, builtin, stored, keys in schema.facts():
            kinds[kind] |= dict.fromkeys(map(str.lower, aliases), Definition(name, builtin, stored, keys))
        return cls(kinds["attribute"], kinds["class"])


def _base(description: str) -> str:
    return description.partition(";")[0].lower()


class Origin(Struct, frozen=True):
    """The configuration that a file was made with, and the database in it."""

    config: Config
    database: Database


class Fit(Struct, frozen=True):
    """`rebuild`: index tables that have to be made again. `unknown`: attribute types and object classes that the
    configuration lacks. `otherwise`: differences that cannot be mended in place. `entries`: how many were checked.
    `left_out`: index tables that could not be checked; they are in `rebuild`, too, unless nothing differs."""

    rebuild: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    entries: int = 0
    left_out: tuple[str, ...] = ()

    def require(self, path: Path, config: Config, advice: str) -> None:
        """Raises SchemaMissing, MadeOtherwise."""
        if self.unknown:
            raise SchemaMissing(config=config.where, names=units.listed(self.unknown, _SHOWN, "; "))
        if self.otherwise:
            reason = units.listed(self.otherwise, _SHOWN, "; ")
            raise MadeOtherwise(path=path, config=config.where, reason=reason, advice=advice)


def look(
    place: Path, config: Config, database: Database, meter: Meter, origin: Origin | None = None, *, whole: bool = True
) -> Fit:
    """Checks an environment directory, beside a running slapd if need be, or a data file that nobody writes to. Without
    `whole` never more than a sample is checked."""
    target = _target(config, database, place)
    if target is None:
        configured = indexes.configured(database.indexes).values()
        return Fit(rebuild=tuple(one.attribute for one in configured))
    checked = target
    try:
        native.require_keys(target.settings)
    except NotProven:  # the core cannot make the keys of its indexes; entries are checked all the same
        checked = replace(target, settings=replace(target.settings, indexes=(), intlen=INTLEN))
    schema, used, before = SchemaFacts.of(target.schema), contents.attributes(place), None
    if origin is not None:
        with suppress(ConfigUnreadable, SettingRefused):
            made = _target(origin.config, origin.database, place)
            before = None if made is None else (made.settings, SchemaFacts.of(made.schema))

    compared = _compare(before, target.settings, schema, used)
    every = compared.asks_for_all or (whole and not compared.is_equal and meta.read_meta(place).used <= ALL_UP_TO)
    limits = AuditResources(limit=_REPORTED)
    audit = verify.audit(place, "indexes", limits, meter, mdb.Database(checked), sample=0 if every else SAMPLE)

    rebuild = compared.indexes
    if compared.all_indexes or checked is not target:
        rebuild = tuple(name for name, _ in target.settings.indexes)
    unproven = () if compared.is_equal else audit.left_out
    # Attribute types that the schema lacks are in ad2i, object classes only in entries.
    in_entries = [one for problem in audit.problems if problem.kind == _SCHEMA for one in problem.told]
    classes = [one.message.rpartition(" ")[2] for one in in_entries if one.attribute == "objectClass"]
    return Fit(
        rebuild=tuple(dict.fromkeys((*rebuild, *audit.drifted, *unproven))),
        unknown=tuple(dict.fromkeys((*target.schema.unknown(used), *classes))),
        otherwise=(*compared.otherwise, *_otherwise(audit, schema, of_unknown=before is None)),
        entries=audit.entries if every else min(SAMPLE, audit.entries),
        left_out=audit.left_out,
    )


def _target(config: Config, database: Database, place: Path) -> Target | None:
    """The database as the configuration describes it; None if that is not proven."""
    try:
        target = target_spec(config, database, place)
        _ = target.schema
    except NotProven:
        return None
    return target


class _Comparison(Struct, frozen=True):
    """Of two configurations. `indexes`: those whose keys are made otherwise. `asks_for_all`: only a check of every
    entry tells whether the differences matter. `is_equal`: both are known, and make the same file."""

    is_equal: bool = False
    asks_for_all: bool = False
    all_indexes: bool = False
    indexes: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()


def _compare(
    before: tuple[Settings, SchemaFacts] | None, now: Settings, schema: SchemaFacts, used: Iterable[str]
) -> _Comparison:
    """`used`: the attributes that the database has."""
    if before is None:
        return _Comparison(asks_for_all=bool(now.multival or now.sortvals))
    settings, former = before
    pairs = [(former.attributes.get(name), schema.attributes.get(name)) for name in map(_base, used)]
    attributes = [(old, new) for old, new in pairs if old is not None and new is not None and new.differs(old)]
    classes = [new.differs(former.classes[name]) for name, new in schema.classes.items() if name in former.classes]
    lacks = not former.classes.keys() <= schema.classes.keys()
    resorted = set(now.sortvals) - set(settings.sortvals)
    # Indexes whose keys were made otherwise, or not at all. Superfluous keys do no harm.
    every = (settings.hash64, settings.intlen, settings.attribute_options) != (
        (now.hash64, now.intlen, now.attribute_options)
    ) or now.idlexp < settings.idlexp
    kinds = {name.lower(): set(kinds) for name, kinds in settings.indexes}
    changed = tuple(
        name
        for name, wanted in now.indexes
        if every or ("sub" in wanted and settings.substr != now.substr) or set(wanted) - kinds.get(name.lower(), set())
    )
    return _Comparison(
        is_equal=not (attributes or any(classes) or changed or lacks),
        asks_for_all=lacks or settings.multival != now.multival or bool(resorted),
        # Classes with other superiors, and rules of keys alone, change index keys.
        all_indexes=any(classes) or any(old.stored == new.stored for old, new in attributes),
        indexes=changed,
        otherwise=tuple(
            f"{new.name} is stored by {old.stored}, and the configuration has {new.stored}"
            for old, new in attributes
            if old.stored != new.stored
        ),
    )


def _otherwise(audit: AuditReport, schema: SchemaFacts, *, of_unknown: bool) -> Iterator[str]:
    """The first problem of each attribute. No configuration changes what is compiled into slapd; slapd and its overlays
    store some of that otherwise. `of_unknown`: the configuration that the file was made with is unknown."""
    for problem in audit.problems:
        other = problem.kind in _OTHER
        if other or problem.kind in _SETTINGS or (of_unknown and problem.kind == _WITHOUT_RULE):
            firsts = {one.attribute: one for one in reversed(problem.told)}
            for attribute in dict.fromkeys(one.attribute for one in problem.told):
                definition = schema.attributes.get(_base(attribute or ""))
                if not (other and definition and definition.builtin):
                    yield str(firsts[attribute])


# --- indexes made again ----------------------------------------------------------------------------------------------


class Rebuilt(Struct, frozen=True, omit_defaults=True):
    """`indexed`: attributes whose indexes were made again. `index_notes`: the tool that made them, if that was not the
    core."""

    indexed: tuple[str, ...]
    index_notes: tuple[str, ...] = ()


def rebuild(place: TargetDatabase, directory: Path, attributes: Sequence[str], scratch: Path, meter: Meter) -> Rebuilt:
    """Makes indexes again in a copy of the database in `directory`, which nobody else uses. Raises MapFull, NoSpace,
    ToolFailed."""
    if not attributes:
        return Rebuilt(())
    room = max(place.database.maxsize, ROOM * meta.read_meta(directory).used)
    try:
        target = replace(given_to_core(place.config, place.database, directory), map_size=room)
        by_core(target, directory, attributes, scratch, meter)
        return Rebuilt(tuple(attributes))
    except NotProven as error:
        why = by_slapindex_because(error)

    # slapindex only adds, so the tables are emptied first. Not synced.
    edits.empty_indexes(directory, [name.partition(";")[0] for name in attributes])
    settings: dict[str, Sequence[bytes]] = {
        "olcDbDirectory": [str(directory).encode()],
        "olcDbMaxSize": [str(room).encode()],
        "olcDbEnvFlags": [],  # writemap makes the file as long as its map
    }
    meter.note = f"slapindex {' '.join(attributes)}"
    if lines := only(place.database.indexes, attributes):
        settings["olcDbIndex"] = lines
    with place.private_configuration(scratch, settings) as copy:
        command = tools.server_tool("slapindex", "-q", "-F", str(copy), "-b", place.database.suffix)
        run_slapindex(command, directory, room, meter)
    return Rebuilt(tuple(attributes), (why,))


def by_core(target: Target, directory: Path, attributes: Sequence[str], scratch: Path, meter: Meter) -> None:
    """Makes all of the indexes or changes nothing; `target.map_size` is how large the file may become. Raises NotProven
    before it changes anything, MapFull, NoSpace, MdbDamaged, TargetInUse."""
    limits = mdb.Resources(defaults.sorting_memory(), defaults.processors(), scratch)
    changing.rebuild(directory, target, tuple(attributes), limits, meter)


def by_slapindex_because(error: NotProven) -> str:
    """A note."""
    return f"slapindex made the indexes, which takes longer: {error.facts['reason']}"


def run_slapindex(command: Sequence[str], directory: Path, map_size: int, meter: Meter) -> None:
    """Raises MapFull, ToolFailed."""
    with Child(command) as child, meter.cancelling(child.kill):
        try:
            child.check()
        except ToolFailed as error:
            if "MDB_MAP_FULL" in " ".join(child.stderr_lines):
                raise MapFull(path=directory, map_size=units.size(map_size)) from error
            raise ToolFailed(**{**error.facts, "tool": "slapindex"}) from error


def only(lines: Sequence[str], attributes: Sequence[str]) -> list[bytes]:
    """The configured indexes of these attributes, in place of arguments of slapindex: given several, it sorts them by
    address unless the first is the one of the lowest address, and then makes only part of them. Empty, for all indexes,
    if one is configured by another name."""
    wanted, configured = {name.lower() for name in attributes}, indexes.parse(lines)
    if not wanted <= configured.keys():
        return []
    return [str(one).encode() for key, one in configured.items() if key in wanted]
