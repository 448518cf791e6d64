"""`storage bench`: loads and searches the same generated people in each directory, and times the disk below with fio.

Each measurement starts with an empty database directory of its own.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from click import IntRange

from loader import child, resources
from loader.child import Child
from loader.declared import Size
from loader.errors import UsageProblem
from loader.operations import build as building
from loader.operations.build import BuildOptions
from loader.progress import Meter, Progress
from loader.server import private, questions, tools
from loader.server.questions import Question
from loader.sources import dit
from loader.sources.dit import PlanOptions, TreeSpec
from loader.storage import files, held, survey, temporary
from loader.storage.survey import Facts, Unseen

SUFFIX = "dc=example,dc=com"
_INDEXES = ("objectClass,entryUUID,entryCSN eq", "uid,cn,sn,mail eq")
_SCHEMAS = ("core", "cosine", "inetorgperson")
# Where Debian, the Red Hat family, `make install` and Symas install.
_SCHEMA_DIRECTORIES = (
    *("/etc/ldap/schema", "/etc/openldap/schema"),
    *("/usr/local/etc/openldap/schema", "/opt/symas/etc/openldap/schema"),
)
_MODULE_DIRECTORIES = (
    *("/usr/lib/ldap", "/usr/lib64/openldap", "/usr/lib/openldap", "/usr/libexec/openldap"),
    *("/usr/local/libexec/openldap", "/opt/symas/lib/openldap"),
)
_VERSION = re.compile(r"slapd\w* (?P<number>\d+(?:\.\d+)+)")
_LEAST_MAXSIZE = 64 << 20
_MAXSIZE_OF_ENTRY = 8192  # bytes of maxsize; an entry of the template takes less than half of it
_DISK_OF_ENTRY = 4096  # bytes of disk that an entry needs at most
_DISK_BESIDE = 64 << 20  # bytes that the file system needs for itself
_UNIFORM = 0.01  # Zipf's exponent: nearly every entry is searched for equally often
_FIO_SECONDS = 5  # duration of each of the two jobs that have no end of their own
_FIO_TIMED = ("--time_based", f"--runtime={_FIO_SECONDS}", "--bs=4k")
_FIO_JOBS = (
    ("write", ("--rw=write", "--bs=1M", "--end_fsync=1")),
    ("read", ("--stonewall", "--rw=read", "--bs=1M")),
    ("random", ("--stonewall", "--rw=randread", *_FIO_TIMED)),
    ("fsync", ("--stonewall", "--rw=randwrite", "--fsync=1", *_FIO_TIMED)),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchSizes:
    """How much is done in each directory."""

    entries: Annotated[int, "-n --entries N", IntRange(1), "Number of entries that are loaded without sync."] = 20_000
    sync_entries: Annotated[
        int,
        "--sync-entries N",
        IntRange(0),
        "Number of entries that are loaded with sync, each a transaction; 0: none.",
    ] = 1_000
    searches: Annotated[int, "--searches N", IntRange(0), "Number of searches; 0: none."] = 20_000
    seed: Annotated[int, "Random seed; a different seed makes different entries."] = 1
    fio_size: Annotated[int, Size(), {"default": "256M"}, "Size of the file that fio reads and writes; 0: none."] = (
        256 << 20
    )


class Load(msgspec.Struct, frozen=True):
    """`seconds`: until everything is on the disk. `apparent`: bytes as ls shows them. `allocated`: bytes as du does."""

    entries: int
    seconds: float
    apparent: int
    allocated: int

    @property
    def rate(self) -> float:
        """Entries per second."""
        return self.entries / self.seconds


class Searched(msgspec.Struct, frozen=True):
    """Searches by one client, one after the other."""

    searches: int
    seconds: float

    @property
    def rate(self) -> float:
        """Searches per second."""
        return self.searches / self.seconds


class DiskSpeed(msgspec.Struct, frozen=True):
    """Speed measured by fio. `write`, `read`: bytes per second. `random_reads`, `fsyncs`: operations per second."""

    write: float
    read: float
    random_reads: float
    fsyncs: float


class Place(msgspec.Struct, frozen=True):
    """A directory to measure. `kind`: type of its file system. `layout`: of its logical volume (linear, striped); None
    if it is on no logical volume."""

    name: str
    directory: Path
    kind: str
    layout: str | None


class BenchRow(msgspec.Struct, frozen=True):
    """The measurements of a directory. A None was not requested, or `unmeasured` has the reason."""

    name: str
    directory: str
    kind: str
    layout: str | None
    nosync: Load
    searched: Searched | None
    sync: Load | None
    native: Load
    disk: DiskSpeed | None
    unmeasured: tuple[Unseen, ...]

    @property
    def times(self) -> float | None:
        """How many times as fast slapadd loads an entry without sync as with sync."""
        return self.nosync.rate / self.sync.rate if self.sync else None


class BenchReport(msgspec.Struct, frozen=True):
    """`began`: Unix time. `version`: the version of OpenLDAP."""

    began: float
    host: str
    version: str
    sizes: BenchSizes
    rows: tuple[BenchRow, ...]


def bench(directories: Sequence[Path], recipe: TreeSpec, sizes: BenchSizes, progress: Progress) -> BenchReport:
    """Measures each directory. Raises ToolFailed if a tool fails; UsageProblem, ToolMissing, NoSpace, NotPermitted,
    DirectoryUnsafe and others before anything is measured."""
    began, version = time.time(), _slapd_version()
    places = _places(directories)
    for place in places:
        room = sizes.entries * _DISK_OF_ENTRY + sizes.fio_size + _DISK_BESIDE
        files.require_space(place.directory, room)
    with temporary.directory("bench") as work:
        whole = _generated(recipe, sizes.entries, work / "whole.ldif", progress)
        part = _generated(recipe, sizes.sync_entries, work / "part.ldif", progress) if sizes.sync_entries else None
        searches = _searches(recipe, sizes, work / "plan", progress) if sizes.searches else []
        measuring = _Measuring(sizes, whole, part, searches, work, progress)
        measuring.rehearse()
        rows = tuple(map(measuring.row, places))
    return BenchReport(began, f"{platform.system()} {platform.release()}", version, sizes, rows)


def _slapd_version() -> str:
    answer = child.ask(tools.server_tool("slapd", "-VV"))
    match = next(filter(None, map(_VERSION.search, answer.words)), None)
    if match is None:
        printed = "; ".join(answer.words[-2:]) or f"exit status {answer.status}"
        raise UsageProblem(reason=f"slapd -VV does not print its version: {printed}")
    return match["number"]


def _places(directories: Sequence[Path]) -> tuple[Place, ...]:
    """Names each directory by its file system; by mount point or path, too, if several have the same kind.

    Raises NoSuchPath, NotPermitted, ReadOnly, DirectoryUnsafe, UsageProblem.
    """
    if len(set(map(Path.absolute, directories))) < len(directories):
        raise UsageProblem(reason="a directory is given twice")
    surveyed = [(path.absolute(), _survey(path)) for path in directories]
    kinds = Counter(_kind(facts) for _, facts in surveyed)
    targets = Counter((_kind(facts), facts.mount.target) for _, facts in surveyed)
    places = []
    for path, facts in surveyed:
        name = _kind(facts)
        if kinds[name] > 1:
            is_alone = targets[name, facts.mount.target] == 1
            name = f"{name} on {facts.mount.target if is_alone else path}"
        places.append(Place(name, path, facts.mount.kind, _layout(facts)))
    return tuple(places)


def _survey(path: Path) -> Facts:
    with files.explained(path):
        if not path.is_dir():
            path.stat()
            raise UsageProblem(reason=f"{path} is not a directory")
        with held.opened(path) as opened:
            held.require_private(opened.status, path)
    files.require_writable(path)
    return survey.of(path)


def _kind(facts: Facts) -> str:
    layout = _layout(facts)
    return f"{facts.mount.kind}, {layout}" if layout else facts.mount.kind


def _layout(facts: Facts) -> str | None:
    if facts.volume is None:
        return None
    return "+".join(dict.fromkeys(segment.kind for segment in facts.volume.segments))


# --- the entries and the searches ------------------------------------------------------------------------------------


class _Tree(msgspec.Struct, frozen=True):
    """An LDIF file. `entries`: their number."""

    path: Path
    entries: int


def _generated(recipe: TreeSpec, entries: int, path: Path, progress: Progress) -> _Tree:
    """Writes the LDIF of `entries` people, and of the containers above them."""
    template = dataclasses.replace(recipe, entries=entries).compiled()
    with (
        progress.step(f"generate {path.name}", template.entries) as meter,
        files.explained(path),
        files.creating(path) as file,
    ):
        dit.write(template, dit.whole(template), file.fileno(), resources.processors(), meter)
        os.fsync(file.fileno())
    return _Tree(path, template.entries)


def _searches(recipe: TreeSpec, sizes: BenchSizes, path: Path, progress: Progress) -> Sequence[Question]:
    """Returns equality searches for an indexed attribute in random order, each of which matches one entry."""
    template = dataclasses.replace(recipe, entries=sizes.entries).compiled()
    options = PlanOptions(sizes.searches, {"search": 1}, 0.0, _UNIFORM, sizes.seed, (("uid", False, 1),))
    with progress.step("plan searches", sizes.searches) as meter, files.explained(path), files.creating(path) as file:
        dit.plan(template, options, file.fileno(), 1, meter)
    planned = map(json.loads, files.read(path).splitlines())
    return [Question(one["base"], one["filter"], one["entries"]) for one in planned]


# --- measurements ----------------------------------------------------------------------------------------------------


class _Measuring(msgspec.Struct, frozen=True):
    """`whole`: loaded without sync. `part`: loaded with sync. `work`: directory for LDIF and slapd.conf."""

    sizes: BenchSizes
    whole: _Tree
    part: _Tree | None
    searches: Sequence[Question]
    work: Path
    progress: Progress

    def rehearse(self) -> None:
        """Loads and opens a database without measuring it: this reveals at once what slapd's installation lacks, and
        has the programs in memory for the first row."""
        tree = self.part or self.whole
        with temporary.directory("bench", self.work) as directory, self.progress.step("try slapadd, slapd") as meter:
            self._slapadd(directory, tree, meter, quick=True)
            with private.running(self._config(directory, tree), None):
                pass

    def row(self, place: Place) -> BenchRow:
        """Measures a directory. Raises ToolFailed, NoSpace and others: a load that fails is no measurement."""
        whole, part = self.whole, self.part
        sync = None
        with temporary.directory("bench", place.directory) as directory:
            with self.progress.step(f"{place.name}: slapadd -q") as meter:
                nosync = self._slapadd(directory, whole, meter, quick=True)
            searched = self._searched(place, directory)
        if part is not None:
            with (
                temporary.directory("bench", place.directory) as directory,
                self.progress.step(f"{place.name}: slapadd") as meter,
            ):
                sync = self._slapadd(directory, part, meter, quick=False)
        with (
            temporary.directory("bench", place.directory) as directory,
            self.progress.step(f"{place.name}: ditseed build"),
        ):
            native = self._build(directory, whole)
        disk = None
        if self.sizes.fio_size:
            with self.progress.step(f"{place.name}: fio"):
                disk = disk_speed(place.directory, self.sizes.fio_size)
        return BenchRow(
            name=place.name,
            directory=str(place.directory),
            kind=place.kind,
            layout=place.layout,
            nosync=nosync,
            searched=searched,
            sync=sync,
            native=native,
            disk=disk if isinstance(disk, DiskSpeed) else None,
            unmeasured=(disk,) if isinstance(disk, Unseen) else (),
        )

    def _config(self, directory: Path, tree: _Tree) -> Path:
        """Writes a slapd.conf for a database in `directory`. Raises UsageProblem if there is no core.schema."""
        path = self.work / "slapd.conf"
        schemas = _first(_SCHEMA_DIRECTORIES, "core.schema")
        if schemas is None:
            raise UsageProblem(reason=f"no core.schema is in {', '.join(_SCHEMA_DIRECTORIES)}")
        lines = [f"include {schemas}/{name}.schema" for name in _SCHEMAS]
        if modules := _first(_MODULE_DIRECTORIES, "back_mdb.*"):  # else back-mdb is built into slapd
            lines += [f"modulepath {modules}", "moduleload back_mdb"]
        lines += ["database mdb", f'suffix "{SUFFIX}"', f'directory "{directory}"']
        lines += [f"maxsize {max(_LEAST_MAXSIZE, tree.entries * _MAXSIZE_OF_ENTRY)}"]
        lines += [f"index {index}" for index in _INDEXES]
        files.write_durably(path, "\n".join((*lines, "")).encode(), 0o600)
        return path

    def _slapadd(self, directory: Path, tree: _Tree, meter: Meter, *, quick: bool) -> Load:
        """Times slapadd. `quick`: with -q, so without sync and some checks. Raises ToolMissing, ToolFailed."""
        words = ["-q"] if quick else []
        config = str(self._config(directory, tree))
        command = tools.server_tool("slapadd", *words, "-f", config, "-l", str(tree.path))

        def load() -> None:
            with Child(command) as running, meter.cancelling(running.kill):
                running.check()

        return _timed(directory, tree.entries, load)

    def _build(self, directory: Path, tree: _Tree) -> Load:
        """Times all of `ditseed build`: reading the configuration, building, checking, moving into place."""
        options = BuildOptions(self._config(directory, tree), (tree.path,), target=directory)
        return _timed(directory, tree.entries, lambda: building.build(options, Progress("none"), {}))

    def _searched(self, place: Place, directory: Path) -> Searched | None:
        searches = self.searches
        if not searches:
            return None
        for path in directory.iterdir():  # drops the files from the page cache
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with (
            private.running(self._config(directory, self.whole), None) as server,
            self.progress.step(f"{place.name}: searches", len(searches)) as meter,
        ):
            return Searched(len(searches), questions.seconds_of(server, searches, meter))


def _first(directories: Sequence[str], pattern: str) -> str | None:
    return next((path for path in directories if any(Path(path).glob(pattern))), None)


def _timed(directory: Path, entries: int, load: Callable[[], object]) -> Load:
    began = time.monotonic()
    load()
    child.output(["sync", "--file-system", str(directory)])
    seconds = time.monotonic() - began
    written = [path for path in directory.rglob("*") if path.is_file()]
    apparent = sum(path.stat().st_size for path in written)
    return Load(entries, seconds, apparent, sum(map(files.allocated_bytes, written)))


# --- fio -------------------------------------------------------------------------------------------------------------


class _FioSide(msgspec.Struct):
    bw_bytes: float
    iops: float


class _FioJob(msgspec.Struct):
    jobname: str
    read: _FioSide
    write: _FioSide


class _FioReport(msgspec.Struct):
    jobs: list[_FioJob]


def disk_speed(directory: Path, size: int) -> DiskSpeed | Unseen:
    """Returns the speed of direct reads and writes of a file of `size` bytes in `directory`, or why there is none."""
    if shutil.which("fio") is None:
        return Unseen("fio", "fio is not installed")
    with temporary.directory("bench", directory) as place:
        answer = child.ask([*_fio_command(place, size)])
    if answer.status:
        return Unseen("fio", "; ".join(answer.words[-2:]) or f"exit status {answer.status}")
    try:
        # fio may print a warning before its JSON.
        report = msgspec.json.decode(answer.out[answer.out.find(b"{") :], type=_FioReport)
    except msgspec.MsgspecError as error:
        return Unseen("fio", f"its answer cannot be read ({error})")
    jobs = {job.jobname: job for job in report.jobs}
    return DiskSpeed(
        write=jobs["write"].write.bw_bytes,
        read=jobs["read"].read.bw_bytes,
        random_reads=jobs["random"].read.iops,
        fsyncs=jobs["fsync"].write.iops,
    )


def _fio_command(place: Path, size: int) -> Iterator[str]:
    yield from ("fio", "--direct=1", "--ioengine=psync", "--output-format=json", "--eta=never")
    yield from (f"--directory={place}", "--filename=fio", f"--size={size}")
    for name, words in _FIO_JOBS:
        yield from (f"--name={name}", *words)
