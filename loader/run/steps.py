"""A run is a list of named steps. Each step is done once, and its result (the facts) is kept.

    exported = run.do("export", lambda meter: export_entries(..., meter), Exported)

The code of an operation is a sequence of such calls. After `kill -9`, the same command makes the same calls again, and
`do` skips the finished steps.

The log of the finished steps (log.py) is synced to disk. A second file, `now.json`, has the current step, or the error
that ended the run. `now.json` is written when a step begins, and about once a second while the step makes progress. So
its age is the time since the last progress. `status_of` reads both files from another process, without a lock.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import overload

import msgspec

from loader import errors, plain, units
from loader.defaults import SILENCE_FACTOR, SILENCE_FLOOR
from loader.progress import Meter, Progress, alongside
from loader.run.log import Catalogue, Counted, Kind, Report, exclusive, forget, killpoint, locking_process, recorded
from loader.storage import files, held

LIVE_FILE = "now.json"
_BLOCK = 4096  # bytes
log = logging.getLogger(__name__)


class Failure(msgspec.Struct, frozen=True):
    """The error that ended a run. `at`: Unix time. `status`: the exit status of the run."""

    code: str
    message: str
    hint: str | None
    at: float
    status: int = errors.EXIT_ERROR


class Live(msgspec.Struct, frozen=True):
    """The contents of now.json. `step`: the step that was begun last. `entries`, `seconds`: progress of the step.
    `total`: its entries, if known. `failure`: the error that ended the run. `done`: the run ended without an error."""

    step: str | None = None
    entries: int = 0
    total: int | None = None
    seconds: float = 0.0
    failure: Failure | None = None
    done: bool = False

    @property
    def rate(self) -> float | None:
        """Entries per second; None if the step counts none."""
        return self.entries / self.seconds if self.entries and self.seconds > 0 else None


@dataclass
class Run:
    """One run in its directory, which is private and stays open (loader/storage/held.py). `timeouts`: for a step, or
    "*" for every step, the seconds without progress after which it fails. `label`: distinguishes runs that one command
    executes at the same time."""

    catalogue: Catalogue
    progress: Progress
    timeouts: Mapping[str, float] = field(default_factory=dict)
    label: str = ""
    worked: bool = False  # whether this process has run a step
    live: Live = field(default_factory=Live)

    @property
    def directory(self) -> Path:
        """The path through the directory's descriptor, which no symbolic link can redirect."""
        return self.catalogue.directory

    @property
    def name(self) -> Path:
        """The path as the operator knows it."""
        return Path(plain.with_operator_paths(str(self.directory)))

    @overload
    def do(self, name: str, work: Callable[[Meter], None], *, total: int | None = None) -> None: ...

    @overload
    def do(self, name: str, work: Callable[[Meter], Kind], kind: type[Kind], total: int | None = None) -> Kind: ...

    def do(
        self, name: str, work: Callable[[Meter], object], kind: type | None = None, total: int | None = None
    ) -> object:
        """Does a step if it is not done yet. Returns the facts of the step, which are of type `kind`.

        If the process is killed before the kill point `NAME.recorded`, the next run does the step again. So the work
        must be repeatable."""
        shown = f"{name} ({self.label})" if self.label else name
        if self.catalogue.is_done(name):
            self.progress.skipped(shown)
        else:
            self.worked = True
            killpoint(f"{name}.start")
            with self.progress.step(shown, total) as meter:

                def note() -> None:
                    self.note(Live(name, meter.entries, meter.total, meter.seconds))

                note()
                with watching(meter, self.timeouts.get(name, self.timeouts.get("*")), note):
                    facts = work(meter)
            killpoint(f"{name}.unrecorded")
            self.catalogue.finish(name, facts, meter.entries, meter.seconds)
            killpoint(f"{name}.recorded")
        return None if kind is None else self.catalogue.facts_of(name, kind)

    def note(self, live: Live) -> None:
        """Writes now.json in place and in one block, which works even on a full disk. Errors are ignored: they must not
        end the run."""
        self.live = live
        content = msgspec.json.encode(live).ljust(_BLOCK)
        with (
            suppress(OSError, errors.LoaderError),
            held.opened(self.directory) as directory,
            held.closing_descriptor(directory.open_or_create(LIVE_FILE)) as descriptor,
        ):
            os.pwrite(descriptor, content, 0)
            os.ftruncate(descriptor, len(content))

    def done_before(self) -> Report:
        """Returns {"done_before": time of the last step} for a verb's report; {} if this process has run a step."""
        ended = None if self.worked else self.catalogue.ended()
        return {} if ended is None else {"done_before": units.moment(ended)}


@contextmanager
def open_run(
    directory: Path,
    verb: str,
    options: Mapping[str, object],
    progress: Progress,
    timeouts: Mapping[str, float] | None = None,
    restart: bool = False,
    label: str = "",
    resumable: bool = True,
) -> Iterator[Run]:
    """Locks the run directory, and resumes the run in it or begins a new run. `resumable`: whether the same command can
    resume the run after a failure.

    Raises Locked, CatalogueDamaged, and RunMismatch if there is an unfinished run with other `options`."""
    with ExitStack() as stack:
        try:
            run_dir = stack.enter_context(held.private(directory))
        except PermissionError as error:
            raise errors.NotPermitted(action="make", path=directory, owner="root") from error
        run = None
        try:
            stack.enter_context(exclusive(run_dir.path / "lock"))
            log.info("run directory: %s", run_dir.name)
            if restart:
                forget(run_dir.path)
            catalogue = stack.enter_context(closing(Catalogue(run_dir.path)))
            if catalogue.begin(verb, options):
                progress.say(f"resuming the run in {run_dir.name}")
            run = Run(catalogue, progress, timeouts or {}, label)
            run.note(Live())
            yield run
            if not label and (before := run.done_before()):  # otherwise an old report would look like a new one
                text = "already done on %s: nothing was done now (--restart repeats it; the record is in %s)"
                log.warning(text, before["done_before"], run_dir.path)
            run.note(Live(done=True))
        except BaseException as error:
            if resumable:
                errors.mark_resumable(error)
                if isinstance(error, errors.NoSpace) or getattr(error, "errno", None) in errors.FULL_ERRNOS:
                    with suppress(OSError):  # files that vanish meanwhile must not hide the error
                        size = sum(path.lstat().st_blocks * 512 for path in run_dir.path.rglob("*"))
                        log.warning(
                            "this run uses %s of that disk, in %s: the same command resumes with these files; to free "
                            "the space, remove that directory",
                            *(units.size(size), run_dir.name),
                        )
            if run is not None:
                run.note(msgspec.structs.replace(run.live, failure=_failure_of(error, run_dir.name)))
            raise


def _failure_of(error: BaseException, directory: Path) -> Failure:
    """Returns the error as the verb prints it. `directory`: the path for a system error that names no file."""
    failure: errors.LoaderError
    stop = next((cause for cause in errors.chain(error) if isinstance(cause, KeyboardInterrupt)), None)
    if stop is not None:
        failure = errors.Cancelled(signal=str(stop) or "SIGINT")
    elif isinstance(error, errors.LoaderError):
        failure = error
    elif isinstance(error, OSError):
        failure = errors.of_system(error, directory)
        if error.errno in errors.FULL_ERRNOS:
            failure = errors.NoSpace(path=failure.facts["path"], lack=errors.FULL)
    else:
        first = str(error).partition("\n")[0]
        failure = errors.Internal(what=f"{type(error).__name__}: {first}", path=directory)
    if errors.is_resumable(error):
        errors.mark_resumable(failure)
    # The hint of an internal error names a report file, which does not exist yet.
    hint = None if isinstance(failure, errors.Internal) else failure.advice()
    status = failure.exit_status if stop is None else 128 + getattr(signal, str(stop), signal.SIGINT)
    return Failure(failure.code, str(failure), hint, time.time(), status)


class RunStatus(msgspec.Struct, frozen=True):
    """A run as another process sees it. `process`: PID of the ditseed that executes it, or None. `heard`: Unix time of
    the last write to a file of the run. `read`: number of entries in the finished partitions of the step "read"."""

    directory: Path
    verb: str
    options: Report
    catalogue: Catalogue
    read: int
    process: int | None
    heard: float
    live: Live

    @property
    def under_way(self) -> str | None:
        """The step that was begun and is not finished."""
        step = self.live.step
        return None if step is None or self.catalogue.is_done(step) else step


def status_of(directory: Path) -> RunStatus | None:
    """Returns the status of the run in `directory`; None if there is no run. Raises CatalogueDamaged."""
    with recorded(directory) as catalogue:
        about = catalogue.about() if catalogue else None
        if catalogue is None or about is None:
            return None
        heard = directory.stat().st_mtime
        for path in directory.rglob("*"):
            with suppress(FileNotFoundError):  # the file was renamed or removed meanwhile
                heard = max(heard, path.lstat().st_mtime)
        try:
            live = msgspec.json.decode(files.read(directory / LIVE_FILE), type=Live)
        except (FileNotFoundError, ValueError):  # missing, or half written; msgspec's errors are ValueErrors
            live = Live()
        return RunStatus(
            directory,
            about.verb,
            about.options,
            catalogue,
            sum(part.entries for part in catalogue.partitions("read", Counted).values()),
            locking_process(directory / "lock"),
            heard,
            live,
        )


class Watch:
    """Cancels a step that makes no progress for `allowed` seconds. Without `allowed`, a step may pause for the longest
    of three times: the time for which it has made progress (a slapadd that loaded for an hour may sync for an hour),
    SILENCE_FACTOR times its longest pause so far, and SILENCE_FLOOR. `error` is set when the step is cancelled."""

    def __init__(self, meter: Meter, allowed: float | None) -> None:
        self._meter = meter
        self._fixed = allowed
        self._last_mark: tuple[object, ...] = (0, 0, "", 0, 0)
        self._last_progress = time.monotonic()
        self._longest = 0.0
        self.error: errors.StepTimeout | None = None

    def allowed(self) -> tuple[float, str]:
        """Returns the seconds for which the step may pause now, and the reason."""
        if self._fixed is not None:
            return self._fixed, "set with --timeout"
        moving = self._last_progress - self._meter.started
        if moving >= max(self._longest * SILENCE_FACTOR, SILENCE_FLOOR):
            return moving, "as long as it made progress before"
        pauses = self._longest * SILENCE_FACTOR
        return max(pauses, SILENCE_FLOOR), f"longest pause so far {units.duration(self._longest)}"

    def check(self) -> bool:
        """Returns whether the step has made progress since the last call; cancels it after too long a pause."""
        now = time.monotonic()
        mark = self._meter.mark
        if mark != self._last_mark:
            self._longest = max(self._longest, now - self._last_progress)
            self._last_mark, self._last_progress = mark, now
            return True
        allowed, why = self.allowed()
        if now - self._last_progress > allowed and self.error is None:
            silent, limit = units.duration(now - self._last_progress), units.duration(allowed)
            self.error = errors.StepTimeout(step=self._meter.name, silent=silent, allowed=limit, why=why)
            self._meter.cancel()
        return False


@contextmanager
def watching(meter: Meter, allowed: float | None, note: Callable[[], None] | None = None) -> Iterator[None]:
    """Runs the body with a `Watch` (`allowed`: see there) in a second thread, which also calls `note` about once a
    second while the step makes progress. If the watch cancels the step, the body's error is replaced by StepTimeout."""
    watch = Watch(meter, allowed)

    def loop(ended: threading.Event) -> None:
        while not ended.wait(min(1.0, (allowed or 1.0) / 4)):
            if watch.check() and note is not None:
                note()

    try:
        with alongside(loop):
            yield
    except Exception as error:
        if watch.error is not None:
            raise watch.error from error
        raise
