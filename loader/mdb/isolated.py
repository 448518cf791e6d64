"""Runs functions in child processes, because liblmdb maps the files that it opens. If a mapped file is truncated, or
its disk fails, a signal kills the process. Then only the child dies; the parent reports an error and cleans up. A new
process for each call also ensures that no process opens an environment twice.

A function decorated with `isolated` is called like any other function, but runs in a child process. environment.py
opens environments only in such processes."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pickle
import signal
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from loader import errors
from loader.errors import LoaderError, MdbDamaged
from loader.mdb import meta
from loader.progress import Meter, WholeFile, alongside

if TYPE_CHECKING:
    from loader.child import Child

# The program of the child (python -IS -c). It imports this module while the parent waits, so modules that only the
# parent needs are imported inside functions. -I: root must import nothing from the working directory. -S: the child
# gets the parent's sys.path, so it need not compute its own.
START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from loader.mdb import isolated; isolated.main()"
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE)
_ERROR, _METER = "ditseed-error: ", "ditseed-meter"
_INTERVAL = 0.25  # seconds between two reports of progress
_LENGTH = struct.Struct("=Q")

Work = TypeVar("Work", bound=Callable[..., Any])

_inside = False


def is_inside() -> bool:
    """Returns whether this is a child process, which may map files."""
    return _inside


def isolated(work: Work) -> Work:
    """Decorates a function `work(directory, ...)`, which then runs in a child process. Its result must be convertible
    to JSON. A Meter among the arguments shows the child's progress."""

    @functools.wraps(work)
    def run_in_child(directory: Path, *arguments: Any) -> Any:
        if _inside:
            return work(directory, *arguments)
        meter = next((argument for argument in arguments if isinstance(argument, Meter)), None)
        with started(run_in_child, directory, *arguments) as child:
            assert child.process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                child.process.stdin.close()
            return receive_result(child, meta.data_file(directory), meter)

    return cast(Work, run_in_child)


@contextmanager
def started(work: Callable[..., Any], *arguments: Any) -> Iterator[Child]:
    """Yields the child process that runs `work`, a module-level function. The child reads the arguments from its stdin;
    `work` may read the rest of stdin. A Meter among the arguments sends the child's counts to `receive_result`."""
    from subprocess import PIPE

    from loader.child import Child
    from loader.storage import holders

    path = json.dumps([directory or os.getcwd() for directory in sys.path])
    command = [sys.executable, "-IS", "-c", START, path, work.__module__, work.__qualname__]
    call = pickle.dumps([_METER if isinstance(argument, Meter) else argument for argument in arguments])
    with ExitStack() as stack:
        child = stack.enter_context(Child(command, stdin=PIPE, stdout=PIPE))
        # LMDB identifies a reader by its PID only, and a slapd in another container may have the same PID. If so,
        # another child is started, while this one still has its PID.
        with contextlib.suppress(LoaderError, OSError):  # the child reports why lock.mdb cannot be opened
            while holders.locker(arguments[0], child.process.pid) is not None:
                child = stack.enter_context(Child(command, stdin=PIPE, stdout=PIPE))
        assert child.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `finish` reports why the child ended
            child.process.stdin.write(_LENGTH.pack(len(call)) + call)
            child.process.stdin.flush()
        yield child


class _Progress:
    """The progress of the child, with the interface that `Meter` expects of a native call."""

    def __init__(self, child: Child) -> None:
        self.cancel = child.kill
        self.entries, self.bytes, self.stage = 0, 0, ("", 0, 0)
        self.files: Sequence[WholeFile] = ()  # the child reads no LDIF
        self.open_ends: Sequence[str] = ()


def receive_result(child: Child, origin: Path, meter: Meter | None = None) -> Any:
    """Returns the result of the child's work. Raises the errors of `finish`."""
    assert child.process.stdout is not None
    meter, progress, result = meter or Meter(""), _Progress(child), None
    with meter.counting(progress), meter.following(progress):
        for line in child.process.stdout:
            report = json.loads(line) if line.endswith(b"\n") else {}  # a killed child may leave half a line
            if "result" in report:
                result = report["result"]
            elif report:
                progress.entries, progress.bytes, progress.stage = report["progress"]
        finish(child, origin)
    return result


def finish(child: Child, origin: Path) -> None:
    """Waits for the child. Raises the child's LoaderError, or ToolFailed; after a crash, MdbDamaged with `origin`."""
    status = child.wait()
    if status == 0:
        return
    for line in child.stderr_lines:
        if line.startswith(_ERROR):
            name, facts = json.loads(line.removeprefix(_ERROR))
            kind: type[LoaderError] = getattr(errors, name)
            raise kind(**facts)
    if -status in _CRASHES:
        reason = f"reading it ended with {signal.Signals(-status).name}: the file is truncated, unreadable or damaged"
        raise MdbDamaged(path=origin, reason=reason)
    child.check()


# --- in the child process --------------------------------------------------------------------------


def main() -> None:
    """Runs the requested function. Prints the result to stdout, or a LoaderError to stderr."""
    global _inside
    _inside = True
    work = getattr(import_module(sys.argv[2]), sys.argv[3])
    arguments = pickle.loads(_read(*_LENGTH.unpack(_read(_LENGTH.size))))
    meter = Meter("")
    try:
        with _sending(meter) if _METER in arguments else contextlib.nullcontext():
            result = work(*(meter if argument == _METER else argument for argument in arguments))
    except LoaderError as error:
        facts = {name: str(value) for name, value in error.facts.items()}
        print(_ERROR + json.dumps([type(error).__name__, facts]), file=sys.stderr)
        os._exit(error.exit_status)
    if result is not None:
        send({"result": result})


def send(report: object) -> None:
    """Sends a line of JSON to the parent."""
    sys.stdout.buffer.write(json.dumps(report, default=os.fspath).encode() + b"\n")
    sys.stdout.flush()


def _read(count: int) -> bytes:
    """Returns the next `count` bytes of stdin. Does not read ahead, because the work may read the rest of stdin."""
    received = b""
    while len(received) < count:
        piece = os.read(0, count - len(received))
        if not piece:
            sys.exit("the parent process sent no request")
        received += piece
    return received


@contextmanager
def _sending(meter: Meter) -> Iterator[None]:
    """Sends the counts of the meter to the parent while the body runs, and once more at its end."""

    def report(ended: threading.Event) -> None:
        is_last = False
        while not is_last:
            is_last = ended.wait(_INTERVAL)
            send({"progress": [meter.entries, meter.bytes, meter.stage]})

    with alongside(report):
        yield


@contextmanager
def afterwards(check: Callable[[], None], errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Runs `check` after the body, even if it raises one of `errors`; `check` may then raise the cause instead."""
    try:
        yield
    except errors:
        check()
        raise
    check()
