"""The steps of a build by the native core: one call reads the input once, and writes the data file.

A configuration is refused, with the name of the setting, if the core is not proven to build the same database as slapd.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import xxhash

from loader import backmdb, defaults, ldif, units
from loader.backmdb import Settings, definitions, schema_effects
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
from loader.mdb import verify
from loader.mdb.meta import DATA
from loader.mdb.snapshot import Snapshot
from loader.operations import sizing
from loader.operations.build.steps import BuildOptions, BuildSteps, Loaded, Outcome, Scanned
from loader.operations.options import FULL
from loader.operations.publish import Checked, Published, TargetDatabase
from loader.operations.sizing import Limits, require_room
from loader.progress import Meter
from loader.run.log import killpoint
from loader.run.steps import Run
from loader.server import tools
from loader.server.tools import Release
from loader.sinks import mdb
from loader.sinks.mdb import BuildRules, Built, LiveSource, Resources, Table, Target, Transferred, definitions_of
from loader.storage import files

STEPS = ("config", "scan", "schema", "load", "check", "publish")
LARGEST = 1 << 46  # bytes of the map if maxsize is chosen after the load; a process can map as many
OLDEST, NEWEST = (2, 4, 57), (2, 8, 0)  # the first supported release, and the first release that is too new
MOST_ENTRIES = 2**32 - 3  # maximum number of entries in a database, as in the core's positions.rs
LONGEST_INTLEN = 8  # maximum bytes of an integer key; longer keys were never compared with slapd's
_SINCE: dict[Table, Release] = {"id2v": (2, 5, 0), "ixck": (2, 6, 0)}
# Settings of cn=config that do not change how entries are stored.
_INDIFFERENT = ("olcaccess", "olclimits", "olcrootpw", "olcsyncrepl")
_ENV_FLAGS = {"nosync", "nometasync", "writemap", "mapasync", "nordahead"}  # slapd-mdb(5)


def proven_settings(
    config: Config, database: Database, options: BuildOptions, superior: Database | None = None
) -> Settings:
    """Returns the settings of the database. Raises NotProven or SettingRefused for an unsupported setting."""
    backmdb.require_supported(config, database, superior or database)
    of_2_7 = (tools.release() or OLDEST) >= (2, 7, 0)
    settings = backmdb.settings(config, database, superior, of_2_7)
    require_keys(settings)
    for flag in database.env_flags:
        if flag.lower() not in _ENV_FLAGS:
            raise NotProven(reason=f"envflags {flag}")
    if settings.subentry and options.write_context:
        raise NotProven(reason="sync_use_subentry puts contextCSN into an entry of its own")
    followed = (*(name for name, _ in settings.indexes), *settings.sortvals)
    if options.write_context and not options.seeding and "contextcsn" in map(str.lower, followed):
        raise NotProven(reason="contextCSN is indexed or sorted (sortvals), which slapadd -w does not follow")
    return settings


def require_keys(settings: Settings) -> None:
    """Raises NotProven if the core cannot compute slapd's index keys for these settings on this host."""
    if sys.byteorder != "little" or struct.calcsize("P") != 8:
        raise NotProven(reason="this host is not a 64-bit one with the low byte first")
    if settings.intlen > LONGEST_INTLEN:
        raise NotProven(reason=f"index_intlen is {settings.intlen}, more than {LONGEST_INTLEN}")


def require_numbers(entries: int | None, options: BuildOptions, source: str = "") -> None:
    """Raises TooManyEntries if `entries` (None: unknown) do not fit into a database. `source`: the name of their source
    in the message, if the entries are not in input files."""
    if entries is not None and entries > MOST_ENTRIES:
        path = source or ", ".join(map(str, options.inputs)) or "the template"
        counts = f"{units.number(entries)} entries, at most {units.number(MOST_ENTRIES)} in a database"
        raise TooManyEntries(path=path, reason=counts)


def require_rules(foreign: Mapping[str, str], unproven: Mapping[str, str]) -> None:
    """Raises NotProven if an attribute type has a rule or syntax that the core cannot apply. Both parameters map
    attribute types to rules: `foreign` to rules that are not OpenLDAP's own, `unproven` to rules that an index,
    multival or sortvals needs but the core does not have."""
    for name, rule in sorted(foreign.items()):
        raise NotProven(reason=f"{name} has {rule}, which a module that is not OpenLDAP's defines")
    for name, rule in sorted(unproven.items()):
        raise NotProven(reason=f"{name}, which the configuration indexes or sorts, has {rule}")


def tables() -> tuple[Table, ...]:
    """Returns the optional tables that the installed slapd has. Raises NotProven for an unsupported release."""
    release = tools.release()
    if release is None:
        raise NotProven(reason="slapd -VV does not say which OpenLDAP this is")
    if not OLDEST <= release < NEWEST:
        name, oldest = (".".join(map(str, version)) for version in (release, OLDEST))
        raise NotProven(reason=f"OpenLDAP {name}; supported are {oldest} to 2.7")
    return tuple(name for name, since in _SINCE.items() if release >= since)


def made_for(config: Config, database: Database, options: BuildOptions) -> str:
    """Returns a checksum of slapd's release, the schema, and the settings that determine how entries are stored (all
    settings, if the core does not support the configuration). A run is resumed only if the checksum is the same."""
    try:
        settings: object = proven_settings(config, database, options)
    except NotProven:
        settings = [setting for setting in sorted(config.settings.items()) if setting[0][1] not in _INDIFFERENT]
    deciding = (tools.release(), settings, definitions(config, ()), schema_effects(config, database))
    return xxhash.xxh3_128_hexdigest(repr(deciding).encode())


class NativeLoaded(Loaded, frozen=True, kw_only=True):
    """`left_out`: number of entries that were read but not stored, the sum of `read_twice` and `without_parent`.
    `tables`: table -> number of values. `records`: checksum of copied records. `completed`: checksum of
    the attributes that the build added. `stale`: number of entries that were removed after the build."""

    left_out: int
    tables: dict[str, int]
    phases: dict[str, float] | None = None
    records: str = ""
    completed: str = ""
    read_twice: int = 0
    without_parent: int = 0
    stale: int = 0


def prepared(options: BuildOptions, run: Run, place: TargetDatabase) -> Callable[[], Outcome]:
    """Builds and checks the database. Returns a function that publishes it."""
    work = NativeSteps(options, run, place)
    run.do("config", work.config)
    scan: Scanned | None = None
    if options.seeding:  # the contextCSN must be known before the first entry is written
        scan = scanned = run.do("scan", work.scan, Scanned)
        run.do("schema", lambda meter: work.require_schema(scanned))
    total = scan.entries if scan else options.source.entries()
    require_numbers(total, options)
    claimed = scan.claimed if scan else None
    loaded = run.do("load", lambda meter: work.load(meter, claimed), NativeLoaded, total)
    checked = run.do("check", lambda meter: work.check(meter, loaded), Checked)
    return lambda: Outcome(loaded, run.do("publish", lambda meter: work.put_into_place(checked), Published))


def require(options: BuildOptions, place: TargetDatabase) -> None:
    """Raises NotProven if the core does not support this configuration."""
    target_of(options, place)


def target_of(options: BuildOptions, place: TargetDatabase) -> Target:
    """Returns the target for the core. Raises NotProven. A replica may have dynamic objects without slapo-dds, because
    syncrepl does not check the schema."""
    config, maxsize = place.config, limits_of(options, place).maxsize
    settings = proven_settings(config, place.database, options, place.superior)
    effects = schema_effects(config, place.named)
    effects["dynamic_objects"] |= options.seeding
    server_id = (config.server_id or 0) if options.server_id is None else options.server_id
    map_size = LARGEST if maxsize is None else maxsize
    target = Target(settings, tuple(definitions_of(config)), effects, tables(), map_size, server_id)
    require_rules(target.schema.foreign(), target.schema.unproven(settings.attributes))
    return target


def sample_target(config: Config, database: Database) -> Target:
    """Returns the configured database as a target for the build of a sample. Raises NotProven."""
    place = TargetDatabase(config, database, database.directory or Path())
    return target_of(BuildOptions(config.path, suffix=database.suffix), place)


def limits_of(options: BuildOptions, place: TargetDatabase) -> Limits:
    setting = place.database.maxsize if options.maxsize is None else options.maxsize
    maxsize = None if isinstance(setting, str) else setting
    return Limits(place.database.suffix, maxsize, place.directory if options.check_space else None)


def predicted(options: BuildOptions, target: Target, meter: Meter, is_rough: bool = False) -> int:
    """Returns the expected bytes of the database, from a sample of the files. Returns 0 for a generated tree, and for
    invalid input, which the load reports with its line."""
    if options.tree is not None:
        return 0
    try:
        return sizing.of_files(target, options.files, meter, is_rough).bytes
    except (EmptyInput, LdifSyntax, LdifTruncated, LdifEncoding, IncludeRefused):
        return 0


@dataclass(frozen=True)
class NativeSteps(BuildSteps):
    """The bodies of the steps. Other verbs also use `make`, `transfer` and `check`."""

    @property
    def rejects(self) -> Path:
        return self.options.rejects or self.run.directory / "rejects.ldif"

    @cached_property
    def target(self) -> Target:
        return target_of(self.options, self.place)

    def config(self, meter: Meter) -> None:
        """Checks the configuration, and the directory of the file for rejects, before any input is read."""
        with files.explained(self.rejects):
            self.rejects.parent.stat()
        files.require_writable(self.rejects.parent)
        _ = self.target

    def load(self, meter: Meter, claimed: Sequence[str] | None) -> NativeLoaded:
        """Samples the input files, and raises MaxsizeTooSmall or NoSpace if the database would not fit. Then builds the
        database with one native call."""
        options = self.options
        if options.tree is None and not options.files.streamed:
            require_room(
                limits_of(options, self.place),
                lambda: sizing.at_most(options.files),
                lambda: sizing.ROUGHLY * predicted(options, self.target, Meter("sample"), is_rough=True),
                lambda: predicted(options, self.target, Meter("sample")),
            )
        with options.source.reading(meter) as read:
            loaded = self.make(meter, read, claimed)
        ldif.require_read(options.inputs, loaded.read)
        return loaded

    def make(
        self,
        meter: Meter,
        read: Sequence[mdb.Input],
        claimed: Sequence[str] | None,
        live: LiveSource | None = None,
        account: bool = False,
    ) -> NativeLoaded:
        """Builds the database from the inputs. `claimed`, `live` and `account`: as in `loader.sinks.mdb`. Raises
        AllRejected if no entry is accepted, because an empty database must not replace another."""
        options = self.options
        value_check: mdb.ValueCheck = (
            "count" if options.copies_provider else "refuse" if options.check_values else "skip"
        )
        rules = BuildRules(
            now=options.input_time(),
            rejects_path=self.rejects,
            first=options.first,
            value_check=value_check,
            check_schema=options.check_schema,
            complete_naming=options.complete_naming,
            account=account,
            as_slapadd=options.as_slapadd,
            file_urls=options.file_urls,
            max_rejects=options.max_rejects,
            write_context=self.writes_context,
            claimed=claimed,
        )
        with self._making() as (partial, limits):
            built = mdb.build(self.target, read, partial, rules, limits, meter, live)
        if built.rejected and not built.entries:
            first = built.rejections[0]
            raise AllRejected(
                path=", ".join(map(str, options.inputs)) or "the input",
                rejected=units.number(built.rejected),
                dn=first.dn,
                reason=first.reason,
                rejects=self.rejects,
            )
        if built.stale:
            from loader.mdb import edits  # imported here: only builds from a live server need it

            edits.remove_entries(self.environment, built.stale)
        return NativeLoaded(
            built.read,
            built.entries,
            built.rejected,
            _invalid(built),
            str(self.rejects) if built.rejected else "",
            list(map(ldif.rejected, built.rejections)),
            left_out=built.duplicates + built.dropped,
            tables=built.tables,
            phases=built.phases,
            completed=built.completed if account else "",
            read_twice=built.duplicates,
            without_parent=built.dropped,
            stale=len(built.stale),
        )

    def transfer(self, meter: Meter, source: Snapshot) -> NativeLoaded:
        """Copies the records of a database. Raises NotProven if the new slapd would store a record differently."""
        with self._making() as (partial, limits):
            copied = mdb.transfer(self.target, source, partial, limits, meter)
        entries, checksum = copied.entries, copied.checksum
        return NativeLoaded(entries, entries, 0, _invalid(copied), left_out=0, tables=copied.tables, records=checksum)

    def records_checksum(self, meter: Meter) -> str:
        """Reads the records that `transfer` wrote to the file, and returns their checksum."""
        jobs = self.options.jobs or defaults.processors()
        return mdb.records_checksum(self.data, jobs, meter)

    @contextmanager
    def _making(self) -> Iterator[tuple[Path, Resources]]:
        """Yields a temporary path for the new data file, and resources for its build. Renames the file afterwards."""
        files.emptied(self.environment)
        with files.explained(self.rejects):
            self.rejects.unlink(missing_ok=True)
        partial = self.environment / (DATA + files.PARTIAL)
        with self._limits() as limits:
            yield partial, limits
        killpoint("load.middle")
        files.publish(partial, self.data)

    @contextmanager
    def _limits(self) -> Iterator[Resources]:
        """Yields memory, threads, and a directory for data that memory cannot hold: in the directory of --tmp, with a
        random name, or in the run directory, where the next run removes the files of a killed run."""
        options, scratch = self.options, self.run.directory / "sort"
        with ExitStack() as stack:
            with files.explained(options.scratch or scratch):
                if options.scratch:
                    scratch = stack.enter_context(files.temporary_directory("sort", options.scratch))
                else:
                    files.emptied(scratch)
                    stack.callback(files.remove_tree, scratch)
            memory, jobs = options.memory or defaults.sorting_memory(), options.jobs or defaults.processors()
            yield Resources(memory, jobs, scratch)

    def check(self, meter: Meter, loaded: NativeLoaded) -> Checked:
        """Checks that each entry that was read is in the database, left out or rejected, and that the database is
        sound. The level `none` only compares the counts."""
        (notes, maxsize), level, written = self.complete(meter), self.options.verify, loaded.entries
        if level in verify.DEEPER:
            verify.verify(self.data, level, meter)
        if level != "none":
            with self._limits() as limits:
                unchanged = not loaded.stale
                written = mdb.verify(self.target, self.data, level == FULL, limits, meter, unchanged)
        if not loaded.read - loaded.rejected - loaded.left_out == loaded.entries == written:
            raise EntriesLost(read=loaded.read, written=written, log=self.run.directory)
        return Checked(files.identity(self.data), loaded.entries, maxsize, notes)


def _invalid(built: Built | Transferred) -> list[str]:
    """Returns a line for each attribute: how many of its values violate their syntax."""
    return [f"{count} of {name} ({syntax})" for name, syntax, count in built.misfits]
