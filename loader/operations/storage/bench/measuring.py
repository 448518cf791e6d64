"""The entries that are loaded, the same ones in every directory, and the searches for them."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import msgspec

from loader import child, resources
from loader.child import Child
from loader.operations import build as building
from loader.operations.build import BuildOptions
from loader.operations.storage.bench.places import Installation, Place
from loader.operations.storage.bench.results import Disk, Load, Row, Searched, Wishes
from loader.progress import Meter, Progress
from loader.server import questions as repeated
from loader.server.questions import Question
from loader.sources import dit
from loader.sources.dit import PlanOptions, TreeSpec
from loader.storage import files, temporary
from loader.storage.volumes import Unseen

_UNIFORM = 0.01  # Zipf's exponent: nearly every entry is asked for as often as the others


class Tree(msgspec.Struct, frozen=True):
    """`entries` of the LDIF `path`."""

    path: Path
    entries: int


def made(recipe: TreeSpec, entries: int, path: Path, progress: Progress) -> Tree:
    """The LDIF of `entries` people, and of the containers above them."""
    template = dataclasses.replace(recipe, entries=entries).compiled()
    jobs = resources.processors()
    with (
        progress.step(f"generate {path.name}", template.entries) as meter,
        files.explained(path),
        files.creating(path) as file,
    ):
        dit.write(template, dit.whole(template), file.fileno(), jobs, meter)
        os.fsync(file.fileno())
    return Tree(path, template.entries)


def questions(recipe: TreeSpec, wishes: Wishes, path: Path, progress: Progress) -> Sequence[Question]:
    """Equality searches for an indexed attribute, each of which finds one entry, in random order."""
    template = dataclasses.replace(recipe, entries=wishes.entries).compiled()
    asked = PlanOptions(wishes.searches, {"search": 1}, 0.0, _UNIFORM, wishes.seed, (("uid", False, 1),))
    with progress.step("plan searches", wishes.searches) as meter, files.explained(path), files.creating(path) as file:
        dit.plan(template, asked, file.fileno(), 1, meter)
    return [_question(line) for line in files.read(path).splitlines()]


def _question(line: bytes) -> Question:
    told = json.loads(line)
    return Question(told["base"], told["scope"], told["filter"], told["entries"])


# --- trial -----------------------------------------------------------------------------------------------------------
#
# A database engine in one directory: its configuration, its tools, its server.


_LOOK = 0.02  # seconds
SOCKET = "ldapi"
BERKELEY = ("bdb", "hdb")
# 160 MiB in one piece: without it Berkeley DB has 256 KiB, and a load takes hours.
_CACHE = b"set_cachesize 0 167772160 1\n"


class Trial(msgspec.Struct, frozen=True):
    """`directory`: for the database. `work`: for the configuration and the socket."""

    installation: Installation
    backend: str
    directory: Path
    work: Path

    def inside(self, path: Path) -> str:
        """A file in `work`, as the tools see it."""
        work, _ = self.installation.names(self.work, self.directory)
        return f"{work}/{path.relative_to(self.work)}"

    def command(self, tool: str, *arguments: str) -> list[str]:
        """Raises ToolMissing."""
        return self.installation.command(tool, *arguments)

    def configured(self, entries: int) -> str:
        """Write the slapd.conf; its path as the tools see it. Raises UsageProblem."""
        path = self.work / "slapd.conf"
        _, directory = self.installation.names(self.work, self.directory)
        settings = self.directory / "DB_CONFIG"
        if self.backend in BERKELEY and not settings.exists():  # a newer one makes slapd recover
            files.write_durably(settings, _CACHE)
        text = self.installation.configuration(self.backend, directory, entries)
        files.write_durably(path, text.encode(), 0o600)
        return self.inside(path)

    @contextmanager
    def running(self, entries: int) -> Iterator[str]:
        """The URI of a slapd on it, which is killed at the end. Raises ToolMissing, ToolFailed."""
        path = self.work / SOCKET
        path.unlink(missing_ok=True)
        config = self.configured(entries)
        asked = ("-d", "0", "-h", _uri(self.inside(path)), "-f", config)
        with Child(self.command("slapd", *asked)) as server:
            while not _answers(path):
                if server.has_ended:
                    server.check()
                time.sleep(_LOOK)
            yield _uri(str(path))


def _uri(path: str) -> str:
    return f"ldapi://{quote(path, safe='')}"


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as tried:
        try:
            tried.connect(str(path))
        except OSError:
            return False
    return True


# --- loads -----------------------------------------------------------------------------------------------------------
#
# One load of an empty directory, timed until all of it is on the disk.


def by_slapadd(trial: Trial, tree: Tree, *, quick: bool, meter: Meter) -> Load:
    """`quick`: nosync, and no checks that -q leaves out. Raises ToolMissing, ToolFailed."""
    config = trial.configured(tree.entries)
    words = ["-q"] if quick else []
    command = trial.command("slapadd", *words, "-f", config, "-l", trial.inside(tree.path))

    def load() -> None:
        with Child(command) as running, meter.cancelling(running.kill):
            running.check()

    return _timed(trial.directory, tree.entries, load)


def by_ditseed(trial: Trial, tree: Tree) -> Load:
    """The whole of `ditseed build`: the configuration read, the database made, checked and put into place."""
    config = Path(trial.configured(tree.entries))
    options = BuildOptions(config, (tree.path,), target=trial.directory)

    def load() -> None:
        building.build(options, Progress("none"), {})

    return _timed(trial.directory, tree.entries, load)


def _timed(directory: Path, entries: int, load: Callable[[], None]) -> Load:
    began = time.monotonic()
    load()
    child.output(["sync", "--file-system", str(directory)])
    seconds = time.monotonic() - began
    found = [path for path in directory.rglob("*") if path.is_file()]
    apparent = sum(path.stat().st_size for path in found)
    return Load(entries, seconds, apparent, sum(map(files.allocated_bytes, found)))


def forget(directory: Path) -> None:
    """Have the kernel drop what it keeps of the files in memory."""
    for path in directory.iterdir():
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# --- fio -------------------------------------------------------------------------------------------------------------
#
# What the storage does without a database, as fio(1) measures it.


_SECONDS = 5  # of each of the two that have no end of their own
_WHAT = "fio"
_TIMED = ("--time_based", f"--runtime={_SECONDS}", "--bs=4k")
_JOBS = (
    ("write", ("--rw=write", "--bs=1M", "--end_fsync=1")),
    ("read", ("--stonewall", "--rw=read", "--bs=1M")),
    ("random", ("--stonewall", "--rw=randread", *_TIMED)),
    ("fsync", ("--stonewall", "--rw=randwrite", "--fsync=1", *_TIMED)),
)


class _Side(msgspec.Struct):
    bw_bytes: float
    iops: float


class _Job(msgspec.Struct):
    jobname: str
    read: _Side
    write: _Side


class _Told(msgspec.Struct):
    jobs: list[_Job]


def measure(directory: Path, size: int) -> Disk | Unseen:
    """Direct reads and writes of a file of `size` bytes in `directory`; or why there are none."""
    if shutil.which("fio") is None:
        return Unseen(_WHAT, "fio is not installed")
    with temporary.directory("bench", directory) as place:
        answer = child.ask(_command(place, size))
    if answer.status:
        said = "; ".join(answer.words[-2:]) or f"exit status {answer.status}"
        return Unseen(_WHAT, said)
    try:
        # fio may say a word before its JSON.
        told = msgspec.json.decode(answer.out[answer.out.find(b"{") :], type=_Told)
    except msgspec.MsgspecError as error:
        return Unseen(_WHAT, f"its answer cannot be read ({error})")
    jobs = {one.jobname: one for one in told.jobs}
    return Disk(
        write=jobs["write"].write.bw_bytes,
        read=jobs["read"].read.bw_bytes,
        random_reads=jobs["random"].read.iops,
        fsyncs=jobs["fsync"].write.iops,
    )


def _command(place: Path, size: int) -> list[str]:
    shared = (f"--directory={place}", "--filename=fio", f"--size={size}")
    jobs = [word for name, words in _JOBS for word in (f"--name={name}", *words)]
    how = ("--direct=1", "--ioengine=psync", "--output-format=json", "--eta=never")
    return ["fio", *how, *shared, *jobs]


# --- measuring -------------------------------------------------------------------------------------------------------
#
# The measurements of a directory, one after the other, each with an empty database directory.


class Material(msgspec.Struct, frozen=True):
    """What is loaded with and without sync, and looked for."""

    whole: Tree
    part: Tree | None
    questions: Sequence[Question]


def material(recipe: TreeSpec, wishes: Wishes, work: Path, progress: Progress) -> Material:
    """In `work`, which is not measured."""
    whole = made(recipe, wishes.entries, work / "whole.ldif", progress)
    part = None
    if wishes.sync_entries:
        part = made(recipe, wishes.sync_entries, work / "part.ldif", progress)
    asked = questions(recipe, wishes, work / "plan", progress) if wishes.searches else ()
    return Material(whole, part, asked)


class Measuring(msgspec.Struct, frozen=True):
    """One installation, with what it is given. `work`: where LDIF, configurations and sockets are."""

    installation: Installation
    version: str
    wishes: Wishes
    given: Material
    work: Path
    progress: Progress

    def row(self, place: Place, backend: str) -> Row:
        """Raises ToolFailed, NoSpace and others: a load that fails is no measurement."""
        with self._trial(place, backend) as trial:
            nosync = self._slapadd(place, trial, self.given.whole, quick=True)
            searched = self._searched(place, trial)
        sync = None
        if self.given.part is not None:
            with self._trial(place, backend) as trial:
                sync = self._slapadd(place, trial, self.given.part, quick=False)
        native = self._native(place, backend)
        disk = self._disk(place)
        return Row(
            name=place.name,
            directory=str(place.directory),
            kind=place.kind,
            layout=place.layout,
            backend=backend,
            version=self.version,
            nosync=nosync,
            searched=searched,
            sync=sync,
            native=native,
            disk=disk if isinstance(disk, Disk) else None,
            unmeasured=(disk,) if isinstance(disk, Unseen) else (),
        )

    @contextmanager
    def _trial(self, place: Place, backend: str) -> Iterator[Trial]:
        with temporary.directory("bench", place.directory) as directory, self.installation.seeing(directory):
            yield Trial(self.installation, backend, directory, self.work)

    def _slapadd(self, place: Place, trial: Trial, given: Tree, *, quick: bool) -> Load:
        name = f"{place.name}: slapadd{' -q' if quick else ''}, {trial.backend}"
        with self.progress.step(name) as meter:
            return by_slapadd(trial, given, quick=quick, meter=meter)

    def _searched(self, place: Place, trial: Trial) -> Searched | None:
        asked = self.given.questions
        if not asked:
            return None
        forget(trial.directory)
        with (
            trial.running(self.given.whole.entries) as uri,
            self.progress.step(f"{place.name}: searches, {trial.backend}", len(asked)) as meter,
        ):
            return Searched(len(asked), repeated.seconds_of(uri, asked, meter))

    def _native(self, place: Place, backend: str) -> Load | None:
        """ditseed writes for this host's slapd, and back-mdb only."""
        if backend != "mdb" or not self.installation.is_here:
            return None
        with self._trial(place, backend) as trial, self.progress.step(f"{place.name}: ditseed build"):
            return by_ditseed(trial, self.given.whole)

    def _disk(self, place: Place) -> Disk | Unseen | None:
        """Once for each directory."""
        if not self.wishes.fio_size or not self.installation.is_here:
            return None
        with self.progress.step(f"{place.name}: fio"):
            return measure(place.directory, self.wishes.fio_size)
