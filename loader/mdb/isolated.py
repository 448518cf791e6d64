"""Functions that run in a child process, because liblmdb maps the files it opens: if a mapped file is truncated, or the
disk fails, a signal kills the process. Here only the child dies, and the parent reports an error and cleans up. The
child also avoids opening an environment twice in one process.

A function decorated with `isolated` is called like any other, and runs in a child process. environment.py opens
environments only there.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from loader import errors
from loader.errors import LoaderError, MdbDamaged
from loader.mdb import meta
from loader.progress import Meter

if TYPE_CHECKING:
    from loader.child import Child

# Modules that only the parent needs are imported inside functions, because the parent waits for the child to start.
# -I: root must import nothing from the working directory. -S: sys.path is replaced by the parent's anyway.
START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from loader.mdb import isolated; isolated.main()"
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE)
_ERROR, _MOVED = "ditseed-error: ", "+"
_LENGTH = struct.Struct("=Q")

Work = TypeVar("Work", bound=Callable[..., Any])

_inside = False


def is_inside() -> bool:
    """Whether this is a child process, which may map files."""
    return _inside


def isolated(work: Work) -> Work:
    """Makes `work(place, ...)` run in a child process. Arguments and result must be JSON; arguments can be Meters."""

    @functools.wraps(work)
    def asked(place: Path, *arguments: Any, **named: Any) -> Any:
        if _inside:
            return work(Path(place), *arguments, **named)
        meters = [one for one in arguments if isinstance(one, Meter)]
        sent = [_METER if isinstance(one, Meter) else one for one in arguments]
        with started(asked, place, *sent, **named) as child:
            origin = meta.data_file(Path(place))
            return receive_result(child, origin, meters[0] if meters else None)

    return cast(Work, asked)


_METER = "ditseed-meter"


@contextmanager
def started(work: Callable[..., Any], *arguments: Any, stdout: Any = None, **named: Any) -> Iterator[Child]:
    """Yields the child process that runs `work`, a module-level function. `work` itself reads the rest of the child's
    stdin. Without `stdout`, the child's stdout is a pipe."""
    from subprocess import PIPE

    from loader.child import Child

    with Child(_command(work), stdin=PIPE, stdout=PIPE if stdout is None else stdout) as child:
        assert child.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `finish` reports the better reason
            asked = _line([arguments, named])
            child.process.stdin.write(_LENGTH.pack(len(asked)) + asked)
            child.process.stdin.flush()
        yield child


def _command(work: Callable[..., Any]) -> list[str]:
    path = json.dumps([place or os.getcwd() for place in sys.path])
    return [sys.executable, "-IS", "-c", START, path, work.__module__, work.__qualname__]


def _line(told: object) -> bytes:
    return json.dumps(told, default=os.fspath).encode() + b"\n"


def receive_result(child: Child, origin: Path, meter: Meter | None = None) -> Any:
    """Returns the result of the child's work. Raises its LoaderError, or MdbDamaged of `origin` after a crash."""
    told = _heard(child, meter)
    finish(child, origin)
    return json.loads(told or b"null")


def _heard(child: Child, meter: Meter | None) -> bytes:
    """Returns the child's last line of stdout. With a meter, the lines before it report progress."""
    assert child.process.stdin is not None
    assert child.process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        child.process.stdin.close()
    if meter is None:
        return child.process.stdout.read()
    told = b""
    with meter.cancelling(child.kill):
        for line in child.process.stdout:
            if line.startswith(_MOVED.encode()):
                meter.add(int(line))
            else:
                told = line
    return told


def finish(child: Child, origin: Path) -> None:
    """Waits for the child. Raises its LoaderError, MdbDamaged of `origin` after a crash, or ToolFailed."""
    status = child.wait()
    if status == 0:
        return
    for line in child.words:
        if line.startswith(_ERROR):
            name, facts = json.loads(line.removeprefix(_ERROR))
            kind: type[LoaderError] = getattr(errors, name)
            raise kind(**facts)
    if -status in _CRASHES:
        reason = f"reading it ended with {signal.Signals(-status).name}: the file was cut, or cannot be read, or lies"
        raise MdbDamaged(path=origin, reason=reason)
    child.check()


# --- in the child process --------------------------------------------------------------------------


def main() -> None:
    """Runs the requested work; prints its result to stdout, or its LoaderError to stderr."""
    global _inside
    _inside = True
    work = getattr(import_module(sys.argv[2]), sys.argv[3])
    arguments, named = json.loads(_taken(*_LENGTH.unpack(_taken(_LENGTH.size))))
    try:
        done = work(*(_RemoteMeter("") if one == _METER else one for one in arguments), **named)
    except LoaderError as error:
        facts = {name: str(value) for name, value in error.facts.items()}
        print(_ERROR + json.dumps([type(error).__name__, facts]), file=sys.stderr)
        os._exit(error.exit_status)
    if done is not None:
        say(done)


def say(answer: object) -> None:
    """Sends a line of JSON to the parent."""
    sys.stdout.buffer.write(_line(answer))
    sys.stdout.flush()


def _taken(count: int) -> bytes:
    """Returns exactly `count` bytes of stdin, unbuffered: the work reads the rest from descriptor 0."""
    found = b""
    while len(found) < count:
        piece = os.read(0, count - len(found))
        if not piece:
            sys.exit("nobody asks anything")
        found += piece
    return found


class _RemoteMeter(Meter):
    """Sends the counts to the parent's meter."""

    def add(self, entries: int = 0, size: int = 0) -> None:
        print(f"{_MOVED}{entries}", flush=True)


@contextmanager
def afterwards(check: Callable[[], None], errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Runs `check` after the body, also if the body raises one of `errors`, whose cause the check may raise."""
    try:
        yield
    except errors:
        check()
        raise
    check()
