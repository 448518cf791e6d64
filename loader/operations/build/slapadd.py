"""The steps of a build by slapadd. Its input is read three times, because slapadd reports errors late and briefly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from loader import backmdb
from loader.errors import NotProven
from loader.mdb import contents, verify
from loader.operations.build import native
from loader.operations.build.inputs import BuildOptions, Scanned
from loader.operations.build.steps import BuildSteps, Loaded, Outcome
from loader.operations.publish import Checked, Published, TargetDatabase
from loader.operations.room import choose_maxsize
from loader.progress import Meter
from loader.run.log import Report, killpoint, report_of
from loader.run.steps import Run
from loader.schema import definitions, synonyms
from loader.server import configuration
from loader.sinks import slapadd
from loader.sources import names
from loader.storage import files

STEPS = ("scan", "schema", "size", "load", "check", "publish")
_MARGIN = 1.25  # slapadd's B-trees deepen, and substring keys fill more slowly than they begin
# Bytes of the map if nothing predicts the size. slapadd makes the file as long as its map, with a hole; ext4 has no
# files of 16 TiB.
_LARGEST = 8 << 40


@dataclass(frozen=True)
class _Size:
    """The predicted bytes of the database (0: unknown), and those of the map in which slapadd loads it."""

    estimate: int
    maxsize: int


def prepared(options: BuildOptions, run: Run, place: TargetDatabase) -> Callable[[], Outcome]:
    """Runs the steps up to a database that is built and checked; returns the call that publishes it."""
    work = _SlapaddSteps(options, run, place)
    scan = run.do("scan", work.scan, Scanned)
    entries = scan.entries
    aliases = run.do("schema", lambda meter: work.schema(scan), dict[str, str])
    size = run.do("size", work.size, _Size)
    loaded = run.do("load", lambda meter: work.load(meter, scan, size, aliases), int, entries)
    checked = run.do("check", lambda meter: work.check(meter, scan, loaded), Checked)

    def publish() -> Outcome:
        published = run.do("publish", lambda meter: work.put_into_place(checked), Published)
        return Outcome(Loaded(entries, entries, 0), published, size)

    return publish


def require(options: BuildOptions, place: TargetDatabase) -> None:
    """slapadd follows every setting that its private configuration has. Raises SettingRefused."""
    backmdb.require(place.config, place.database, place.named)


def plan(options: BuildOptions, run: Run, place: TargetDatabase) -> Report:
    """Runs the steps before the load."""
    work = _SlapaddSteps(options, run, place)
    scan = run.do("scan", work.scan, Scanned)
    run.do("schema", lambda meter: work.schema(scan), dict[str, str])
    size = run.do("size", work.size, _Size)
    return report_of({"entries": scan.entries}, size if size.estimate else {})


@dataclass(frozen=True)
class _SlapaddSteps(BuildSteps):
    """The bodies of the steps."""

    def schema(self, scan: Scanned) -> dict[str, str]:
        """Checks all names before the load. Returns the synonyms among the attribute names in the LDIF."""
        self.require_schema(scan)
        config = self.place.config
        known = definitions(config, configuration.read_compiled_schema(config))
        return dict(synonyms(known, scan.attributes))

    def size(self, meter: Meter) -> _Size:
        """Predicts the size of the database. Raises MaxsizeTooSmall, NoSpace, ServerRunning."""
        options, place = self.options, self.place
        needed = 0
        with suppress(NotProven):
            needed = native.predicted(options, native.target_of(options, place), meter)
        if options.engine == "slapadd":
            needed = round(needed * _MARGIN)
        maxsize = choose_maxsize(place, needed, options.maxsize, changing=options.target is None)
        if options.maxsize == "auto" and not needed:
            maxsize = max(maxsize, min(files.free_bytes(place.directory), _LARGEST))
        if options.check_space:
            files.require_space(place.directory, needed)
        return _Size(needed, maxsize)

    def load(self, meter: Meter, scan: Scanned, size: _Size, aliases: Mapping[str, str]) -> int:
        files.remove_tree(self.made)
        self.made.mkdir(mode=0o700)
        settings = {"olcDbDirectory": [bytes(self.made)], "olcDbMaxSize": [str(size.maxsize).encode()]}
        with (
            self.place.private_configuration(self.run.directory, settings) as copy,
            self.options.source.reading(meter) as read,
        ):
            suffix, check_schema = self.place.database.suffix, self.options.check_schema
            target = slapadd.Target(copy, suffix, self.made, size.maxsize, self.server_id, check_schema)
            written = slapadd.load(target, names(read), meter, scan.claimed, self.writes_context, aliases)
        killpoint("load.middle")
        return written

    def check(self, meter: Meter, scan: Scanned, loaded: int) -> Checked:
        """Every entry that was read is in the database, and the database is sound."""
        notes, maxsize, written = self.complete(meter), self.fit_map(), contents.entry_count(self.made)
        self.require_entries(scan.entries, scan.entries, loaded, written)
        verify.verify(self.made, self.options.verify, meter)
        return Checked(self.identity(), written, maxsize, notes)
