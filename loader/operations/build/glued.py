"""A build of databases that are glued together: the LDIF divided, and each database made of its part.

As `slapadd -b SUPERIOR` does without -g, each entry goes to the database that slapd would look for it in. All databases
are made and checked before the first one is published, the superior, which bears the contextCSN, last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from loader import csn, glue, units
from loader.config import Database
from loader.errors import EntriesLost, GlueRefused
from loader.mdb import contents
from loader.mdb.meta import DATA
from loader.operations.build import division, finish, inputs
from loader.operations.build.division import HOME, GluedBuild
from loader.operations.build.made_for import made_for
from loader.operations.build.options import BuildOptions
from loader.operations.publish import PUBLISHED, TargetDatabase, require_as_published
from loader.progress import Meter
from loader.run.log import Facts, recorded
from loader.run.steps import Run, open_run
from loader.storage import files

STEPS = ("claim", "split", "report")
RUN_DIR = ".ditseed-glued"  # in each subordinate database's directory
_VERB = "build of a glued part"
_ALONE = "Build that database by itself (-b {suffix}), and {superior} with --no-glue."


def subordinates(options: BuildOptions, place: TargetDatabase) -> list[Database]:
    """The databases that are made too. Raises GlueRefused."""
    if not options.glue or options.target is not None:
        return []
    glued = glue.subordinates(place.config, place.database)
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
    division.schema(places[0])
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
    engine: ModuleType

    def prepared(self) -> Callable[[], Facts]:
        """Made and checked; the call that publishes it."""
        found: Callable[[], Facts] = self.engine.prepared(self.options, self.run, self.place)
        return found


def build(
    options: BuildOptions, run: Run, place: TargetDatabase, engine: ModuleType
) -> tuple[Facts, float]:
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
        made = [(part, part.prepared()) for part in _parts(work, divided, engine, stack)]
        # The contextCSN is the superior's: it must not stand before what it speaks of.
        top = list(_top(work, divided, [part for part, _ in made], engine))
        publish = [*made, *((part, part.prepared()) for part in top)]
        facts = [{"suffix": part.place.database.suffix, **call()} for part, call in publish]
        seconds = sum(step.seconds for part, _ in made for step in part.run.catalogue.steps())
    told = {"facts": _together(facts, divided, place.directory), "seconds": seconds}
    run.do("report", lambda meter: told)


def _below(place: TargetDatabase, database: Database, replace: bool) -> TargetDatabase:
    assert database.directory is not None, "asked for before"
    return TargetDatabase(
        place.config, database, database.directory, replace, superior=place.database
    )


def _claimed(options: BuildOptions, run: Run, place: TargetDatabase) -> tuple[str, ...] | None:
    """The contextCSN of a seeding, which nothing in any part exceeds: asked of all the LDIF before it is divided."""
    if not options.seeding:
        return None

    def claim(meter: Meter) -> Facts:
        found = inputs.scan(options, place, meter)
        inputs.require_schema(place, found, run.directory)
        return {"claimed": found["claimed"]}

    return tuple(run.do("claim", claim)["claimed"])


def _parts(
    work: GluedBuild, divided: Facts, engine: ModuleType, stack: ExitStack
) -> Iterator[_DatabaseBuild]:
    """Those of the subordinate databases, each in a run in its own directory. Each is made before the next is asked
    for."""
    made: list[_DatabaseBuild] = []
    for number, place in enumerate(work.places[1:], 1):
        if work.has_entries(number, divided):
            run = stack.enter_context(_opened(work, number))
            options = work.part(number, divided, _rejected(made))
            made.append(_DatabaseBuild(options, run, place, engine))
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


def _top(
    work: GluedBuild, divided: Facts, made: Sequence[_DatabaseBuild], engine: ModuleType
) -> Iterator[_DatabaseBuild]:
    """The superior's part; none where it gets no entries."""
    if not work.has_entries(0, divided):
        return
    options = work.part(0, divided, _rejected(made))
    if options.write_context:
        options = dataclasses.replace(options, reached=_reached(divided, made))
    yield _DatabaseBuild(options, work.run, work.places[0], engine)


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
        {"suffix": one.database.suffix, "directory": str(one.directory)}
        for one in _places(options, place)[1:]
    ]
    return {"entries": found["entries"], "databases": databases}
