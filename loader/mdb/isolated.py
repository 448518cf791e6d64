"""Work in a process of its own: whoever maps a file dies by a signal where the file is cut or the disk fails, and
liblmdb maps what it opens. Such a death becomes an error here, and what this process has to clean up is cleaned up. Nor
may one process open an environment twice.

`isolated` makes a function of this kind: it is called as any other, and runs in a process of its own. environment.py
opens nothing outside of it.
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

# What only the process that asks needs is imported where it is used: the start of the other one is waited for.
# -I, so that nothing in the working directory is imported by root; then our own path, as it is here, and so -S.
START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from loader.mdb import isolated; isolated.main()"
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE)
_ERROR, _MOVED = "ditseed-error: ", "+"
_LENGTH = struct.Struct("=Q")

Work = TypeVar("Work", bound=Callable[..., Any])

_inside = False


def is_inside() -> bool:
    """Is this a process of its own, which may die of what it maps?"""
    return _inside


def isolated(work: Work) -> Work:
    """`work(place, ...)` done in a process of its own. Arguments and answer are what JSON has, and Meters."""

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
    """The process that does `work`, which a module has under its name; what more comes on its stdin is the work's.
    Its stdout is a pipe if it is none that is given."""
    from subprocess import PIPE

    from loader.child import Child

    with Child(_command(work), stdin=PIPE, stdout=PIPE if stdout is None else stdout) as child:
        assert child.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # how it ended tells more
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
    """What its work returns. Raises its LoaderError, or MdbDamaged of `origin` when a signal ended it."""
    told = _heard(child, meter)
    finish(child, origin)
    return json.loads(told or b"null")


def _heard(child: Child, meter: Meter | None) -> bytes:
    """Its last line; those before count what it has done."""
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
    """Judge how it ended. Raises its LoaderError, or MdbDamaged when a signal ended it."""
    status = child.wait()
    if status == 0:
        return
    for line in child.words:
        if line.startswith(_ERROR):
            raise _revived(line.removeprefix(_ERROR))
    if -status in _CRASHES:
        name = signal.Signals(-status).name
        reason = f"reading it ended with {name}: the file was cut, or cannot be read, or lies"
        raise MdbDamaged(path=origin, reason=reason)
    child.check()


def _revived(text: str) -> LoaderError:
    name, facts = json.loads(text)
    kind: type[LoaderError] = getattr(errors, name)
    assert issubclass(kind, LoaderError)
    return kind(**facts)


# --- in that process ------------------------------------------------------------------------------


def main() -> None:
    """Do what is asked, print the answer, or the error."""
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
    """A line for the process that asked."""
    sys.stdout.buffer.write(_line(answer))
    sys.stdout.flush()


def _taken(count: int) -> bytes:
    """So many bytes of stdin and not one more: what follows is the work's, by descriptor 0."""
    found = b""
    while len(found) < count:
        piece = os.read(0, count - len(found))
        if not piece:
            sys.exit("nobody asks anything")
        found += piece
    return found


class _RemoteMeter(Meter):
    """What is counted here is counted there."""

    def add(self, entries: int = 0, size: int = 0) -> None:
        print(f"{_MOVED}{entries}", flush=True)
