"""Builds databases that are glued together (`subordinate` in slapd.conf), each from its share of the LDIF.

Each entry goes to the database in which slapd would search for it, as with `slapadd -b SUPERIOR` without -g. All
databases are built and checked before the first is published.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import msgspec

from loader import csn, ldif, units
from loader.errors import EmptyInput, EntriesLost, GlueRefused, NotProven
from loader.mdb import contents
from loader.mdb.meta import DATA
from loader.operations.build.native import made_for
from loader.operations.build.steps import BuildOptions, BuildSteps, Engine, Loaded, Outcome, Scanned
from loader.operations.publish import Mark, TargetDatabase, holds_entries, require_as_published
from loader.progress import Meter
from loader.run.log import Report, killpoint, recorded, report_of
from loader.run.steps import Run, open_run
from loader.sinks import mdb
from loader.sinks.mdb import schema_of
from loader.storage import files

SPLIT = "split"  # name of a step, and of the directory with its LDIF files in the run directory
STEPS = ("claim", "split", "report")
RUN_DIR = ".ditseed-glued"  # in the directory of each subordinate database
_VERB = "build of a glued part"


def require(options: BuildOptions, place: TargetDatabase, engine: Engine) -> None:
    """Makes all checks that need no entries. Raises GlueRefused, NotProven, TargetNotEmpty."""
    superior, *below = _places(options, place)
    for target in (superior, *below):
        engine.require(options, target)
    _schema(superior)
    for target in below:
        target.require_free()


def plan(options: BuildOptions, run: Run, place: TargetDatabase, engine: Engine) -> Report:
    """Returns the facts that are known before the LDIF is divided."""
    require(options, place, engine)
    work = BuildSteps(options, run, place)
    scan = run.do("scan", work.scan, Scanned)
    work.require_schema(scan)
    below = options.subordinates(place)
    databases = [{"suffix": database.suffix, "directory": str(database.directory)} for database in below]
    return {"entries": scan.entries, "databases": databases}


class _DatabaseReport(msgspec.Struct, frozen=True):
    suffix: str
    entries: int
    rejected: int
    bytes: int
    maxsize: int
    directory: str
    published: Mark


class _Glued(Loaded, frozen=True, kw_only=True):
    """The report of all databases. `seconds`: time of the steps of the subordinate databases."""

    bytes: int
    directory: str
    databases: list[_DatabaseReport]
    notes: list[str] = msgspec.field(default_factory=list)
    seconds: float

    def report(self) -> Report:
        return report_of(self)


def build(options: BuildOptions, run: Run, place: TargetDatabase, engine: Engine) -> _Glued:
    """Runs or resumes the build. Raises GlueRefused if a published database is gone, ChangedSince if it was changed."""
    built = run.catalogue.facts_of("report", _Glued)
    if built is None:
        report = _build(options, run, place, engine)
        built = run.do("report", lambda meter: report, _Glued)
    files.remove_tree(run.directory / SPLIT)
    finished = units.moment(run.catalogue.ended() or 0)
    for database in built.databases:
        directory = Path(database.directory)
        if not (directory / DATA).exists():
            reason = f"its database was published in {directory}, and is gone"
            advice = "Give --restart (and --replace) to build all of them again."
            raise GlueRefused(suffix=database.suffix, reason=reason, advice=advice)
        require_as_published(directory, database.published, finished)
    return built


class _Share(msgspec.Struct, frozen=True):
    """The LDIF for one database. `newest`: server ID -> greatest entryCSN."""

    entries: int
    newest: dict[str, str]


class _Split(msgspec.Struct, frozen=True):
    """Facts of the step `split`. `now`: time for generated attributes. `shares`: in the order of `places`."""

    now: str
    shares: list[_Share]


class _Part(msgspec.Struct, frozen=True):
    """A database that is built and checked. `publish` publishes it."""

    suffix: str
    run: Run
    publish: Callable[[], Outcome]


def _build(options: BuildOptions, run: Run, place: TargetDatabase, engine: Engine) -> _Glued:
    if not run.catalogue.is_done("split"):
        require(options, place, engine)
    work = _GluedBuild(options, run, _places(options, place))
    claimed = tuple(run.do("claim", work.claim, tuple[str, ...])) if options.seeding else None
    split = run.do("split", lambda meter: work.split(meter, claimed), _Split)
    work.require_entries(split)
    with ExitStack() as stack:
        parts: list[_Part] = []
        # The superior is published last, because its contextCSN must not be visible before the entries that it covers.
        for number in [*range(1, len(work.places)), 0]:
            if split.shares[number].entries:
                target = work.places[number]
                part_run = stack.enter_context(work.open_run(number)) if number else run
                part_options = work.part_options(number, split, claimed, parts)
                parts.append(_Part(target.database.suffix, part_run, engine.prepared(part_options, part_run, target)))
        outcomes = [part.publish() for part in parts]
        seconds = sum(step.seconds for part in parts if part.run is not run for step in part.run.catalogue.steps())

    loads, published = [outcome.loaded for outcome in outcomes], [outcome.published for outcome in outcomes]
    total = sum(load.read for load in loads)
    if total != sum(share.entries for share in split.shares):  # each record must be in a database or among the rejects
        raise EntriesLost(read=sum(share.entries for share in split.shares), written=total, log=place.directory)
    rejects = [load for load in loads if load.rejects]
    return _Glued(
        total,
        sum(load.entries for load in loads),
        sum(load.rejected for load in loads),
        [text for load in loads for text in load.invalid],
        ", ".join(load.rejects for load in rejects),
        [line for load in loads for line in load.rejections or ()] if rejects else None,
        bytes=sum(database.bytes for database in published),
        directory=str(place.directory),
        databases=[
            _DatabaseReport(
                part.suffix, load.entries, load.rejected, new.bytes, new.maxsize, new.directory, new.published
            )
            for part, load, new in zip(parts, loads, published, strict=True)
        ],
        notes=[text for database in published for text in database.notes],
        seconds=seconds,
    )


class _GluedBuild(msgspec.Struct, frozen=True):
    """The bodies of the steps. `places`: the superior database (number 0), then the databases glued to it."""

    options: BuildOptions
    run: Run
    places: Sequence[TargetDatabase]

    def _share(self, number: int) -> Path:
        """Returns the file with the LDIF for database `number`."""
        return self.run.directory / SPLIT / f"{number}.ldif.zst"

    def claim(self, meter: Meter) -> tuple[str, ...]:
        """Scans the LDIF. Returns the contextCSN of a consumer's tree, which no entryCSN may exceed."""
        work = BuildSteps(self.options, self.run, self.places[0])
        scan = work.scan(meter)
        work.require_schema(scan)
        return tuple(scan.claimed or ())

    def split(self, meter: Meter, claimed: tuple[str, ...] | None) -> _Split:
        """Writes each record to the file of its database. The files stay until all databases are published."""
        options, superior = self.options, self.places[0]
        files.emptied(self.run.directory / SPLIT)
        targets = [(place.database.suffixes, self._share(number)) for number, place in enumerate(self.places)]
        claim = (superior.database.suffix, claimed) if claimed is not None else None
        with options.source.reading(meter) as read:
            split = mdb.split(read, _schema(superior), targets, claim, meter, file_urls=options.file_urls)
        ldif.require_read(options.inputs, sum(share.entries for share in split))
        killpoint("split.middle")
        return _Split(options.input_time(), [_Share(share.entries, dict(share.newest)) for share in split])

    def require_entries(self, split: _Split) -> None:
        """Raises EmptyInput if the LDIF has no entries, GlueRefused if it has none for a database that has entries now
        or must get the contextCSN. Any other database without entries in the LDIF stays unchanged."""
        empty = [number for number, share in enumerate(split.shares) if not share.entries]
        if len(empty) == len(self.places):
            raise EmptyInput(path=", ".join(map(str, self.options.inputs)))
        superior = self.places[0].database.suffix
        for number in empty:
            place = self.places[number]
            suffix, data = place.database.suffix, place.data
            if number == 0 and (self.options.seeding or self.options.write_context):
                reason = "the LDIF has no entry for it, but the contextCSN of the tree is stored in its suffix entry"
                advice = "Add that entry to the LDIF, or name the database that the entries belong to."
                raise GlueRefused(suffix=suffix, reason=reason, advice=advice)
            if data.exists() and holds_entries(place.directory):
                reason = "the LDIF has no entry for it, but its database holds some"
                advice = f"Build {superior} alone with --no-glue, or remove {data} first."
                if number == 0:
                    advice = f"Name the database that the entries belong to with -b, or remove {data} first."
                raise GlueRefused(suffix=suffix, reason=reason, advice=advice)
            self.run.progress.say(f"{suffix}: no entries; its database stays as it is")

    def part_options(
        self, number: int, split: _Split, claimed: tuple[str, ...] | None, parts: Sequence[_Part]
    ) -> BuildOptions:
        """Returns the options for database `number`, built after `parts`. Only the superior gets a contextCSN."""
        options, is_superior = self.options, number == 0
        rejects = options.rejects
        if rejects is not None and number:
            rejects = rejects.with_name(f"{rejects.stem}.{number}{rejects.suffix}")
        loads = [part.run.catalogue.facts_of("load", Loaded) for part in parts if options.engine == "native"]
        rejected = sum(load.rejected for load in loads if load)  # slapadd rejects no entries
        writes_context = options.write_context and is_superior
        reached: list[str] = []
        if writes_context:
            # The contextCSN covers the greatest entryCSNs of the LDIF, and those that the builds of the other databases
            # have generated. If an environment is gone, it was published, so the superior is already built.
            reached += (text for share in split.shares for text in share.newest.values())
            for data in (part.run.directory / "environment" / DATA for part in parts):
                if data.exists():
                    reached += contents.newest_csns(data, whole=False).values()
        return dataclasses.replace(
            options,
            inputs=(self._share(number),),
            tree=None,
            suffix=self.places[number].database.suffix,
            now=split.now,
            first=sum(share.entries for share in split.shares[:number]),
            claimed=claimed,
            seeding=options.seeding and is_superior,
            write_context=writes_context,
            server_id=BuildSteps(options, self.run, self.places[0]).server_id,
            max_rejects=max(0, options.max_rejects - rejected),
            rejects=rejects,
            reached=tuple(sorted(csn.by_server(reached).values())),
        )

    def open_run(self, number: int) -> AbstractContextManager[Run]:
        """Opens the run of a subordinate database. The run starts over if the options or its LDIF have changed."""
        place, run = self.places[number], self.run
        directory = place.directory / RUN_DIR
        identity = {
            "of": str(run.name),
            "share": files.identity(self._share(number)),
            "configuration": made_for(place.config, place.database, self.options),
            **self.options.identity(),
        }
        with recorded(directory) as catalogue:
            anew = catalogue is not None and catalogue.differences(_VERB, identity) != []
        return open_run(directory, _VERB, identity, run.progress, run.timeouts, anew, place.database.suffix)


def _schema(superior: TargetDatabase) -> mdb.Schema:
    """Returns the schema, by which DNs are compared. Raises GlueRefused if the core cannot read the schema."""
    try:
        return schema_of(superior.config, superior.database)
    except NotProven as error:
        reason = f"without its schema, entries cannot be assigned to databases ({error.facts['reason']})"
        advice = "Divide the LDIF by hand, and build each database by itself (--no-glue)."
        raise GlueRefused(suffix=superior.database.suffix, reason=reason, advice=advice) from error


def _places(options: BuildOptions, place: TargetDatabase) -> list[TargetDatabase]:
    """Returns the target of the superior first, then the targets of the databases glued to it."""
    superior = msgspec.structs.replace(place, superior=place.database)
    return [
        superior,
        *(
            msgspec.structs.replace(superior, database=database, directory=database.directory, replace=options.replace)
            for database in options.subordinates(place)
            if database.directory is not None
        ),
    ]
