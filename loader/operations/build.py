"""Build a database from LDIF, offline, beside its place; published only when it is whole and checked.

Steps: scan, schema, size, load, check, publish. `build_steps` serves `replica seed` too.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from loader import csn, ldif, manifest
from loader.errors import EmptyInput, EntriesLost, NoContextCSN, UsageProblem
from loader.ldif import Scan
from loader.mdb import environment, verify
from loader.operations import estimate, schema
from loader.operations.publish import DATA, Place, publish_environment
from loader.progress import Meter, Progress
from loader.run.catalogue import Facts
from loader.run.killpoint import killpoint
from loader.run.steps import Run, open_run
from loader.server import configuration
from loader.sinks import slapadd
from loader.storage import files

STEPS = ("scan", "schema", "size", "load", "check", "publish")
RUN_DIR = ".ditseed-build"  # in the database directory: the same file system, so that publishing is a rename
ENGINES = ("slapadd",)
_NO_CONTEXT = "If the LDIF is one slapcat, -w takes the CSNs from its entries; `ditseed export` always brings them."


@dataclass(frozen=True)
class BuildOptions:
    """What to load (LDIF files, or directories of them), and into the database of which configuration.

    `maxsize`: None takes the configured one, "auto" computes it, a number sets it; the last two change the
    configuration as `tune maxsize --apply` does. `seeding`: the database is for a consumer. It must have a contextCSN
    (of the LDIF, or with `write_context` from its entries), and nothing in it may be newer.
    """

    inputs: tuple[Path, ...]
    config_path: Path
    suffix: str | None = None
    replace: bool = False
    maxsize: int | str | None = None
    write_context: bool = False
    engine: str = "slapadd"
    verify: str = "quick"
    seeding: bool = False
    server_id: int | None = None  # of entryCSNs that are made; None: the configuration's

    def identity(self) -> dict[str, object]:
        """What must not change between a run and its resumption: options, and the inputs as they are now."""
        return {
            "inputs": [_fingerprint(path) for path in ldif.files_of(self.inputs)],
            "config": str(self.config_path.absolute()),
            "suffix": self.suffix,
            "maxsize": self.maxsize,
            "write_context": self.write_context,
            "engine": self.engine,
            "server_id": self.server_id,
        }


def _fingerprint(path: Path) -> list[object]:
    if str(path) == "-" or (path.exists() and not path.is_file()):
        why = "a build reads its input more than once, so put the stream into a file first"
        raise UsageProblem(reason=f"{path} is no file: {why}")
    files.require_readable(path)
    status = path.stat()
    return [str(path.absolute()), status.st_size, status.st_mtime_ns]


def build(
    options: BuildOptions, progress: Progress, timeouts: dict[str, float], restart: bool = False
) -> Facts:
    """Run or resume a build; the facts of its steps."""
    if options.engine not in ENGINES:
        raise UsageProblem(reason=f"engine {options.engine}: this version has {', '.join(ENGINES)}")
    identity = options.identity()
    place = find_place(options.config_path, options.suffix, options.replace)
    run_dir = place.directory / RUN_DIR
    anew = place.begins_anew(run_dir, "build", identity, restart)
    with open_run(run_dir, "build", identity, progress, timeouts, anew) as run:
        return build_steps(options, run, place)


def find_place(config_path: Path, suffix: str | None, replace: bool) -> Place:
    """The database directory that a configuration means."""
    config = configuration.read(config_path)
    database = config.database(suffix)
    if database.directory is None:
        raise UsageProblem(
            reason=f"{config_path}: the database of {database.suffix} has no directory"
        )
    return Place(config, database, database.directory, replace)


def build_steps(options: BuildOptions, run: Run, place: Place) -> Facts:
    """The named steps of a build, within a run that may have more."""
    work = _Work(options, run, place)
    if run.catalogue.found("publish") is None:
        place.require_free(run.catalogue.found("check"))
    scan = run.do("scan", work.scan)
    run.do("schema", lambda meter: work.schema(scan))
    size = run.do("size", lambda meter: work.size(meter, scan))
    loaded = run.do("load", lambda meter: work.load(meter, scan, size), total=scan["entries"])
    checked = run.do("check", lambda meter: work.check(meter, scan, loaded))
    published = run.do("publish", lambda meter: work.publish(size, checked))
    return {"entries": scan["entries"], **size, **published}


@dataclass(frozen=True)
class _Work:
    """The steps' bodies. Each can be done again from its beginning."""

    options: BuildOptions
    run: Run
    place: Place

    @property
    def made(self) -> Path:
        """The environment being made."""
        return self.run.directory / "environment"

    @property
    def paths(self) -> list[Path]:
        """LDIF in loading order: that of the manifest where there is one."""
        ordered: list[Path] = []
        for given in self.options.inputs:
            known = manifest.read(given) if given.is_dir() else None
            ordered += known.paths(given) if known else ldif.files_of([given])
        return ordered

    @property
    def server_id(self) -> int:
        wanted = self.options.server_id
        return (self.place.config.server_id or 0) if wanted is None else wanted

    def scan(self, meter: Meter) -> Facts:
        """Read it all once: is every file whole, how many entries, which names do they use?"""
        for given in self.options.inputs:
            known = manifest.read(given) if given.is_dir() else None
            if known:
                manifest.check(known, given)
        found = ldif.scan(self.paths, meter)
        if not found.entries:
            raise EmptyInput(path=", ".join(map(str, self.options.inputs)))
        return {
            "entries": found.entries,
            "bytes": found.bytes,
            "attributes": found.attributes,
            "object_classes": found.object_classes,
            "first_dn": found.first_dn,
            "claimed": self._claimed(found),
        }

    def _claimed(self, found: Scan) -> list[str] | None:
        """The contextCSN to stamp and not to exceed; None: all is loaded as it stands."""
        if not self.options.seeding:
            return None
        known = csn.by_server(found.context_csns)
        if not known and self.options.write_context:
            known = dict(found.max_csns)
        if not known:
            where, suffix = self.options.inputs[0], self.place.database.suffix
            raise NoContextCSN(where=where, suffix=suffix, advice=_NO_CONTEXT)
        return sorted(known.values())

    def schema(self, scan: Facts) -> Facts:
        """Does the configuration know every attribute and object class? Asked before the long part."""
        schema.require_suffix(self.place, scan["first_dn"])
        schema.require_known(
            self.place, scan["attributes"], scan["object_classes"], self.run.directory
        )
        return {}

    def size(self, meter: Meter, scan: Facts) -> Facts:
        """How large the database will be, from a pilot load; is there room, in maxsize and on the disk?"""
        needed = estimate.needed(self.place, self.paths, scan["entries"], self.run.directory, meter)
        maxsize = estimate.choose_maxsize(self.place, needed, self.options.maxsize)
        files.require_space(self.place.directory, needed)
        return {"estimate": needed, "maxsize": maxsize}

    def load(self, meter: Meter, scan: Facts, size: Facts) -> Facts:
        files.remove_tree(self.made)
        self.made.mkdir(mode=0o700)
        settings = {
            "olcDbDirectory": [str(self.made).encode()],
            "olcDbMaxSize": [str(size["maxsize"]).encode()],
        }
        place = self.place
        with configuration.private_copy(
            place.config, place.database, settings, self.run.directory
        ) as copy:
            target = slapadd.Target(
                copy, place.database.suffix, self.made, size["maxsize"], self.server_id
            )
            own = self.options.write_context and not self.options.seeding
            written = slapadd.load(target, self.paths, meter, scan["claimed"], own)
        killpoint("load.middle")
        return {"entries": written}

    def check(self, meter: Meter, scan: Facts, loaded: Facts) -> Facts:
        """Every entry that was read is in the database, and the database is sound."""
        inside = environment.entry_count(self.made)
        if not scan["entries"] == loaded["entries"] == inside:
            raise EntriesLost(read=scan["entries"], written=inside, log=self.run.directory)
        verify.verify(self.made, self.options.verify, meter)
        return {"identity": files.identity(self.made / DATA)}

    def publish(self, size: Facts, checked: Facts) -> Facts:
        published = publish_environment(self.made, self.place, checked, size["maxsize"])
        files.remove_tree(self.made)
        return published


def plan(options: BuildOptions, progress: Progress) -> Facts:
    """What a build would do: every check that needs no writing in the database directory, in a scratch place."""
    place = find_place(options.config_path, options.suffix, options.replace)
    place.require_free()
    with (
        tempfile.TemporaryDirectory(prefix="ditseed-plan-", dir=configuration.scratch()) as scratch,
        open_run(Path(scratch), "plan", {}, progress) as run,
    ):
        work = _Work(options, run, place)
        scan = run.do("scan", work.scan)
        run.do("schema", lambda meter: work.schema(scan))
        size = run.do("size", lambda meter: work.size(meter, scan))
    return {"entries": scan["entries"], **size, "directory": str(place.directory)}
