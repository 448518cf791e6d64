"""A build of databases that are glued together: the LDIF divided, and each database made of its part.

As `slapadd -b SUPERIOR` does without -g, each entry goes to the database that slapd would look for it in. All databases
are made and checked before the first one is published, the superior, which bears the contextCSN, last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from loader import csn, glue
from loader.config import Database
from loader.errors import EntriesLost, GlueRefused, NotProven
from loader.mdb import context_csn
from loader.mdb.meta import DATA
from loader.operations.build import finish, inputs
from loader.operations.build.options import BuildOptions
from loader.operations.publish import Place
from loader.operations.target import holds_entries
from loader.progress import Meter
from loader.run.catalogue import FILE as CATALOGUE
from loader.run.catalogue import Catalogue, Facts
from loader.run.killpoint import killpoint
from loader.run.steps import Run, open_run
from loader.sinks import mdb
from loader.sinks.configured import schema_of
from loader.sinks.mdb import Share
from loader.storage import files

STEPS = ("claim", "split", "report")
HOME = "split"  # in the run directory: the parts of the LDIF
RUN_DIR = ".ditseed-glued"  # in each subordinate database's directory
_VERB = "build of a glued part"
_ALONE = "Build that database by itself (-b {suffix}), and {superior} with --no-glue."


def subordinates(options: BuildOptions, place: Place) -> list[Database]:
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


@dataclass(frozen=True)
class _Part:
    """One database with its share of the LDIF, and the run that makes it."""

    options: BuildOptions
    run: Run
    place: Place
    engine: ModuleType

    def prepared(self) -> Callable[[], Facts]:
        """Made and checked; the call that publishes it."""
        found: Callable[[], Facts] = self.engine.prepared(self.options, self.run, self.place)
        return found


def build(options: BuildOptions, run: Run, place: Place, engine: ModuleType) -> tuple[Facts, float]:
    """The facts of all, and the seconds of the subordinate databases' steps."""
    if run.catalogue.found("report") is None:
        _build(options, run, place, engine)
    done = run.catalogue.found("report") or {}
    files.remove_tree(run.directory / HOME)
    _require_there(done["facts"])
    return done["facts"], done["seconds"]


def _require_there(facts: Facts) -> None:
    """What was published by an earlier call may be gone since."""
    for one in facts["databases"]:
        if not (Path(one["directory"]) / DATA).exists():
            reason = f"its database was put into {one['directory']}, and is gone"
            advice = "Give --restart (and --replace) to build all of them again."
            raise GlueRefused(suffix=one["suffix"], reason=reason, advice=advice)


def _build(options: BuildOptions, run: Run, place: Place, engine: ModuleType) -> None:
    place = dataclasses.replace(place, superior=place.database)
    below = [_below(place, one, options.replace) for one in subordinates(options, place)]
    for one in (place, *below):
        engine.require(options, run, one)
    claimed = _claimed(options, run, place)
    if run.catalogue.found("split") is None:
        for one in below:
            one.require_free()
    work = _Work(options, run, (place, *below), claimed)
    divided = run.do("split", work.split)
    work.require_entries(divided)
    with ExitStack() as stack:
        made = [(part, part.prepared()) for part in work.parts(divided, engine, stack)]
        top = work.top(divided, [part for part, _ in made], engine)
        # The contextCSN is the superior's: it must not stand before what it speaks of.
        publish = [*made, (top, top.prepared())]
        facts = [{"suffix": part.place.database.suffix, **call()} for part, call in publish]
        seconds = sum(step.seconds for part, _ in made for step in part.run.catalogue.steps())
    told = {"facts": _together(facts, divided), "seconds": seconds}
    run.do("report", lambda meter: told)


def _below(place: Place, database: Database, replace: bool) -> Place:
    assert database.directory is not None, "asked for before"
    return Place(place.config, database, database.directory, replace, superior=place.database)


def _claimed(options: BuildOptions, run: Run, place: Place) -> tuple[str, ...] | None:
    """The contextCSN of a seeding, which nothing in any part exceeds: asked of all the LDIF before it is divided."""
    if not options.seeding:
        return None

    def claim(meter: Meter) -> Facts:
        found = inputs.scan(options, place, meter)
        inputs.require_schema(place, found, run.directory)
        return {"claimed": found["claimed"]}

    return tuple(run.do("claim", claim)["claimed"])


@dataclass(frozen=True)
class _Work:
    """`places`: the superior's, then those of the databases glued to it."""

    options: BuildOptions
    run: Run
    places: Sequence[Place]
    claimed: tuple[str, ...] | None

    @property
    def home(self) -> Path:
        return self.run.directory / HOME

    def _share(self, number: int) -> Path:
        return self.home / f"{number}.ldif.zst"

    def split(self, meter: Meter) -> Facts:
        """Each record to the file of its database, packed; the files stay until all is published."""
        superior = self.places[0].database
        inputs.check(self.options)
        files.remove_tree(self.home)
        self.home.mkdir(mode=0o700)
        shares = [
            Share(place.database.suffixes, self._share(number))
            for number, place in enumerate(self.places)
        ]
        claim = (superior.suffix, self.claimed) if self.claimed is not None else None
        with inputs.sources(self.options) as read:
            found = mdb.split(
                read, self._schema(), shares, claim, meter, file_urls=self.options.file_urls
            )
        killpoint("split.middle")
        shared = [{"entries": one.entries, "newest": dict(one.newest)} for one in found]
        return {"now": inputs.moment(self.options), "shares": shared}

    def _schema(self) -> mdb.Schema:
        config, superior = self.places[0].config, self.places[0].database
        try:
            return schema_of(config, superior)
        except NotProven as error:
            reason = (
                f"which entries are whose is not known without the schema ({error.facts['reason']})"
            )
            advice = "Divide the LDIF by hand, and build each database by itself (--no-glue)."
            raise GlueRefused(suffix=superior.suffix, reason=reason, advice=advice) from error

    def require_entries(self, divided: Facts) -> None:
        if divided["shares"][0]["entries"]:
            return
        suffix = self.places[0].database.suffix
        advice = "Name the database that the entries belong to with -b."
        raise GlueRefused(suffix=suffix, reason="the LDIF has no entry for it", advice=advice)

    def _has_entries(self, place: Place, divided: Facts) -> bool:
        """A database that gets nothing stays as it is, which is right only if it holds nothing."""
        suffix = place.database.suffix
        if divided["shares"][self.places.index(place)]["entries"]:
            return True
        if place.data.exists() and holds_entries(place.directory):
            reason = "the LDIF has no entry for it, but its database holds some"
            advice = f"Build {self.places[0].database.suffix} alone with --no-glue, or remove {place.data} first."
            raise GlueRefused(suffix=suffix, reason=reason, advice=advice)
        self.run.progress.say(f"{suffix}: no entries; its database stays as it is")
        return False

    def parts(self, divided: Facts, engine: ModuleType, stack: ExitStack) -> Iterator[_Part]:
        """Those of the subordinate databases, each in a run in its own directory."""
        rejected = 0
        for number, place in enumerate(self.places[1:], 1):
            if not self._has_entries(place, divided):
                continue
            run = stack.enter_context(self._opened(number, place))
            options = self._part(number, divided, rejected)
            yield _Part(options, run, place, engine)
            loaded = run.catalogue.found("load") or {}
            rejected += loaded.get("rejected", 0)

    def _opened(self, number: int, place: Place) -> AbstractContextManager[Run]:
        """A run of other options, or of another division, is none to go on with."""
        directory = place.directory / RUN_DIR
        identity = {
            "of": str(self.run.directory),
            "share": files.identity(self._share(number)),
            **self.options.identity(),
        }
        return open_run(
            directory,
            _VERB,
            identity,
            self.run.progress,
            self.run.timeouts,
            _differs(directory, identity),
            place.database.suffix,
        )

    def top(self, divided: Facts, made: Sequence[_Part], engine: ModuleType) -> _Part:
        """The superior's part."""
        rejected = sum((part.run.catalogue.found("load") or {}).get("rejected", 0) for part in made)
        options = self._part(0, divided, rejected)
        reached = self._reached(divided, made) if options.write_context else ()
        options = dataclasses.replace(options, reached=reached)
        return _Part(options, self.run, self.places[0], engine)

    def _reached(self, divided: Facts, made: Sequence[_Part]) -> tuple[str, ...]:
        """The greatest entryCSNs of the other databases: given ones, and those made for entries without."""
        given = [text for one in divided["shares"] for text in one["newest"].values()]
        environments = [part.run.directory / "environment" for part in made]
        # Once it is published the superior is, too, or has its contextCSN.
        left = [one for one in environments if one.exists()]
        newest = [text for one in left for text in context_csn.newest(one, whole=False).values()]
        return tuple(sorted(csn.by_server([*given, *newest]).values()))

    def _part(self, number: int, divided: Facts, rejected: int) -> BuildOptions:
        """The options for one database: only the superior's entry bears a contextCSN."""
        given, superior = self.options, number == 0
        return dataclasses.replace(
            given,
            inputs=(self._share(number),),
            tree=None,
            suffix=self.places[number].database.suffix,
            now=divided["now"],
            claimed=self.claimed,
            seeding=given.seeding and superior,
            write_context=given.write_context and superior,
            server_id=finish.server_id(given, self.places[0]),
            max_rejects=max(0, given.max_rejects - rejected),
            rejects=_numbered(given.rejects, number),
        )


def _numbered(rejects: Path | None, number: int) -> Path | None:
    """Each database's rejects in a file of their own."""
    if rejects is None or number == 0:
        return rejects
    return rejects.with_name(f"{rejects.stem}.{number}{rejects.suffix}")


def _differs(directory: Path, identity: Facts) -> bool:
    if not (directory / CATALOGUE).exists():
        return False
    with closing(Catalogue(directory)) as catalogue:
        return catalogue.differences(_VERB, identity) != []


def _together(facts: Sequence[Facts], divided: Facts) -> Facts:
    """One report. Every record of the input is in one of the databases, or among the rejects."""
    read = sum(one["entries"] for one in divided["shares"])
    sums = {name: sum(one[name] for one in facts) for name in ("read", "entries", "rejected")}
    sums["bytes"] = sum(one["bytes"] for one in facts)
    if sums["read"] != read:
        raise EntriesLost(read=read, written=sums["read"], log=facts[-1]["directory"])
    rejections = [line for one in facts for line in one.get("rejections", ())]
    rejects = [one["rejects"] for one in facts if "rejects" in one]
    told = {"rejections": rejections, "rejects": ", ".join(rejects)} if rejects else {}
    names = ("suffix", "entries", "rejected", "bytes", "maxsize", "directory")
    parts = [{name: one[name] for name in names} for one in facts]
    return {**sums, **told, "directory": facts[-1]["directory"], "databases": parts}


def plan(options: BuildOptions, run: Run, place: Place, engine: ModuleType) -> Facts:
    """What can be told before the LDIF is divided."""
    below = [_below(place, one, options.replace) for one in subordinates(options, place)]
    for one in below:
        one.require_free()
        engine.require(options, run, one)
    found = run.do("scan", lambda meter: inputs.scan(options, place, meter))
    inputs.require_schema(place, found, run.directory)
    databases = [{"suffix": one.database.suffix, "directory": str(one.directory)} for one in below]
    return {"entries": found["entries"], "databases": databases}
