"""The files of a run: its lock, and an append-only log of the steps and partitions that are done, with their facts.

A line is written only after the result that it records is on disk. So after `kill -9` at any moment, the lines are
true, and every step without a line is repeated. A truncated last line is dropped.

Each line begins with a seal: a checksum of the line's text and of the previous seal. The first line contains a random
ID of the run. So the seal of a line is wrong if that line was changed, if the line before it was removed, or if it is
from another run. Such a line is refused. Seals detect damage; they do not prevent forgery by an account that may write
in the directory (mode 0700).
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import xxhash

from loader import defaults, plain
from loader.defaults import ENV_KILL_AT, ENV_STOP_AT
from loader.errors import CatalogueDamaged, Locked, NotPermitted, RunMismatch
from loader.storage import files, held, holders

FILE = "run.log"

Report = dict[str, object]  # a verb's report; the keys are those of --json
Kind = TypeVar("Kind")


class Row(msgspec.Struct, frozen=True):
    """One line of a log. Replaces the earlier row of the same kind and name; with `undone`, only removes that row."""

    kind: str
    name: str
    facts: object = None
    entries: int = 0
    seconds: float = 0.0
    finished: float = 0.0  # Unix time
    undone: bool = False


class Log:
    """A log in a private directory. A damaged line raises CatalogueDamaged if `strict`; otherwise it is skipped."""

    def __init__(self, directory: Path, file: str, strict: bool = True) -> None:
        self.directory, self.path = directory, directory / file
        self.rows: dict[tuple[str, str], Row] = {}
        self._lock = threading.Lock()  # several threads of a run record finished partitions
        self._descriptor: int | None = None
        self._seal, self._end = b"", 0
        try:
            content = files.read(self.path)
        except FileNotFoundError:
            return
        *lines, _ = content.split(b"\n")
        if lines and b"\0" in lines[-1]:  # after a power failure, a block can contain zeros instead of text
            lines.pop()
        for number, line in enumerate(lines, 1):
            seal, _, body = line.partition(b" ")
            if seal == _seal(self._seal, body):
                self._apply(body)
            elif strict:
                reason = f"line {number} was changed, or belongs to another run"
                raise CatalogueDamaged(path=self.path, reason=reason)
            self._seal, self._end = seal, self._end + len(line) + 1

    def append(self, *rows: Row) -> None:
        """Appends rows and syncs the file. If that fails, the file contains none of the rows."""
        with self._lock, files.explained(self.path):
            seal, bodies, text = self._seal, [], b""
            for row in rows:
                body = json.dumps(report_of(row)).encode()
                seal = _seal(seal, body)
                bodies.append(body)
                text += seal + b" " + body + b"\n"
            descriptor = self._writable()
            try:
                count = 0
                while count < len(text):
                    count += os.pwrite(descriptor, text[count:], self._end + count)
                os.fsync(descriptor)
            except BaseException:
                os.ftruncate(descriptor, self._end)
                raise
            self._seal, self._end = seal, self._end + len(text)
            for body in bodies:
                self._apply(body)

    def clear(self) -> None:
        """Removes all rows."""
        self.rows, self._seal, self._end = {}, b"", 0
        os.fsync(self._writable())

    def of(self, kind: str) -> list[Row]:
        return [row for row in tuple(self.rows.values()) if row.kind == kind]

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _writable(self) -> int:
        """Returns a descriptor for writing; truncates the file after its last complete line."""
        if self._descriptor is None:
            with held.opened(self.directory) as directory:
                self._descriptor = directory.open_or_create(self.path.name)
                os.fsync(directory.descriptor)
        os.ftruncate(self._descriptor, self._end)
        return self._descriptor

    def _apply(self, body: bytes) -> None:
        row = msgspec.convert(json.loads(body), Row)
        if row.undone:
            self.rows.pop((row.kind, row.name), None)
        else:
            self.rows[row.kind, row.name] = row


def report_of(*parts: object) -> Report:
    """Merges dataclasses, structs and mappings into one dictionary of JSON types; later parts override earlier ones.
    Fields with default values are omitted for structs with `omit_defaults`."""
    report: Report = {}
    for part in parts:
        report |= msgspec.to_builtins(part, enc_hook=str)
    return plain.with_operator_names(report)


def _seal(previous: bytes, body: bytes) -> bytes:
    return xxhash.xxh3_128_hexdigest(previous + body).encode()


class About(msgspec.Struct, frozen=True):
    """The facts of the row "run": the verb and the options with which the run was begun."""

    verb: str
    options: Report


class Counted(msgspec.Struct, frozen=True):
    """The number of entries of a step or of one of its partitions; 0 if the step counts none."""

    entries: int = 0


def _decoded(kind: type[Kind], value: object) -> Kind:
    """Converts text to a type that JSON lacks, such as Path. Values of that type are returned unchanged."""
    return value if isinstance(value, kind) else kind(value)  # type: ignore[call-arg]


class Catalogue(Log):
    """The log of a run: one row "run" with the verb and its options, one for each finished step, and one for each
    finished partition of a step."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, FILE)

    def begin(self, verb: str, options: Mapping[str, object]) -> bool:
        """Returns True if an earlier run is resumed. Otherwise records the verb and options of a new run, and returns
        False. Raises RunMismatch if the earlier run's verb or options differ."""
        differences = self.differences(verb, options)
        if differences:
            raise RunMismatch(path=self.directory, differences=", ".join(differences))
        if differences is None:
            self.append(Row("run", uuid.uuid4().hex, About(verb, dict(options)), finished=time.time()))
        return differences is not None

    def differences(self, verb: str, options: Mapping[str, object]) -> list[str] | None:
        """Returns the names of the options that have other values in the recorded run; None if there is no run."""
        about = self.about()
        if about is None:
            return None
        before = {"verb": about.verb, **about.options}
        now = {"verb": verb, **json.loads(json.dumps(plain.with_operator_names(dict(options))))}
        return sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))

    def about(self) -> About | None:
        """Returns the verb and options of the run; None if there is no run yet."""
        return next((self._converted(row, About) for row in self.of("run")), None)

    def has_work(self) -> bool:
        """Returns whether the run has done so much work that ditseed discards it only with --restart."""
        partitions = [row for row in self.rows.values() if row.kind.startswith(_partition_of(""))]
        entries = sum(self._converted(row, Counted).entries for row in partitions if isinstance(row.facts, dict))
        seconds = sum(step.seconds for step in self.steps())
        return entries > defaults.KEPT_ENTRIES or seconds > defaults.KEPT_SECONDS

    def is_done(self, step: str) -> bool:
        return ("step", step) in self.rows

    def facts_of(self, step: str, kind: type[Kind]) -> Kind | None:
        """Returns the facts of a finished step; None if the step is not done. Raises CatalogueDamaged if the facts are
        not of type `kind`."""
        row = self.rows.get(("step", step))
        return None if row is None else self._converted(row, kind)

    def _converted(self, row: Row, kind: type[Kind]) -> Kind:
        try:
            return msgspec.convert(row.facts, kind, dec_hook=_decoded)
        except msgspec.ValidationError as error:
            reason = f"the facts of {row.name} are those of another version: {error}"
            raise CatalogueDamaged(path=self.path, reason=reason) from error

    def finish(self, step: str, facts: object, entries: int, seconds: float) -> None:
        self.append(Row("step", step, facts, entries, seconds, time.time()))

    def undo(self, step: str) -> None:
        """Durably marks a step as not done."""
        self.append(Row("step", step, undone=True))

    def steps(self) -> list[Row]:
        """Returns the finished steps, in the order in which they were finished."""
        return sorted(self.of("step"), key=lambda step: step.finished)

    def ended(self) -> float | None:
        """Returns the Unix time at which the last step was finished; None before the first."""
        return max((step.finished for step in self.steps()), default=None)

    def partitions(self, step: str, kind: type[Kind]) -> dict[str, Kind]:
        """Returns the facts of the finished partitions of a step, by name."""
        return {row.name: self._converted(row, kind) for row in self.of(_partition_of(step))}

    def finish_partition(self, step: str, name: str, facts: object) -> None:
        self.append(Row(_partition_of(step), name, facts, finished=time.time()))


def _partition_of(step: str) -> str:
    return f"partition of {step}"


def forget(directory: Path) -> None:
    """Deletes the log of a run, even a damaged one. Then no step counts as done."""
    (directory / FILE).unlink(missing_ok=True)


@contextmanager
def recorded(directory: Path) -> Iterator[Catalogue | None]:
    """Yields the log of the run in a directory, for reading; None if there is none. Raises DirectoryUnsafe,
    CatalogueDamaged."""
    with ExitStack() as stack:
        try:
            run_dir = stack.enter_context(held.private(directory, make=False))
        except FileNotFoundError:
            yield None
            return
        yield stack.enter_context(closing(Catalogue(run_dir.path))) if run_dir.exists(FILE) else None


def killpoint(name: str) -> None:
    """For tests: kills the process if DITSEED_KILL_AT names this point, or stops it until SIGCONT if DITSEED_STOP_AT
    does. Each step has three such points (`Run.do`), and long steps have another one in their middle."""
    if os.environ.get(ENV_KILL_AT) == name:
        os.kill(os.getpid(), signal.SIGKILL)
    if name in os.environ.get(ENV_STOP_AT, "").split(","):
        os.kill(os.getpid(), signal.SIGSTOP)


def locking_process(path: Path) -> int | None:
    """Returns the ID of the process that holds the lock file `path`, or None. Reads /proc/locks and locks nothing."""
    try:
        status = path.stat()
        pid = files.read(path).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    # For some file systems, /proc/locks shows another device number, so the PID in the lock file is compared too. That
    # PID alone is not enough, because a process in a container writes the PID of its own namespace.
    lockers = [
        locker
        for kind, locker, device, inode in holders.locks()
        if (kind, inode) == ("FLOCK", status.st_ino) and (device == status.st_dev or str(locker) == pid)
    ]
    return next((locker for locker in lockers if str(locker) == pid), lockers[0]) if lockers else None


@contextmanager
def exclusive(path: Path, wait: bool = False) -> Iterator[None]:
    """Holds a lock on the file `path`, which is created if absent. The kernel releases the lock when the process ends.
    If another process has the lock, waits with `wait`, else raises Locked."""
    yield from _locked(path, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


@contextmanager
def shared(path: Path) -> Iterator[None]:
    """Holds a shared lock on the file `path`; waits while another process holds it exclusively."""
    yield from _locked(path, fcntl.LOCK_SH)


def _locked(path: Path, mode: int) -> Iterator[None]:
    try:
        with held.opened(path.parent) as directory:
            descriptor = directory.open_or_create(path.name)
    except PermissionError as error:
        raise NotPermitted(action="lock", path=path, owner="root, as a rule") from error
    with held.closing_descriptor(descriptor):
        try:
            fcntl.flock(descriptor, mode)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise Locked(path=path, pid=holder) from None
        with held.named(path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
