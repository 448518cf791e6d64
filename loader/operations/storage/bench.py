"""`storage bench`: loads the same generated people in each directory, searches them, and times the storage with fio.
Each measurement has an empty directory of its own."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from loader import child, defaults
from loader.child import Child
from loader.errors import UsageProblem
from loader.operations import build as building
from loader.operations.build import BuildOptions
from loader.operations.options import BenchSizes
from loader.progress import Meter, Progress
from loader.server import private, questions, tools
from loader.server.questions import Question
from loader.sources import dit
from loader.sources.dit import PlanOptions, TreeSpec
from loader.storage import files, held, survey

SUFFIX = "dc=example,dc=com"
_INDEXES = ("objectClass,entryUUID,entryCSN eq", "uid,cn,sn,mail eq")
_SCHEMAS = ("core", "cosine", "inetorgperson")
# Where Debian, the Red Hat family, `make install` and Symas install OpenLDAP's schemas.
_SCHEMA_DIRECTORIES = (
    *("/etc/ldap/schema", "/etc/openldap/schema"),
    *("/usr/local/etc/openldap/schema", "/opt/symas/etc/openldap/schema"),
)
_MODULE_DIRECTORIES = (
    *("/usr/lib/ldap", "/usr/lib64/openldap", "/usr/lib/openldap", "/usr/libexec/openldap"),
    *("/usr/local/libexec/openldap", "/opt/symas/lib/openldap"),
)
_LEAST_MAXSIZE = 64 << 20
_MAXSIZE_OF_ENTRY, _DISK_OF_ENTRY = 8192, 4096  # bytes per entry; an entry takes less than half of each
_DISK_BESIDE = 64 << 20  # bytes for the file system's own structures
_UNIFORM = 0.01  # exponent of Zipf's law; so small that all entries are searched for about equally often
_FIO = ("fio", "--direct=1", "--ioengine=psync", "--output-format=json", "--eta=never", "--filename=fio")
_FIO_TIMED = ("--time_based", "--runtime=5", "--bs=4k")  # limited to 5 seconds: these two jobs do not end by themselves
# Maps a field of DiskSpeed to the options of its fio job, and to the section and field of the result in fio's report.
_FIO_JOBS = {
    "write": (("--rw=write", "--bs=1M", "--end_fsync=1"), "write", "bw_bytes"),
    "read": (("--stonewall", "--rw=read", "--bs=1M"), "read", "bw_bytes"),
    "random_reads": (("--stonewall", "--rw=randread", *_FIO_TIMED), "read", "iops"),
    "fsyncs": (("--stonewall", "--rw=randwrite", "--fsync=1", *_FIO_TIMED), "write", "iops"),
}


class Load(msgspec.Struct, frozen=True):
    """A timed load. `seconds`: until all data is on the disk. `allocated`: bytes on the disk."""

    entries: int
    seconds: float
    allocated: int


class DiskSpeed(msgspec.Struct, frozen=True):
    """`write`, `read`: bytes per second. `random_reads`, `fsyncs`: operations per second."""

    write: float
    read: float
    random_reads: float
    fsyncs: float


class BenchRow(msgspec.Struct, frozen=True):
    """The measurements in a directory; None if not requested. `name`: file system. `nosync`: slapadd -q. `sync`:
    slapadd without -q. `native`: ditseed build. `searches`: per second. `no_disk`: why fio measured nothing, or ""."""

    name: str
    directory: str
    nosync: Load
    searches: float | None
    sync: Load | None
    native: Load
    disk: DiskSpeed | None
    no_disk: str


class BenchReport(msgspec.Struct, frozen=True):
    version: str  # of OpenLDAP
    rows: tuple[BenchRow, ...]


class _Tree(msgspec.Struct, frozen=True):
    path: Path
    entries: int


def bench(directories: Sequence[Path], recipe: TreeSpec, sizes: BenchSizes, progress: Progress) -> BenchReport:
    """Measures slapadd, searches, `ditseed build` and fio in each directory. Raises UsageProblem, ToolMissing,
    NotPermitted or DirectoryUnsafe before the first measurement; ToolFailed or NoSpace at any time."""
    release = ".".join(map(str, tools.require_release()))
    kinds = {path.absolute(): _kind(path) for path in directories}
    if len(kinds) < len(directories):
        raise UsageProblem(reason="a directory is given twice")
    for directory in kinds:
        files.require_space(directory, sizes.entries * _DISK_OF_ENTRY + sizes.fio_size + _DISK_BESIDE)
    with files.temporary_directory("bench") as work:
        whole = _generated(recipe, sizes.entries, work / "whole.ldif", progress)
        part = _generated(recipe, sizes.sync_entries, work / "part.ldif", progress) if sizes.sync_entries else None
        searches = _searches(recipe, sizes, work / "plan", progress) if sizes.searches else []
        measuring = _Measuring(sizes.fio_size, whole, part, searches, work, progress)
        return BenchReport(release, tuple(measuring.row(directory, kind) for directory, kind in kinds.items()))


def _kind(path: Path) -> str:
    """Returns the file system of a directory and the layout of its logical volume. Raises NoSuchPath, NotPermitted,
    ReadOnly, DirectoryUnsafe, UsageProblem."""
    with files.explained(path), held.opened(path) as opened:
        held.require_private(opened.status, path)
    files.require_writable(path)
    facts = survey.facts_of(path)
    layout = dict.fromkeys(segment.kind for segment in (facts.volume.segments if facts.volume else ()))
    return ", ".join((facts.mount.kind, *(["+".join(layout)] if layout else [])))


def _generated(recipe: TreeSpec, entries: int, path: Path, progress: Progress) -> _Tree:
    """Writes LDIF of `entries` people and the containers above them."""
    template = msgspec.structs.replace(recipe, entries=entries).compiled()
    step = progress.step(f"generate {path.name}", template.entries)
    with step as meter, files.explained(path), files.creating(path) as file:
        dit.write(template, dit.whole(template), file.fileno(), defaults.processors(), meter)
        os.fsync(file.fileno())
    return _Tree(path, template.entries)


def _searches(recipe: TreeSpec, sizes: BenchSizes, path: Path, progress: Progress) -> Sequence[Question]:
    """Returns searches in random order. Each has a filter (uid=...), uses an index, and matches one entry."""
    template = msgspec.structs.replace(recipe, entries=sizes.entries).compiled()
    options = PlanOptions(sizes.searches, {"search": 1}, 0.0, _UNIFORM, sizes.seed, (("uid", False, 1),))
    with progress.step("plan searches", sizes.searches) as meter, files.explained(path), files.creating(path) as file:
        dit.plan(template, options, file.fileno(), 1, meter)
    planned = map(json.loads, files.read(path).splitlines())
    return [Question(search["base"], search["filter"], search["entries"]) for search in planned]


class _Measuring(msgspec.Struct, frozen=True):
    """`fio_size`: bytes of fio's file. `whole`: LDIF to load without sync. `part`: LDIF to load with sync, or None."""

    fio_size: int
    whole: _Tree
    part: _Tree | None
    searches: Sequence[Question]
    work: Path
    progress: Progress

    def row(self, parent: Path, kind: str) -> BenchRow:
        """Measures in `parent`. Raises ToolFailed, NoSpace and others if a load fails."""
        sync = searches = disk = None
        no_disk = ""
        with files.temporary_directory("bench", parent) as directory:
            with self.progress.step(f"{parent}: slapadd -q") as meter:
                nosync = self._slapadd(directory, self.whole, meter, "-q")
            if self.searches:
                searches = self._searches_per_second(parent, directory)
        if self.part is not None:
            with self._step(f"{parent}: slapadd", parent) as (directory, meter):
                sync = self._slapadd(directory, self.part, meter)
        with self._step(f"{parent}: ditseed build", parent) as (directory, _):
            options = BuildOptions(self._config(directory, self.whole), (self.whole.path,), target=directory)
            native = _timed(directory, self.whole, lambda: building.build(options, Progress("none"), {}))
        if self.fio_size:
            with self._step(f"{parent}: fio", parent) as (directory, _):
                speed = disk_speed(directory, self.fio_size)
            disk, no_disk = (None, speed) if isinstance(speed, str) else (speed, "")
        return BenchRow(kind, str(parent), nosync, searches, sync, native, disk, no_disk)

    @contextmanager
    def _step(self, name: str, parent: Path) -> Iterator[tuple[Path, Meter]]:
        """Yields an empty directory in `parent`, and the meter of the step."""
        with files.temporary_directory("bench", parent) as directory, self.progress.step(name) as meter:
            yield directory, meter

    def _config(self, directory: Path, tree: _Tree) -> Path:
        """Writes a slapd.conf for a database in `directory`. Raises UsageProblem if there is no core.schema."""
        path = self.work / "slapd.conf"
        schemas = next((path for path in _SCHEMA_DIRECTORIES if Path(path, "core.schema").exists()), None)
        if schemas is None:
            raise UsageProblem(reason=f"no core.schema is in {', '.join(_SCHEMA_DIRECTORIES)}")
        lines = [f"include {schemas}/{name}.schema" for name in _SCHEMAS]
        modules = next((path for path in _MODULE_DIRECTORIES if any(Path(path).glob("back_mdb.*"))), None)
        if modules:  # otherwise back-mdb is built into slapd
            lines += [f"modulepath {modules}", "moduleload back_mdb"]
        lines += ["database mdb", f'suffix "{SUFFIX}"', f'directory "{directory}"']
        lines += [f"maxsize {max(_LEAST_MAXSIZE, tree.entries * _MAXSIZE_OF_ENTRY)}"]
        lines += [f"index {index}" for index in _INDEXES]
        files.write_durably(path, "\n".join((*lines, "")).encode(), 0o600)
        return path

    def _slapadd(self, directory: Path, tree: _Tree, meter: Meter, *words: str) -> Load:
        """Times slapadd; -q omits syncs and some checks. Raises ToolMissing, ToolFailed."""
        config = str(self._config(directory, tree))
        command = tools.server_tool("slapadd", *words, "-f", config, "-l", str(tree.path))

        def load() -> None:
            with Child(command) as running, meter.cancelling(running.kill):
                running.check()

        return _timed(directory, tree, load)

    def _searches_per_second(self, parent: Path, directory: Path) -> float:
        for path in directory.iterdir():  # drops the files from the page cache
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with (
            private.running(self._config(directory, self.whole), None) as server,
            self.progress.step(f"{parent}: searches", len(self.searches)) as meter,
        ):
            return len(self.searches) / questions.seconds_of(server, self.searches, meter)


def _timed(directory: Path, tree: _Tree, load: Callable[[], object]) -> Load:
    began = time.monotonic()
    load()
    child.output(["sync", "--file-system", str(directory)])
    seconds = time.monotonic() - began
    return Load(tree.entries, seconds, sum(files.allocated_bytes(p) for p in directory.rglob("*") if p.is_file()))


def disk_speed(directory: Path, size: int) -> DiskSpeed | str:
    """Measures direct reads and writes of a file of `size` bytes. Returns the reason if fio is missing or fails."""
    if shutil.which("fio") is None:
        return "fio is not installed"
    jobs = (word for name, (words, _, _) in _FIO_JOBS.items() for word in (f"--name={name}", *words))
    answer = child.run([*_FIO, f"--directory={directory}", f"--size={size}", *jobs])
    if answer.status:
        return "; ".join(answer.stderr_lines[-2:]) or f"exit status {answer.status}"
    try:
        # fio may print a warning before its JSON.
        report = json.loads(answer.out[answer.out.find(b"{") :])
        measured = {job["jobname"]: job for job in report["jobs"]}
        return DiskSpeed(**{name: measured[name][side][figure] for name, (_, side, figure) in _FIO_JOBS.items()})
    except (ValueError, LookupError, TypeError) as error:
        return f"fio's report cannot be read ({error!r})"
