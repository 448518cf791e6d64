"""Strategy clone: a hot copy of an existing database, in use or not, stamped with the contextCSN that it stands for.

A running provider stores its contextCSN only now and then (syncprov-checkpoint) and at its end, so the one in the copy
is old. The copy covers the contextCSN that the provider told *before* the copy began: every change up to it was
committed.

If the consumer's LMDB has another data format (OpenLDAP 2.6 and 2.7), the parts of `ditseed migrate` bring the records
into a file of that format, or make the entries again; all other steps are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from loader import backmdb, csn, dn
from loader import config as glue
from loader.errors import GlueRefused, LoaderError, NoContextCSN, NoSuchSuffix
from loader.mdb import contents, copy, edits, meta, verify
from loader.mdb.edits import cap_entry_csns
from loader.mdb.meta import DATA
from loader.operations import made_with, migrate
from loader.operations.build import native
from loader.operations.build.steps import INVALID
from loader.operations.made_with import Fit, Origin
from loader.operations.migrate import AGAIN, MigrateOptions, MigrateSteps
from loader.operations.publish import TargetDatabase, publish_environment
from loader.operations.room import choose_maxsize
from loader.progress import Meter, Progress
from loader.run.log import Facts, killpoint
from loader.run.steps import Run
from loader.server import configuration, tools
from loader.server.session import session
from loader.storage import files
from seeders.replica.strategies import SeedOptions
from seeders.replica.strategies.stopped import TAKES, StoppedConsumer

COMPARE = "compare"  # the step that a clone of pages does not need
CONVERTED = "converted"  # among the facts of the step `schema`: from which format to which
TOLD = (CONVERTED, AGAIN, INVALID)  # in the report
_ANEW = (
    "Make the database anew from the entries: --strategy search, or --strategy ldif with the output of "
    "`ditseed export DATABASE-DIRECTORY`."
)


class CloneSteps:
    """The steps' bodies. Each can be done again from its beginning."""

    def __init__(self, options: SeedOptions, place: TargetDatabase, source: Path, run: Run) -> None:
        self.options, self.place, self.source, self.run = options, place, source, run
        self.suffix, self.made = place.database.suffix, run.directory / "environment"

    def copied(self) -> Facts:
        return self.run.do("copy", self.copy)

    def copy(self, meter: Meter) -> Facts:
        files.remove_tree(self.made)
        self.made.mkdir(mode=0o700)
        facts = meta.read_meta(self.source)
        maxsize = choose_maxsize(self.place, facts.pages * facts.page_size, self.options.maxsize)
        copy.hot_copy(self.source, self.made, meter)
        killpoint("copy.middle")
        files.publish(self.made / copy.PARTIAL, self.made / DATA)
        return {"maxsize": maxsize}

    def stamp(self, meter: Meter) -> Facts:
        preflight = self.run.catalogue.found("preflight") or {}
        live = csn.by_server(preflight.get("context_csns", []))
        stored = csn.by_server(contents.context_csns(self.made, self.suffix))
        known = claimable_context_csn(live, stored, contents.newest_csns(self.made, self.suffix, whole=False))
        if not known:
            advice = "Give -H (and -D, -y) of the server whose database this is, to ask it before the copy."
            raise NoContextCSN(where=self.source, suffix=self.suffix, advice=advice, commands=())
        claimed = sorted(known.values())
        held = cap_entry_csns(self.made, claimed, backmdb.idlexp(self.place.config), meter)
        edits.stamp(self.made, self.suffix, claimed)
        return {"context_csns": claimed, "held_back": held}

    def index(self, meter: Meter) -> Facts:
        """slapd trusts that the file has the indexes of its configuration; where they differ, make them so."""
        told = (self.run.catalogue.found("schema") or {}).get("rebuild", [])
        made = made_with.rebuild(self.place, self.made, told, self.run.directory, meter)
        return {"indexed": told, **({"index_notes": list(made.notes)} if made.notes else {})}

    def check(self, meter: Meter) -> Facts:
        verify.verify(self.made, self.options.verify, meter)
        verify.require_unique_uuids(self.made, meter, self.run.directory)
        return {"entries": contents.entry_count(self.made), "identity": files.identity(self.made / DATA)}

    def publish(self, copied: Facts, checked: Facts) -> Facts:
        counts = (checked["entries"], copied["maxsize"])
        published = publish_environment(self.made, self.place, checked, *counts)
        files.remove_tree(self.made)
        return published


def claimable_context_csn(
    live: Mapping[str, str], stored: Mapping[str, str], newest: Mapping[str, str]
) -> dict[str, str]:
    """The contextCSN a copy may claim. Claiming less costs a little more replication, claiming more loses changes: what
    the provider told counts only as far as the copy's own entries reach (it might be of another, slower server)."""
    known = dict(stored)
    for sid, told in live.items():
        reached = min(told, newest[sid]) if sid in newest else None
        if reached is not None and reached > known.get(sid, ""):
            known[sid] = reached
    return known


@dataclass(frozen=True)
class Conversion:
    """Of the database in `source` for the consumer's slapd, which is installed here."""

    asked: SeedOptions
    place: TargetDatabase
    source: Path

    @cached_property
    def _formats(self) -> tuple[int, int]:
        """Data formats: the source's, and the consumer's."""
        found = meta.read_meta(self.source).format
        return found, tools.lmdb_format() or found

    @property
    def is_needed(self) -> bool:
        before, after = self._formats
        return before != after

    @property
    def told(self) -> str:
        before, after = self._formats
        return f"data format {before} to {after}"

    @property
    def options(self) -> MigrateOptions:
        """Of a migration with the same result but for the contextCSN."""
        return MigrateOptions(
            source=self.source,
            target=self.place.directory,
            config_path=self.place.config.path,
            suffix=self.place.database.suffix,
            replace=self.asked.replace,
            maxsize=self.asked.maxsize,
        )

    def require(self) -> None:
        """Raises NotProven for a configuration that the core does not follow."""
        native.require(self.options.building(self.place), self.place)

    def estimate(self, progress: Progress) -> Facts:
        """From the first entries, which are converted apart. Raises what they are refused for, MaxsizeTooSmall,
        NoSpace."""
        source = contents.summarise(self.source, newest=False)
        found = migrate.planned(self.options, self.place, source, progress, strict=True)
        size = max(found["needed"] or 0, files.allocated_bytes(meta.data_file(self.source)))
        files.require_space(self.place.directory, size)
        return {"entries": source.entries, "bytes": size, CONVERTED: self.told, "copy_seconds": found["seconds"]}


class ConvertingSteps(CloneSteps):
    """Whatever the consumer's slapd would store otherwise is made again."""

    @cached_property
    def _migrating(self) -> MigrateSteps:
        options = Conversion(self.options, self.place, self.source).options
        return MigrateSteps(options, self.run, self.place)

    def copied(self) -> Facts:
        """What was made is compared with what was read before the stamp changes it."""
        loaded = self.run.do("copy", self.copy)
        return self.run.do(COMPARE, lambda meter: self.compare(meter, loaded), loaded["entries"])

    def copy(self, meter: Meter) -> Facts:
        """Of one snapshot, which is held while a slapd writes. Raises NoSpace, MapFull, MadeOtherwise,
        SchemaMissing."""
        copy.require_space(self.source, self.place.directory)
        loaded = self._migrating.load(meter)
        killpoint("copy.middle")
        return loaded

    def compare(self, meter: Meter, loaded: Facts) -> Facts:
        """Raises MdbDamaged, EntriesLost, MaxsizeTooSmall."""
        self._migrating.compare(meter, loaded)
        checked = self._migrating.building.check(meter, loaded)
        told = {name: loaded[name] for name in TOLD if loaded.get(name)}
        return {"maxsize": checked["maxsize"], **told}


class Clone(StoppedConsumer):
    takes = TAKES | {"source"}
    steps = ("preflight", "schema", "copy", COMPARE, "stamp", "index", "check", "publish")

    def __init__(self, options: SeedOptions) -> None:
        super().__init__(options)
        if len(options.source) != 1:
            self._lacks("one --from: a database directory")
        (self.source,) = options.source

    @cached_property
    def conversion(self) -> Conversion:
        return Conversion(self.options, self.place, self.source)

    def require_buildable(self) -> None:
        """A clone is of one database, and nothing tells whether copies of several are of the same moment."""
        for one in glue.subordinates(self.place.config, self.place.database):
            reason = f"the database of {one.suffix} holds a part of the same tree, and a clone is of one database"
            advice = "Use --strategy search or ldif."
            suffix = self.place.database.suffix
            raise GlueRefused(suffix=suffix, reason=reason, advice=advice)

    def estimate(self, progress: Progress) -> Facts:
        with progress.step("schema") as meter:
            found = self.fit(meter)
        if self.conversion.is_needed:
            return self.conversion.estimate(progress)
        size = files.allocated_bytes(self.source / DATA)
        files.require_space(self.place.directory, size)
        return {"bytes": size, "indexed": list(found.rebuild)}

    def fit(self, meter: Meter) -> Fit:
        """The consumer must know what the entries use, and have made them so itself, unless they are converted. Raises
        NoSuchSuffix, SchemaMissing, MadeOtherwise, NotProven."""
        path, config = meta.data_file(self.source), self.place.config
        self.require_suffix()
        found = made_with.look(self.source, config, self.place.database, meter, self._origin())
        if self.conversion.is_needed:
            self.conversion.require()
            found = Fit(unknown=found.unknown, entries=found.entries)
        found.require(path, config, _ANEW)
        return found

    def _origin(self) -> Origin | None:
        """The configuration of the server whose database this is, as far as the account may read it."""
        if self.options.connection is None:
            return None
        try:
            with session(self.options.connection) as provider:
                config = configuration.read_online(provider)
            return Origin(config, config.database(self.place.database.suffix))
        except LoaderError:
            return None

    def require_suffix(self) -> None:
        """Is the tree in that database at all? Raises NoSuchSuffix."""
        suffix = self.place.database.suffix
        known = contents.summarise(self.source, newest=False).suffixes
        if dn.key(suffix) and dn.key(suffix) not in map(dn.key, known):
            there = ", ".join(known) or "none"
            raise NoSuchSuffix(config=self.source, suffix=suffix, known=there)

    def schema(self, meter: Meter) -> Facts:
        found = self.fit(meter)
        converts = {CONVERTED: self.conversion.told} if self.conversion.is_needed else {}
        return {"rebuild": list(found.rebuild), "looked_at": found.entries, **converts}

    def fill(self, run: Run) -> Facts:
        looked = run.do("schema", self.schema)
        steps = ConvertingSteps if CONVERTED in looked else CloneSteps
        work = steps(self.options, self.place, self.source, run)
        copied = work.copied()
        stamped = run.do("stamp", work.stamp)
        indexed = run.do("index", work.index)
        checked = run.do("check", work.check)
        published = run.do("publish", lambda meter: work.publish(copied, checked))
        found = {**looked, **copied}
        converted = {name: found[name] for name in TOLD if name in found}
        return {**checked, **stamped, **indexed, **converted, **published}
