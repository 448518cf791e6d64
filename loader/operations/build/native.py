"""The steps of a build by the native core: one call reads the input once, and writes the data file.

A configuration for which the core is not proven to write what slapd would is refused by name, before any work.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import xxhash

from loader import backmdb, exports, ldif, resources, units
from loader.backmdb import Settings
from loader.config import Config, Database
from loader.errors import (
    AllRejected,
    EmptyInput,
    EntriesLost,
    IncludeRefused,
    LdifEncoding,
    LdifSyntax,
    LdifTruncated,
    NotProven,
    TooManyEntries,
)
from loader.mdb import edits, meta, verify
from loader.mdb.meta import DATA
from loader.mdb.snapshot import Snapshot
from loader.operations.build import finish, inputs
from loader.operations.build.options import FULL, BuildOptions
from loader.operations.publish import TargetDatabase
from loader.operations.room import Limits, choose_maxsize, require_room
from loader.operations.sizing import sampled
from loader.progress import Meter
from loader.run.log import Facts, killpoint
from loader.run.steps import Run
from loader.schema import definitions, effects
from loader.server import tools
from loader.server.tools import Release
from loader.sinks import mdb
from loader.sinks.mdb import BuildRules, Built, LiveSource, Resources, Table, Target, Transferred, schema_of
from loader.storage import files

STEPS = ("config", "scan", "schema", "load", "check", "publish")
LARGEST = 1 << 46  # bytes of the map, within what a process can map, if maxsize is chosen after the load
OLDEST, NEWEST = (2, 4, 57), (2, 8, 0)  # proven from the one on, and before the other
MOST_ENTRIES = 2**32 - 3  # as positions.rs of the core has it
LONGEST_INTLEN = 8  # bytes of a key; longer ones were never compared
_SINCE: dict[Table, Release] = {"id2v": (2, 5, 0), "ixck": (2, 6, 0)}
# Settings of cn=config that say who may do what, and nothing about the data.
_INDIFFERENT = ("olcaccess", "olclimits", "olcrootpw", "olcsyncrepl")
_ENV_FLAGS = {"nosync", "nometasync", "writemap", "mapasync", "nordahead"}  # slapd-mdb(5)


def proven_settings(
    config: Config, database: Database, options: BuildOptions, superior: Database | None = None
) -> Settings:
    """What the configuration says of the database, as `backmdb.settings` has it. Raises NotProven,
    SettingRefused."""
    backmdb.require(config, database, superior or database)
    found = backmdb.settings(config, database, superior, is_2_7())
    require_keys(found)
    for flag in database.env_flags:
        if flag.lower() not in _ENV_FLAGS:
            raise NotProven(reason=f"envflags {flag}")
    if found.subentry and options.write_context:
        raise NotProven(reason="sync_use_subentry puts contextCSN into an entry of its own")
    return found


def require_keys(found: Settings) -> None:
    """Are the index keys of such settings known, on this host? Raises NotProven."""
    if sys.byteorder != "little" or struct.calcsize("P") != 8:
        raise NotProven(reason="this host is not a 64-bit one with the low byte first")
    if found.intlen > LONGEST_INTLEN:
        raise NotProven(reason=f"index_intlen is {found.intlen}, more than {LONGEST_INTLEN}")


def require_numbers(entries: int | None, options: BuildOptions, source: str = "") -> None:
    """Before the first of so many entries is read; None: nobody knows. `source`: where they are, if that is no file.
    Raises TooManyEntries."""
    if entries is not None and entries > MOST_ENTRIES:
        inputs = source or ", ".join(map(str, options.inputs)) or "the template"
        counts = f"{units.number(entries)} entries, at most {units.number(MOST_ENTRIES)} in a database"
        raise TooManyEntries(path=inputs, reason=counts)


def require_rules(foreign: Mapping[str, str], unproven: Mapping[str, str]) -> None:
    """`foreign`: attribute types of the schema, with a matching rule or syntax that is not OpenLDAP's own.
    `unproven`: those that the settings name (index, multival, sortvals), with one that the core does not follow."""
    for name, rule in sorted(foreign.items()):
        raise NotProven(reason=f"{name} has {rule}, which a module brings that is not OpenLDAP's")
    for name, rule in sorted(unproven.items()):
        raise NotProven(reason=f"{name}, which the configuration indexes or sorts, has {rule}")


def tables() -> tuple[Table, ...]:
    """Which of the tables that not every slapd has are there with the installed one."""
    release = tools.release()
    if release is None:
        raise NotProven(reason="slapd -VV does not say which OpenLDAP this is")
    if not OLDEST <= release < NEWEST:
        raise NotProven(reason=f"OpenLDAP {_text(release)}; it is from {_text(OLDEST)} up to 2.7")
    return tuple(name for name, since in _SINCE.items() if release >= since)


def is_2_7() -> bool:
    """Whether the installed slapd is of OpenLDAP 2.7 or later."""
    return (tools.release() or OLDEST) >= (2, 7, 0)


def _text(release: Release) -> str:
    return ".".join(map(str, release))


def made_for(config: Config, database: Database, options: BuildOptions) -> str:
    """Checksum of what decides how entries are stored: the release of slapd, the schema, and the settings that the data
    depend on, or all settings if the core does not follow them. A run does not go on under another one."""
    try:
        settings: object = proven_settings(config, database, options)
    except NotProven:
        settings = [one for one in sorted(config.settings.items()) if one[0][1] not in _INDIFFERENT]
    deciding = (tools.release(), settings, definitions(config, ()), effects(config, database))
    return xxhash.xxh3_128_hexdigest(repr(deciding).encode())


def prepared(options: BuildOptions, run: Run, place: TargetDatabase) -> Callable[[], Facts]:
    """The steps up to a database that is made and checked; the call that publishes it. Each is done once."""
    work = NativeSteps(options, run, place)
    run.do("config", work.config)
    scan: Facts = {}
    if options.seeding:  # the contextCSN must be known before the first entry is written
        scan = run.do("scan", work.scan)
        run.do("schema", lambda meter: work.schema(scan))
    total = scan.get("entries") or options.source.entries()
    require_numbers(total, options)
    loaded = run.do("load", lambda meter: work.load(meter, scan), total=total)
    checked = run.do("check", lambda meter: work.check(meter, loaded))
    return lambda: {**loaded, **run.do("publish", lambda meter: work.publish(loaded, checked))}


def plan(options: BuildOptions, run: Run, place: TargetDatabase) -> None:
    """Is it proven that the core makes what slapd would?"""
    require_numbers(options.source.entries(), options)
    run.do("config", NativeSteps(options, run, place).config)


def require(options: BuildOptions, place: TargetDatabase) -> None:
    """The same, without a step. Raises NotProven."""
    assert target_of(options, place)


def target_of(options: BuildOptions, place: TargetDatabase) -> Target:
    """What the configuration says now. Raises NotProven."""
    maxsize = place.database.maxsize if options.maxsize is None else options.maxsize
    settings = proven_settings(place.config, place.database, options, place.superior)
    known = schema_of(place.config, place.named, settings.attribute_options, seeding=options.seeding)
    require_rules(known.foreign(), known.unproven(settings.attributes))
    return Target(
        settings=settings,
        schema=known,
        tables=tables(),
        map_size=LARGEST if isinstance(maxsize, str) else maxsize,
        server_id=finish.server_id(options, place),
    )


def sample_target(config: Config, database: Database) -> Target:
    """For builds of a sample: the database as it is configured, wherever its directory is. Raises NotProven."""
    place = TargetDatabase(config, database, database.directory or Path())
    return target_of(BuildOptions(config.path, suffix=database.suffix), place)


def limits_of(options: BuildOptions, place: TargetDatabase) -> Limits:
    chosen = place.database.maxsize if options.maxsize is None else options.maxsize
    maxsize = None if isinstance(chosen, str) else chosen
    return Limits(place.database.suffix, maxsize, place.directory if options.check_space else None)


@dataclass(frozen=True)
class NativeSteps:
    """The steps' bodies. Each can be done again from its beginning."""

    options: BuildOptions
    run: Run
    place: TargetDatabase

    @property
    def made(self) -> Path:
        """The environment being made."""
        return self.run.directory / "environment"

    @property
    def rejects(self) -> Path:
        return self.options.rejects or self.run.directory / "rejects.ldif"

    @cached_property
    def target(self) -> Target:
        return target_of(self.options, self.place)

    def config(self, meter: Meter) -> Facts:
        """What is refused is refused here, before anything is read."""
        with files.explained(self.rejects):
            self.rejects.parent.stat()
        files.require_writable(self.rejects.parent)
        return {"tables": self.target.tables}

    def scan(self, meter: Meter) -> Facts:
        return inputs.scan(self.options, self.place, meter)

    def schema(self, scan: Facts) -> Facts:
        inputs.require_schema(self.place, scan, self.run.directory)
        return {}

    def load(self, meter: Meter, scan: Facts) -> Facts:
        """One native call; what it could not take is told, or refused."""
        self._require_room()
        with self.options.source.reading(meter) as read:
            loaded = self.make(meter, read, scan.get("claimed"))
        exports.require_entries(self.options.inputs, loaded["read"])
        return loaded

    def make(
        self,
        meter: Meter,
        read: Sequence[mdb.Input],
        claimed: Sequence[str] | None,
        beside: LiveSource | None = None,
        account: bool = False,
    ) -> Facts:
        """The database of what is read. `claimed`, `beside` and `account` as in `loader.sinks.mdb`."""
        with self._making() as (partial, means):
            how = (self._rules(claimed, account), means, meter)
            built = mdb.build(self.target, read, partial, *how, beside=beside)
        self._require_accepted(built)
        if built.stale:
            edits.remove_entries(self.made, built.stale)
        return {**self._told(built), **({"completed": built.completed} if account else {})}

    def _require_accepted(self, built: Built) -> None:
        """However many may be rejected: a database without entries must not replace another one. Raises AllRejected."""
        if built.rejected and not built.entries:
            first = built.rejections[0]
            raise AllRejected(
                path=", ".join(map(str, self.options.inputs)) or "the input",
                rejected=units.number(built.rejected),
                dn=first.dn,
                reason=first.reason,
                rejects=self.rejects,
            )

    def transfer(self, meter: Meter, source: Snapshot) -> Facts:
        """The database of the records of another one, as they are. Raises NotProven where they would be others."""
        with self._making() as (partial, means):
            made = mdb.transfer(self.target, source, partial, means, meter)
        return {
            "read": made.entries,
            "entries": made.entries,
            "rejected": 0,
            "left_out": 0,
            "records": made.checksum,
            "tables": made.tables,
            **_misfits(made),
        }

    def records_checksum(self, meter: Meter) -> str:
        """Of what `transfer` made, as the disk has it."""
        jobs = self.options.jobs or resources.processors()
        return mdb.records_checksum(self.made / DATA, jobs, meter)

    @contextmanager
    def _making(self) -> Iterator[tuple[Path, Resources]]:
        """A place for the new file, which is there under its own name afterwards, and what may be used."""
        files.remove_tree(self.made)
        self.made.mkdir(mode=0o700)
        with files.explained(self.rejects):
            self.rejects.unlink(missing_ok=True)
        partial = self.made / (DATA + files.PARTIAL)
        with self._scratch() as scratch:
            yield partial, self._means(scratch)
        killpoint("load.middle")
        files.publish(partial, self.made / DATA)

    def _require_room(self) -> None:
        """Raises MaxsizeTooSmall or NoSpace before the load; `--maxsize auto` chooses the size afterwards. A stream
        cannot be sampled."""
        given = self.options.files
        if self.options.tree is None and not given.streamed:
            require_room(limits_of(self.options, self.place), self._predicted, sampled.at_most(given))

    def _predicted(self) -> int:
        """0 for faulty input: the load reports the fault with its line."""
        try:
            return sampled.of_files(self.target, self.options.files, Meter("sample")).bytes
        except (EmptyInput, LdifSyntax, LdifTruncated, LdifEncoding, IncludeRefused):
            return 0

    def _rules(self, claimed: Sequence[str] | None, account: bool) -> BuildRules:
        options = self.options
        return BuildRules(
            now=inputs.input_time(options),
            first=options.first,
            value_check=self._value_check(),
            check_schema=options.check_schema,
            complete_naming=options.complete_naming,
            account=account,
            file_urls=options.file_urls,
            max_rejects=options.max_rejects,
            write_context=options.write_context and not options.seeding,
            claimed=claimed,
        )

    def _value_check(self) -> mdb.ValueCheck:
        """A consumer gets what its provider has, whatever got in there long ago."""
        if self.options.seeding or self.options.claimed is not None:  # the latter: a part of one
            return "count"
        return "refuse" if self.options.check_values else "skip"

    def _means(self, scratch: Path) -> Resources:
        options = self.options
        return Resources(
            memory=options.memory or resources.sorting_memory(),
            jobs=options.jobs or resources.processors(),
            scratch=scratch,
            rejects=self.rejects,
        )

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        """A place for what does not fit into memory; of the same name each time, so that a kill leaves nothing long."""
        name = "sort-" + hashlib.sha256(bytes(self.run.name)).hexdigest()[:12]
        place = (self.options.scratch or self.run.directory) / name
        files.remove_tree(place)
        with files.explained(place):
            place.mkdir(mode=0o700)
        try:
            yield place
        finally:
            files.remove_tree(place)

    def _told(self, built: Built) -> Facts:
        kept = {"rejects": str(self.rejects)} if built.rejected else {}
        return {
            "read": built.read,
            "entries": built.entries,
            "rejected": built.rejected,
            "left_out": built.duplicates + built.dropped,
            **({"read_twice": built.duplicates} if built.duplicates else {}),
            **({"without_parent": built.dropped} if built.dropped else {}),
            **({"stale": len(built.stale)} if built.stale else {}),
            "rejections": [ldif.rejected(one) for one in built.rejections],
            "phases": built.phases,
            "tables": built.tables,
            **kept,
            **_misfits(built),
        }

    def check(self, meter: Meter, loaded: Facts) -> Facts:
        """Every entry that was read is in the database or among the rejects, and the database is sound."""
        finish.complete(self.options, self.made, self.place, meter)
        facts = meta.read_meta(self.made)
        changing = self.options.target is None
        maxsize = choose_maxsize(self.place, facts.used, self.options.maxsize, changing)
        if maxsize != facts.map_size:
            edits.set_map_size(self.made / DATA, maxsize)
        written = self._verified(meter, loaded)
        expected = loaded["read"] - loaded["rejected"] - loaded["left_out"]
        if expected != written or loaded["entries"] != written:
            raise EntriesLost(read=loaded["read"], written=written, log=self.run.directory)
        told = finish.notes(self.place, self.made)
        return {"identity": files.identity(self.made / DATA), "maxsize": maxsize, **told}

    def _verified(self, meter: Meter, loaded: Facts) -> int:
        """Entries as counted in the file; at level `none` as told."""
        level = self.options.verify
        if level in verify.DEEPER:
            verify.verify(self.made, level, meter)
        if level == "none":
            return int(loaded["entries"])
        with self._scratch() as scratch:
            means = self._means(scratch)
            new = not loaded.get("stale")
            return mdb.verify(self.target, self.made / DATA, level == FULL, means, meter, new)

    def publish(self, loaded: Facts, checked: Facts) -> Facts:
        counts = (loaded["entries"], checked["maxsize"])
        return finish.publish(self.options, self.place, self.made, checked, *counts)


def _misfits(built: Built | Transferred) -> Facts:
    """Values that their syntax forbids, as the report shows them."""
    told = [f"{count} of {name} ({syntax})" for name, syntax, count in built.misfits]
    return {finish.INVALID: told} if told else {}
