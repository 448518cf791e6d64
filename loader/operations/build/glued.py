"""A build of databases that are glued together: the LDIF is divided, and each database is made of its part.

As `slapadd -b SUPERIOR` does without -g, each entry goes to the database that slapd would look for it in. All databases
are made and checked before the first one is published; the superior, which bears the contextCSN, is the last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from loader import config, csn, exports, units
from loader.config import Database
from loader.errors import EmptyInput, EntriesLost, GlueRefused, NotProven
from loader.mdb import contents
from loader.mdb.meta import DATA
from loader.operations.build import finish, inputs
from loader.operations.build.native import made_for
from loader.operations.build.options import BuildOptions
from loader.operations.publish import PUBLISHED, TargetDatabase, holds_entries, require_as_published
from loader.progress import Meter
from loader.run.log import Facts, killpoint, recorded
from loader.run.steps import Run, open_run
from loader.sinks import mdb
from loader.sinks.mdb import SplitTarget, schema_of
from loader.storage import files

HOME = "split"  # in the run directory: a file for each database
STEPS = ("claim", "split", "report")
RUN_DIR = ".ditseed-glued"  # in each subordinate database's directory
_VERB = "build of a glued part"
_ALONE = "Build that database by itself (-b {suffix}), and {superior} with --no-glue."


@dataclass(frozen=True)
class GluedBuild:
    """`places`: the superior's, then those of the databases glued to it. `claimed`: of a seeding, the contextCSN that
    no part exceeds."""

    options: BuildOptions
    run: Run
    places: Sequence[TargetDatabase]
    claimed: tuple[str, ...] | None

    @property
    def home(self) -> Path:
        return self.run.directory / HOME

    def share(self, number: int) -> Path:
        """What the database of that number gets."""
        return self.home / f"{number}.ldif.zst"

    def split(self, meter: Meter) -> Facts:
        """Each record to the file of its database, packed; the files stay until all is published."""
        superior = self.places[0].database
        files.remove_tree(self.home)
        self.home.mkdir(mode=0o700)
        shares = [SplitTarget(place.database.suffixes, self.share(number)) for number, place in enumerate(self.places)]
        claim = (superior.suffix, self.claimed) if self.claimed is not None else None
        with self.options.source.reading(meter) as read:
            found = mdb.split(read, schema(self.places[0]), shares, claim, meter, file_urls=self.options.file_urls)
        exports.require_entries(self.options.inputs, sum(one.entries for one in found))
        killpoint("split.middle")
        shared = [{"entries": one.entries, "newest": dict(one.newest)} for one in found]
        return {"now": inputs.input_time(self.options), "shares": shared}

    def require_entries(self, divided: Facts) -> None:
        """A database that gets nothing stays as it is, which is right only if it holds nothing. Raises EmptyInput,
        GlueRefused."""
        if not any(self.has_entries(number, divided) for number in range(len(self.places))):
            raise EmptyInput(path=", ".join(map(str, self.options.inputs)))
        for number, place in enumerate(self.places):
            if not self.has_entries(number, divided):
                self._require_none(number, place)
                suffix = place.database.suffix
                self.run.progress.say(f"{suffix}: no entries; its database stays as it is")

    def _require_none(self, number: int, place: TargetDatabase) -> None:
        """Neither entries, nor a contextCSN for an entry that is not there."""
        suffix, superior = place.database.suffix, self.places[0].database.suffix
        options = self.options
        if number == 0 and (options.seeding or options.write_context):
            reason = "the LDIF has no entry for it, and the contextCSN of the tree belongs into its suffix entry"
            advice = "Add that entry to the LDIF, or name the database that the entries belong to."
            raise GlueRefused(suffix=suffix, reason=reason, advice=advice)
        if place.data.exists() and holds_entries(place.directory):
            reason = "the LDIF has no entry for it, but its database holds some"
            advice = f"Build {superior} alone with --no-glue, or remove {place.data} first."
            if number == 0:
                advice = f"Name the database that the entries belong to with -b, or remove {place.data} first."
            raise GlueRefused(suffix=suffix, reason=reason, advice=advice)

    def has_entries(self, number: int, divided: Facts) -> bool:
        return bool(divided["shares"][number]["entries"])

    def part(self, number: int, divided: Facts, rejected: int) -> BuildOptions:
        """The options for one database, after so many rejects: only the superior's entry bears a contextCSN."""
        given, superior = self.options, number == 0
        return dataclasses.replace(
            given,
            inputs=(self.share(number),),
            tree=None,
            suffix=self.places[number].database.suffix,
            now=divided["now"],
            first=sum(one["entries"] for one in divided["shares"][:number]),
            claimed=self.claimed,
            seeding=given.seeding and superior,
            write_context=given.write_context and superior,
            server_id=finish.server_id(given, self.places[0]),
            max_rejects=max(0, given.max_rejects - rejected),
            rejects=_numbered(given.rejects, number),
        )


def schema(superior: TargetDatabase) -> mdb.Schema:
    """By which entries are told apart. Raises GlueRefused."""
    try:
        return schema_of(superior.config, superior.database)
    except NotProven as error:
        why = error.facts["reason"]
        reason = f"which entries are whose is not known without the schema ({why})"
        advice = "Divide the LDIF by hand, and build each database by itself (--no-glue)."
        suffix = superior.database.suffix
        raise GlueRefused(suffix=suffix, reason=reason, advice=advice) from error


def _numbered(rejects: Path | None, number: int) -> Path | None:
    """Each database's rejects in a file of their own."""
    if rejects is None or number == 0:
        return rejects
    return rejects.with_name(f"{rejects.stem}.{number}{rejects.suffix}")


def subordinates(options: BuildOptions, place: TargetDatabase) -> list[Database]:
    """The databases that are made too. Raises GlueRefused."""
    if not options.glue or options.target is not None:
        return []
    glued = config.subordinates(place.config, place.database)
    found = [one for one in glued if one.backend == "mdb"]
    for one in found:
        _require_known(one, place.database, options.seeding)
    return found


def _require_known(one: Database, superior: Database, seeding: bool) -> None:
    advice = _ALONE.format(suffix=one.suffix, superior=superior.suffix)
    if one.directory is None:
        raise GlueRefused(suffix=one.suffix, reason="it has no directory", advice=advice)
    if seeding and one.consumer:
        reason = "it has a syncrepl of its own, and so a contextCSN of its own"
        advice = f"Seed it by itself (--suffix {one.suffix})."
        raise GlueRefused(suffix=one.suffix, reason=reason, advice=advice)


def require(options: BuildOptions, place: TargetDatabase, engine: ModuleType) -> None:
    """What nobody has to read an entry for. Raises GlueRefused, NotProven, TargetNotEmpty."""
    places = _places(options, place)
    for one in places:
        engine.require(options, one)
    schema(places[0])
    for one in places[1:]:
        one.require_free()


def _places(options: BuildOptions, place: TargetDatabase) -> list[TargetDatabase]:
    """The superior's, then those of the databases glued to it."""
    superior = dataclasses.replace(place, superior=place.database)
    below = subordinates(options, place)
    return [superior, *(_below(superior, one, options.replace) for one in below)]


@dataclass(frozen=True)
class _DatabaseBuild:
    """One database with its share of the LDIF, and the run that makes it."""

    options: BuildOptions
    run: Run
    place: TargetDatabase

    def prepared(self, engine: ModuleType) -> Callable[[], Facts]:
        """Made and checked; the call that publishes it."""
        publish: Callable[[], Facts] = engine.prepared(self.options, self.run, self.place)
        return publish


def build(options: BuildOptions, run: Run, place: TargetDatabase, engine: ModuleType) -> tuple[Facts, float]:
    """The facts of all, and the seconds of the subordinate databases' steps."""
    if run.catalogue.found("report") is None:
        _build(options, run, place, engine)
    done = run.catalogue.found("report") or {}
    files.remove_tree(run.directory / HOME)
    _require_there(run, done["facts"])
    return done["facts"], done["seconds"]


def _require_there(run: Run, facts: Facts) -> None:
    """What was published by an earlier call may be gone since, or may have been written to."""
    finished = units.moment(run.catalogue.ended() or 0)
    for one in facts["databases"]:
        if not (Path(one["directory"]) / DATA).exists():
            reason = f"its database was put into {one['directory']}, and is gone"
            advice = "Give --restart (and --replace) to build all of them again."
            raise GlueRefused(suffix=one["suffix"], reason=reason, advice=advice)
        require_as_published(Path(one["directory"]), one[PUBLISHED], finished)


def _build(options: BuildOptions, run: Run, place: TargetDatabase, engine: ModuleType) -> None:
    if run.catalogue.found("split") is None:
        require(options, place, engine)
    places = _places(options, place)
    work = GluedBuild(options, run, places, _claimed(options, run, places[0]))
    divided = run.do("split", work.split)
    work.require_entries(divided)
    with ExitStack() as stack:
        made = [(part, part.prepared(engine)) for part in _parts(work, divided, stack)]
        # The contextCSN is the superior's: it must not stand before what it speaks of.
        top = list(_top(work, divided, [part for part, _ in made]))
        publish = [*made, *((part, part.prepared(engine)) for part in top)]
        facts = [{"suffix": part.place.database.suffix, **call()} for part, call in publish]
        seconds = sum(step.seconds for part, _ in made for step in part.run.catalogue.steps())
    told = {"facts": _together(facts, divided, place.directory), "seconds": seconds}
    run.do("report", lambda meter: told)


def _below(place: TargetDatabase, database: Database, replace: bool) -> TargetDatabase:
    assert database.directory is not None, "asked for before"
    return TargetDatabase(place.config, database, database.directory, replace, superior=place.database)


def _claimed(options: BuildOptions, run: Run, place: TargetDatabase) -> tuple[str, ...] | None:
    """The contextCSN of a seeding, which nothing in any part exceeds: asked of all the LDIF before it is divided."""
    if not options.seeding:
        return None

    def claim(meter: Meter) -> Facts:
        found = inputs.scan(options, place, meter)
        inputs.require_schema(place, found, run.directory)
        return {"claimed": found["claimed"]}

    return tuple(run.do("claim", claim)["claimed"])


def _parts(work: GluedBuild, divided: Facts, stack: ExitStack) -> Iterator[_DatabaseBuild]:
    """Those of the subordinate databases, each in a run in its own directory. Each is made before the next is asked
    for."""
    made: list[_DatabaseBuild] = []
    for number, place in enumerate(work.places[1:], 1):
        if work.has_entries(number, divided):
            run = stack.enter_context(_opened(work, number))
            options = work.part(number, divided, _rejected(made))
            made.append(_DatabaseBuild(options, run, place))
            yield made[-1]


def _opened(work: GluedBuild, number: int) -> AbstractContextManager[Run]:
    """A run of other options, or of another division, is none to go on with."""
    database, run = work.places[number].database, work.run
    directory = work.places[number].directory / RUN_DIR
    share = files.identity(work.share(number))
    made = made_for(work.places[number].config, database, work.options)
    about = {"of": str(run.name), "share": share, "configuration": made}
    identity = {**about, **work.options.identity()}
    anew = _differs(directory, identity)
    return open_run(directory, _VERB, identity, run.progress, run.timeouts, anew, database.suffix)


def _differs(directory: Path, identity: Facts) -> bool:
    with recorded(directory) as catalogue:
        return catalogue is not None and catalogue.differences(_VERB, identity) != []


def _top(work: GluedBuild, divided: Facts, made: Sequence[_DatabaseBuild]) -> Iterator[_DatabaseBuild]:
    """The superior's part; none where it gets no entries."""
    if not work.has_entries(0, divided):
        return
    options = work.part(0, divided, _rejected(made))
    if options.write_context:
        options = dataclasses.replace(options, reached=_reached(divided, made))
    yield _DatabaseBuild(options, work.run, work.places[0])


def _rejected(made: Sequence[_DatabaseBuild]) -> int:
    return sum((part.run.catalogue.found("load") or {}).get("rejected", 0) for part in made)


def _reached(divided: Facts, made: Sequence[_DatabaseBuild]) -> tuple[str, ...]:
    """The greatest entryCSNs of the other databases: given ones, and those made for entries without."""
    given = [text for one in divided["shares"] for text in one["newest"].values()]
    environments = [part.run.directory / "environment" for part in made]
    # Once one is published the superior is made, and has its contextCSN.
    left = [one for one in environments if one.exists()]
    newest = [text for one in left for text in contents.newest_csns(one, whole=False).values()]
    return tuple(sorted(csn.by_server([*given, *newest]).values()))


def _together(facts: Sequence[Facts], divided: Facts, directory: Path) -> Facts:
    """One report. Every record of the input is in one of the databases, or among the rejects."""
    read = sum(one["entries"] for one in divided["shares"])
    sums = {name: sum(one[name] for one in facts) for name in ("read", "entries", "rejected")}
    sums["bytes"] = sum(one["bytes"] for one in facts)
    if sums["read"] != read:
        raise EntriesLost(read=read, written=sums["read"], log=directory)
    rejections = [line for one in facts for line in one.get("rejections", ())]
    rejects = [one["rejects"] for one in facts if "rejects" in one]
    told: Facts = {"rejections": rejections, "rejects": ", ".join(rejects)} if rejects else {}
    names = ("suffix", "entries", "rejected", "bytes", "maxsize", "directory", PUBLISHED)
    parts = [{name: one[name] for name in names} for one in facts]
    for name in (finish.INVALID, finish.NOTES):
        texts = [text for one in facts for text in one.get(name, ())]
        if texts:
            told[name] = texts
    return {**sums, **told, "directory": str(directory), "databases": parts}


def plan(options: BuildOptions, run: Run, place: TargetDatabase, engine: ModuleType) -> Facts:
    """What can be told before the LDIF is divided."""
    require(options, place, engine)
    found = run.do("scan", lambda meter: inputs.scan(options, place, meter))
    inputs.require_schema(place, found, run.directory)
    databases = [
        {"suffix": one.database.suffix, "directory": str(one.directory)} for one in _places(options, place)[1:]
    ]
    return {"entries": found["entries"], "databases": databases}
