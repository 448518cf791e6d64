"""Rebuilds a database for a slapd of another version, with another LMDB, or with another configuration.

Steps: look, config, load, check, compare, publish. The records are copied unchanged from the pages of the old database
if the new slapd would store them in the same way. Otherwise the entries are piped as LDIF into the native core, which
builds the new database as the new slapadd would.
"""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import msgspec

from loader import backmdb, defaults, ldif, plain
from loader.errors import (
    EmptyInput,
    EntryRefused,
    LoaderError,
    MadeOtherwise,
    MdbDamaged,
    MissingParents,
    NotProven,
    UsageProblem,
)
from loader.mdb import contents, meta, readers, snapshot
from loader.mdb.contents import DatabaseSummary
from loader.operations import sizing
from loader.operations.build import native, steps
from loader.operations.build.native import NativeLoaded, NativeSteps, made_for
from loader.operations.build.steps import BuildOptions
from loader.operations.options import MigrateOptions
from loader.operations.publish import Checked, Published, TargetDatabase, existing, head_digest
from loader.operations.sizing import choose_maxsize, require_room
from loader.piped import piped
from loader.progress import Meter, Progress
from loader.run.log import Report, recorded, report_of
from loader.run.steps import Run, open_run
from loader.server import configuration, tools
from loader.sources import mdb, sampling
from loader.sources.mdb import Part
from loader.sources.sampling import SampleSize
from loader.storage import files

STEPS = ("look", "config", "load", "check", "compare", "publish")
RUN_DIR = ".ditseed-migrate"  # subdirectory of the target, so that publishing is a rename within one file system
_SIZE = SampleSize(10_000, 0.0)
_ROUGH = SampleSize(1000, 0.0)
_LARGEST = 8  # upper bound of the new size, even with more indexes, as a multiple of the bytes in use in the old file
_SAMPLE = 32 << 20  # bytes of LDIF; these are about 60,000 entries, which are built in one or two seconds


def _identity(options: MigrateOptions) -> dict[str, object]:
    """Returns the options that must not change between a run and its resumption."""
    return {
        "source": str(options.source.absolute()),
        "config": str(options.config_path.absolute()),
        "suffix": options.suffix,
        "maxsize": options.maxsize,
    }


def _building(options: MigrateOptions, place: TargetDatabase) -> BuildOptions:
    """Returns build options that keep the entries unchanged, as for a replica, and accept invalid values."""
    is_elsewhere = not files.same(place.database.directory, options.target)
    return BuildOptions(
        config_path=options.config_path,
        suffix=place.database.suffix,
        replace=options.replace,
        maxsize=options.maxsize,
        verify=options.verify,
        seeding=True,
        target=options.target if is_elsewhere else None,
        memory=options.memory,
        jobs=options.jobs,
        scratch=options.scratch,
        check_space=options.check_space,
        glue=False,
    )


def source_of(options: MigrateOptions) -> DatabaseSummary:
    """Summarises the source. Raises NotLmdb, MdbDamaged, MdbProtected, NoSuchPath, NotPermitted, EmptyInput,
    UsageProblem."""
    mdb.require_database(options.source)
    if files.same(options.source, options.target):
        raise UsageProblem(
            reason=f"{options.target} is the source itself: name another directory for the new database, and keep the "
            "old one until the new slapd has proven to work"
        )
    summary = contents.summarise(options.source, newest=False)
    if not summary.entries:
        raise EmptyInput(path=options.source)
    return summary


def place_of(options: MigrateOptions, source: DatabaseSummary) -> TargetDatabase:
    """Returns the target database. Raises NoSuchSuffix, ManySuffixes, NotMdb, ConfigUnreadable, SettingRefused."""
    config = configuration.read(options.config_path)
    database = config.database_of(source.suffixes, "the source", options.suffix)
    backmdb.require_supported(config, database)
    return TargetDatabase(config, database, options.target.absolute(), options.replace)


class Planned(msgspec.Struct, frozen=True):
    """The forecast of a migration. `seconds`, `needed` (bytes) and `maxsize` are None if the first entries cannot be
    built without the others. `lacking`: names that the new schema lacks. `problems`: errors that would stop it."""

    problems: list[str] = []
    seconds: float | None = None
    needed: int | None = None
    maxsize: int | None = None
    lacking: list[str] = []
    free: int = 0


def planned(
    options: MigrateOptions, place: TargetDatabase, source: DatabaseSummary, progress: Progress, strict: bool = False
) -> Planned:
    """Returns the time and space that the migration needs, and the problems that would stop it. With `strict`, raises
    the first problem. Raises NotProven for a configuration that the core does not support."""
    place.require_free()
    with (
        files.temporary_directory("plan", configuration.tools_tmpdir()) as scratch,
        open_run(Path(scratch), "plan", {}, progress) as run,
    ):
        work = MigrateSteps(options, run, place)
        run.do("config", work.building.config)
        lacking = work.lacking([])
        problems: list[str] = []
        seconds = size = maxsize = None
        with progress.step("sample") as meter:
            text, is_all = _first_records(options)
            try:
                seconds = round(_seconds_per_entry(work, text, meter) * source.entries, 1)
                size, maxsize = needed(options, work.building, Meter("room")), place.database.maxsize
                changing = work.build_options.target is None
                maxsize = choose_maxsize(place, size, options.maxsize, changing=changing)
                require_room(native.limits_of(work.build_options, place), lambda: size)
            except LoaderError as error:
                # MissingParents is no problem here: the parent may be newer, and so not among the first entries.
                if not isinstance(error, MissingParents) or is_all:
                    if strict:
                        raise
                    problems.append(str(error))
    return Planned(problems, seconds, size, maxsize, lacking, files.free_bytes(place.directory))


def _first_records(options: MigrateOptions) -> tuple[bytes, bool]:
    """Returns the first records of the database as LDIF, and whether these are all of its records."""

    def write(descriptor: int) -> mdb.Exported:
        return mdb.stream(Part(options.source), descriptor, options.jobs or 1, Meter("sample"))

    with piped(write, "sample") as (descriptor, _), os.fdopen(os.dup(descriptor), "rb") as file:
        text = file.read(_SAMPLE)
    is_all = len(text) < _SAMPLE
    return text if is_all else text[: text.rfind(b"\n\n") + 2], is_all


def _seconds_per_entry(work: MigrateSteps, text: bytes, meter: Meter) -> float:
    """Builds the first entries and reads them back. Returns the seconds per entry."""

    def write(descriptor: int) -> None:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(text)

    work = MigrateSteps(replace(work.options, maxsize="auto"), work.run, work.place)
    began = time.monotonic()
    with piped(write, "sample") as (descriptor, _):
        built = work.building.make(meter, [descriptor], None)
    with ldif.digesting((), Meter("digest")) as tree:
        mdb.digest(Part(work.building.environment), tree, Meter("digest"))
    return (time.monotonic() - began) / built.entries


def needed(options: MigrateOptions, building: NativeSteps, meter: Meter, size: SampleSize = _SIZE) -> int:
    """Returns the expected bytes of the new database, from a sample; if none can be built, the bytes in use in the old
    database. The size of id2e is taken from the old database, because a sample may miss a few large entries."""
    facts, freed = readers.free_list(options.source)
    try:
        target = building.target
        forecast = sizing.forecast(sampling.of_database(options.source, size, meter), target, meter, timed=0.0)
    except (NotProven, EmptyInput):
        return facts.used - sum(freed.values()) * facts.page_size
    if target.settings.page_size != facts.page_size:
        return forecast.bytes
    sampled = sum(table.bytes for table in forecast.tables if table.name == "id2e")
    return forecast.bytes - sampled + contents.table_bytes(options.source)["id2e"]


def state_of(source: Path) -> list[int | str]:
    """Returns the state of a data file. Any write by LMDB or another program changes the state."""
    data = meta.data_file(source)
    status, head = data.stat(), head_digest(data, 2 * meta.read_meta(data).page_size)
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, head]


class MigrateLoaded(NativeLoaded, frozen=True, kw_only=True):
    """Facts of the step `load`. `late`: number of entries that precede their parents. `source_as_read`, `made_for`:
    results of `state_of` and `native.made_for`. `made_again`: why entries were rebuilt; empty if records were copied.
    Only for rebuilt entries: `in_source`, number of entries in the source; `checksum`, expected for the new tree."""

    context_csns: list[str]
    late: int
    source_as_read: list[int | str]
    made_for: str
    made_again: str = ""
    in_source: int | None = None
    checksum: str = ""


class MigrateSteps(msgspec.Struct, frozen=True, dict=True):
    """The bodies of the steps. Each can be repeated from its beginning."""

    options: MigrateOptions
    run: Run
    place: TargetDatabase

    @cached_property
    def build_options(self) -> BuildOptions:
        return _building(self.options, self.place)

    @cached_property
    def building(self) -> NativeSteps:
        return NativeSteps(self.build_options, self.run, self.place)

    def load(self, meter: Meter) -> MigrateLoaded:
        """Copies the records of a snapshot, or rebuilds all entries if the new slapd would store a record
        differently."""
        about: dict[str, object] = {
            "source_as_read": state_of(self.options.source),
            "made_for": made_for(self.place.config, self.place.database, self.build_options),
        }
        try:
            with snapshot.protected(self.options.source) as source_snapshot:
                loaded = self.building.transfer(meter, source_snapshot)
            about |= {"context_csns": contents.context_csns(self.building.data), "late": 0}
        except NotProven as error:
            loaded, source = self._rebuild(meter)
            # Tree checksums are additive modulo 2**128.
            total = (int(source.checksum, 16) + int(loaded.completed, 16)) % 2**128
            loaded = msgspec.structs.replace(loaded, completed="")
            about |= {
                "context_csns": list(source.context_csns),
                "late": source.late,
                "in_source": source.entries,
                "checksum": f"{total:032x}",
                "made_again": str(error.facts["reason"]),
            }
        return msgspec.convert(report_of(loaded, about), MigrateLoaded)

    def _rebuild(self, meter: Meter) -> tuple[NativeLoaded, mdb.Exported]:
        """Rebuilds the entries. Raises SchemaMissing or MadeOtherwise if the new slapd would refuse an entry."""
        inner, options, building = Meter("read"), self.options, self.building

        def read(descriptor: int) -> mdb.Exported:
            jobs, scratch = options.jobs or defaults.processors(), options.scratch or Path(tempfile.gettempdir())
            return mdb.stream(Part(options.source), descriptor, jobs, inner, scratch=scratch)

        with meter.cancelling(inner.cancel), piped(read, "read") as (descriptor, reading):
            try:
                loaded = building.make(meter, [descriptor], None, account=True)
            except EntryRefused as error:
                classes = list(ldif.scan([building.rejects], Meter("schema")).object_classes)
                steps.require_none_lacking(self.place.config, self.lacking(classes))
                advice = (
                    "Correct that entry in the old server, or the new configuration (schema, multival, dbpagesize); "
                    f"the entry is in {plain.with_operator_paths(str(building.rejects))}."
                )
                config = self.place.config.path
                raise MadeOtherwise(path=options.source, config=config, reason=error, advice=advice) from error
        return loaded, reading.result()

    def lacking(self, classes: Sequence[str]) -> list[str]:
        """Returns which object classes in `classes` and attributes in the source's ad2i the new schema lacks."""
        attributes = list(contents.attributes(self.options.source))
        return steps.unknown_names(self.place, attributes, classes, self.run.directory)

    def compare(self, meter: Meter, loaded: MigrateLoaded) -> None:
        """Raises MdbDamaged if the new database differs from the snapshot of the old one. Copied records are compared
        by checksum. Rebuilt entries are compared by number, and by a checksum that ignores slapadd's additions."""
        environment, source = self.building.environment, self.options.source
        if loaded.records:
            equal = self.building.records_checksum(meter) == loaded.records
        else:
            with ldif.digesting((), meter) as tree:
                mdb.digest(Part(environment), tree, meter)
            equal = (tree.entries, tree.checksum) == (loaded.in_source, loaded.checksum)
        if equal:
            return
        since = ", which was written to since it was read" if state_of(source) != loaded.source_as_read else ""
        command = shlex.join(["ditseed", "compare", str(source), plain.with_operator_paths(str(environment))])
        raise MdbDamaged(path=environment, reason=f"it differs from {source}{since}: `{command}` shows the entries")


def migrate(options: MigrateOptions, progress: Progress, timeouts: dict[str, float], restart: bool = False) -> Report:
    """Runs or resumes a migration. Returns the facts of its steps."""
    source = source_of(options)
    with existing(options.target.absolute(), options.source):
        place = place_of(options, source)
        run_dir, identity = place.directory / RUN_DIR, _identity(options)
        # If the source, the new slapd or its configuration has changed, the run must start over.
        with recorded(run_dir) as catalogue:
            loaded = catalogue.facts_of("load", MigrateLoaded) if catalogue else None
        is_stale = loaded is not None and (
            state_of(options.source) != loaded.source_as_read
            or made_for(place.config, place.database, _building(options, place)) != loaded.made_for
        )
        anew = place.begins_anew(run_dir, "migrate", identity, restart or is_stale)
        with open_run(run_dir, "migrate", identity, progress, timeouts, anew) as run:
            return _steps(options, run, place, source)


def _steps(options: MigrateOptions, run: Run, place: TargetDatabase, source: DatabaseSummary) -> Report:
    place.require_still_free(run)
    work = MigrateSteps(options, run, place)
    examined = run.do("look", lambda meter: examine(options, source), Examined)
    run.do("config", work.building.config)
    native.require_numbers(source.entries, work.build_options, str(options.source))
    if not run.catalogue.is_done("load"):
        limits = native.limits_of(work.build_options, place)
        at_most = meta.read_meta(options.source).used * _LARGEST

        def rough() -> float:
            return sizing.ROUGHLY * needed(options, work.building, Meter("sample"), _ROUGH)

        require_room(limits, lambda: at_most, rough, lambda: needed(options, work.building, Meter("sample")))
    loaded = run.do("load", work.load, MigrateLoaded, source.entries)
    checked = run.do("check", lambda meter: work.building.check(meter, loaded), Checked)
    run.do("compare", lambda meter: work.compare(meter, loaded), total=loaded.entries)
    published = run.do("publish", lambda meter: work.building.put_into_place(checked), Published)
    seconds = sum(step.seconds for step in run.catalogue.steps())
    speed = {"seconds": round(seconds, 3), "rate": round(loaded.entries / seconds)}
    return report_of(loaded, examined, {"compared": "equal"}, published, speed, run.done_before())


class Examined(msgspec.Struct, frozen=True):
    """The data formats before and after the migration, and the version of the new slapd."""

    source: str
    suffix: str
    format_before: int
    format: int | None
    slapd: str | None


def examine(options: MigrateOptions, source: DatabaseSummary) -> Examined:
    release = tools.release()
    return Examined(
        str(options.source),
        ", ".join(source.suffixes),
        meta.read_meta(options.source).format,
        tools.lmdb_format(),
        ".".join(map(str, release)) if release else None,
    )


def plan(options: MigrateOptions, progress: Progress) -> tuple[Report, bool]:
    """Returns what `migrate` would do, and whether it would succeed. Writes only to a temporary directory. Creates a
    missing TARGET during the call, because slapd's tools refuse a configuration whose directory is missing."""
    source = source_of(options)
    with existing(options.target.absolute(), options.source):
        slaptest = configuration.slaptest(options.config_path)
        foreseen = planned(options, place_of(options, source), source, progress) if slaptest.accepted else None
        facts = {
            "directory": str(options.target),
            "entries": source.entries,
            "slaptest": list(slaptest.lines),
            "accepted": slaptest.accepted,
        }
        dry_run = {"dry_run": "nothing was written"}
        report = report_of(examine(options, source), facts, foreseen or {"problems": []}, dry_run)
        return report, foreseen is not None and not foreseen.problems
