"""Checks whether a data file fits a configuration. slapd assumes this without a check, because the file does not record
with which configuration it was built.

If the original configuration is known, the two configurations are compared. In any case the core checks entries against
the present configuration, and looks them up in every index. It checks all entries if that takes only seconds, otherwise
a sample that includes the newest entries. Index tables that differ can be rebuilt, by the core or by slapindex. A file
with any other difference is refused, and the error names the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from loader import defaults, indexes, ldif, units
from loader.backmdb import INTLEN, Settings
from loader.child import Child
from loader.config import Config, Database
from loader.declared import AuditResources
from loader.errors import ConfigUnreadable, MadeOtherwise, MapFull, NotProven, SchemaMissing, SettingRefused, ToolFailed
from loader.mdb import contents, edits, meta, verify
from loader.mdb.verify import AuditReport
from loader.operations.build import native
from loader.operations.publish import TargetDatabase
from loader.operations.verify import core_target_of, target_spec
from loader.progress import Meter
from loader.server import tools
from loader.sinks import changing, mdb
from loader.sinks.mdb import Schema, Target

SAMPLE = 2048  # number of entries that are checked if the file is larger than ALL_UP_TO
ALL_UP_TO = 512 << 20  # bytes in use; all entries of a file up to this size are checked, which takes seconds
ROOM = 4  # map size for rebuilding indexes in one transaction, as a multiple of the bytes in use; the file grows less
_REPORTED = 10_000  # maximum number of problems of each kind that the core reports
_SHOWN = 5  # maximum number of differences named in one message
# Kinds of problems which show that the schema or the order of values differs.
_SCHEMA_PROBLEMS = ("indexes.normal_form", "indexes.no_key", "indexes.order", "indexes.name")
# Kinds of problems with `multival` and `sortvals`. Values that belong into id2v are in the entry itself, so slapd loses
# them when it next changes the entry. Or an entry has equal values of a `sortvals` attribute, so slapd cannot read it.
_SETTINGS = ("indexes.multival", "indexes.sortvals")
# Kind of problem: a value has no normalized form, as if its attribute had no equality rule. Overlays also store such
# values. So it is ignored if the original configuration is known, because then the rules are compared.
_WITHOUT_RULE = "indexes.no_normal_form"
_SCHEMA = "indexes.schema"


class Definition(Struct, frozen=True):
    """A schema definition. `builtin`: whether the definition is compiled into slapd. `stored`: the rules that determine
    how values are stored. `keys`: further rules, which determine only the index keys."""

    name: str
    builtin: bool
    stored: str
    keys: str

    def differs(self, other: Definition) -> bool:
        """Returns whether the two definitions lead to different data. Two built-in definitions count as equal."""
        same = (self.stored, self.keys) == (other.stored, other.keys)
        return not same and not (self.builtin and other.builtin)


class SchemaFacts(Struct, frozen=True):
    """The definitions of a schema, by OID and by each name, in lower case."""

    attributes: dict[str, Definition]
    classes: dict[str, Definition]

    @classmethod
    def of(cls, schema: Schema) -> SchemaFacts:
        kinds: dict[str, dict[str, Definition]] = {"attribute": {}, "class": {}}
        for kind, name, aliases, builtin, stored, keys in schema.facts():
            kinds[kind] |= dict.fromkeys(map(str.lower, aliases), Definition(name, builtin, stored, keys))
        return cls(kinds["attribute"], kinds["class"])


class Origin(Struct, frozen=True):
    """The original configuration of a file, and the database in that configuration."""

    config: Config
    database: Database


class Fit(Struct, frozen=True):
    """How a file fits a configuration. `rebuild`: index tables to rebuild. `unknown`: attribute types and object
    classes that the configuration lacks. `otherwise`: differences that cannot be repaired in place. `entries`: number
    of checked entries. `left_out`: index tables that the core cannot check (in `rebuild`, too, if they may differ)."""

    rebuild: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    entries: int = 0
    left_out: tuple[str, ...] = ()

    def require(self, path: Path, config: Config, advice: str) -> None:
        """Raises SchemaMissing or MadeOtherwise if the file does not fit."""
        if self.unknown:
            raise SchemaMissing(config=config.where, names=units.listed(self.unknown, _SHOWN, "; "))
        if self.otherwise:
            reason = units.listed(self.otherwise, _SHOWN, "; ")
            raise MadeOtherwise(path=path, config=config.where, reason=reason, advice=advice)


def look(
    path: Path, config: Config, database: Database, meter: Meter, origin: Origin | None = None, *, whole: bool = True
) -> Fit:
    """Checks `path`: a database directory, which slapd may have open, or a data file that no process writes. If `whole`
    is false, a sample is checked, unless only a check of all entries shows whether the file fits."""
    target = _target(config, database, path)
    if target is None:
        configured = indexes.configured(database.indexes).values()
        return Fit(rebuild=tuple(index.attribute for index in configured))
    checked = target
    try:
        native.require_keys(target.settings)
    except NotProven:  # the core cannot compute the index keys, so only the entries are checked
        checked = replace(target, settings=replace(target.settings, indexes=(), intlen=INTLEN))
    schema, used, before = SchemaFacts.of(target.schema), contents.attributes(path), None
    if origin is not None:
        with suppress(ConfigUnreadable, SettingRefused):
            original = _target(origin.config, origin.database, path)
            before = None if original is None else (original.settings, SchemaFacts.of(original.schema))

    compared = _compare(before, target.settings, schema, used)
    every = compared.needs_all or (whole and not compared.is_equal and meta.read_meta(path).used <= ALL_UP_TO)
    limits = AuditResources(limit=_REPORTED)
    audit = verify.audit(path, "indexes", limits, meter, mdb.Database(checked), sample=0 if every else SAMPLE)

    rebuild = compared.indexes
    if compared.all_indexes or checked is not target:
        rebuild = tuple(name for name, _ in target.settings.indexes)
    unproven = () if compared.is_equal else audit.left_out
    # ad2i lists all attribute types, but object classes are only in entries.
    examples = [example for problem in audit.problems if problem.kind == _SCHEMA for example in problem.examples]
    classes = [example.message.rpartition(" ")[2] for example in examples if example.attribute == "objectClass"]
    return Fit(
        rebuild=tuple(dict.fromkeys((*rebuild, *audit.drifted, *unproven))),
        unknown=tuple(dict.fromkeys((*target.schema.unknown(used), *classes))),
        otherwise=(*compared.otherwise, *_otherwise(audit, schema, of_unknown=before is None)),
        entries=audit.entries if every else min(SAMPLE, audit.entries),
        left_out=audit.left_out,
    )


def _target(config: Config, database: Database, path: Path) -> Target | None:
    """Returns the configured database as a target, or None if the core does not support the configuration."""
    try:
        target = target_spec(config, database, path)
        _ = target.schema
    except NotProven:
        return None
    return target


class _Comparison(Struct, frozen=True):
    """The comparison of two configurations. `is_equal`: both are known, and yield the same file. `needs_all`: only a
    check of all entries shows whether the differences matter. `indexes`: the indexes whose keys may differ; with
    `all_indexes`, every index. `otherwise`: differences in how values are stored."""

    is_equal: bool = False
    needs_all: bool = False
    all_indexes: bool = False
    indexes: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()


def _compare(
    before: tuple[Settings, SchemaFacts] | None, now: Settings, schema: SchemaFacts, used: Iterable[str]
) -> _Comparison:
    """Compares the original settings and schema, if known, with the present ones. `used`: attributes in use."""
    if before is None:
        return _Comparison(needs_all=bool(now.multival or now.sortvals))
    settings, former = before
    pairs = [(former.attributes.get(name), schema.attributes.get(name)) for name in map(ldif.type_of, used)]
    attributes = [(old, new) for old, new in pairs if old is not None and new is not None and new.differs(old)]
    classes = [new.differs(former.classes[name]) for name, new in schema.classes.items() if name in former.classes]
    lacks = not former.classes.keys() <= schema.classes.keys()
    resorted = set(now.sortvals) - set(settings.sortvals)
    # An index is listed if its keys may differ or be missing. Superfluous keys do no harm.
    every = (settings.hash64, settings.intlen, settings.attribute_options) != (
        (now.hash64, now.intlen, now.attribute_options)
    ) or now.idlexp < settings.idlexp
    kinds = {name.lower(): set(kinds) for name, kinds in settings.indexes}
    changed = tuple(
        name
        for name, types in now.indexes
        if every or ("sub" in types and settings.substr != now.substr) or set(types) - kinds.get(name.lower(), set())
    )
    return _Comparison(
        is_equal=not (attributes or any(classes) or changed or lacks),
        needs_all=lacks or settings.multival != now.multival or bool(resorted),
        # Index keys also depend on the superiors of classes, and on rules that do not affect the stored values.
        all_indexes=any(classes) or any(old.stored == new.stored for old, new in attributes),
        indexes=changed,
        otherwise=tuple(
            f"{new.name} is stored according to {old.stored}, but the configuration has {new.stored}"
            for old, new in attributes
            if old.stored != new.stored
        ),
    )


def _otherwise(audit: AuditReport, schema: SchemaFacts, *, of_unknown: bool) -> Iterator[str]:
    """Yields the first problem of each attribute. Skips schema problems of built-in attributes: no configuration
    changes these, but slapd stores some values differently. `of_unknown`: the original configuration is unknown."""
    for problem in audit.problems:
        of_schema = problem.kind in _SCHEMA_PROBLEMS
        if of_schema or problem.kind in _SETTINGS or (of_unknown and problem.kind == _WITHOUT_RULE):
            firsts = {example.attribute: example for example in reversed(problem.examples)}
            for attribute in dict.fromkeys(example.attribute for example in problem.examples):
                definition = schema.attributes.get(ldif.type_of(attribute or ""))
                if not (of_schema and definition and definition.builtin):
                    yield str(firsts[attribute])


# --- rebuilding indexes ----------------------------------------------------------------------------------------------


class Rebuilt(Struct, frozen=True, omit_defaults=True):
    """`indexed`: attributes whose indexes were rebuilt. `index_notes`: a note if slapindex rebuilt them."""

    indexed: tuple[str, ...]
    index_notes: tuple[str, ...] = ()


def rebuild(place: TargetDatabase, directory: Path, attributes: Sequence[str], scratch: Path, meter: Meter) -> Rebuilt:
    """Rebuilds indexes of a copy of the database `place`. The copy is in `directory`, and no other process has it open.
    Raises MapFull, NoSpace, ToolFailed."""
    if not attributes:
        return Rebuilt(())
    room = max(place.database.maxsize, ROOM * meta.read_meta(directory).used)
    try:
        target = replace(core_target_of(place.config, place.database, directory), map_size=room)
        rebuild_by_core(target, directory, attributes, scratch, meter)
        return Rebuilt(tuple(attributes))
    except NotProven as error:
        note = slapindex_note(error)

    # slapindex only adds keys, so the index tables must be emptied first.
    edits.empty_indexes(directory, [name.partition(";")[0] for name in attributes])
    settings: dict[str, Sequence[bytes]] = {
        "olcDbDirectory": [str(directory).encode()],
        "olcDbMaxSize": [str(room).encode()],
        "olcDbEnvFlags": [],  # with writemap, the file would become as long as its map
    }
    meter.note = f"slapindex {' '.join(attributes)}"
    if lines := index_lines_of(place.database.indexes, attributes):
        settings["olcDbIndex"] = lines
    with place.private_configuration(scratch, settings) as copy:
        command = tools.server_tool("slapindex", "-q", "-F", str(copy), "-b", place.database.suffix)
        run_slapindex(command, directory, room, meter)
    return Rebuilt(tuple(attributes), (note,))


def rebuild_by_core(target: Target, directory: Path, attributes: Sequence[str], scratch: Path, meter: Meter) -> None:
    """Rebuilds the indexes of all `attributes`, or of none if there is an error. The file grows to at most
    `target.map_size` bytes. Raises NotProven, MapFull, NoSpace, MdbDamaged, TargetInUse."""
    limits = mdb.Resources(defaults.sorting_memory(), defaults.processors(), scratch)
    changing.rebuild(directory, target, tuple(attributes), limits, meter)


def slapindex_note(error: NotProven) -> str:
    """Returns a note for the operator on why slapindex was used."""
    return f"slapindex built the indexes, which takes longer: {error.facts['reason']}"


def run_slapindex(command: Sequence[str], directory: Path, map_size: int, meter: Meter) -> None:
    """Runs a command that calls slapindex. Raises MapFull, ToolFailed."""
    with Child(command) as child, meter.cancelling(child.kill):
        try:
            child.check()
        except ToolFailed as error:
            if "MDB_MAP_FULL" in " ".join(child.stderr_lines):
                raise MapFull(path=directory, map_size=units.size(map_size)) from error
            raise ToolFailed(**{**error.facts, "tool": "slapindex"}) from error


def index_lines_of(lines: Sequence[str], attributes: Sequence[str]) -> list[bytes]:
    """Returns olcDbIndex values for these attributes only; none if an attribute is configured by another name.
    slapindex gets no attributes as arguments, because it sorts these by memory address, and then skips some."""
    names, configured = {name.lower() for name in attributes}, indexes.parse(lines)
    if not names <= configured.keys():
        return []
    return [str(index).encode() for key, index in configured.items() if key in names]
