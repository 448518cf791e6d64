"""Work in a process apart: a damaged file that ends liblmdb by a signal must not end ditseed, nor may one process
open an environment twice. The module called prints its answer as JSON, or its LoaderError.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loader import errors, units
from loader.child import Child
from loader.errors import LoaderError, MdbDamaged
from loader.progress import Meter

# -I, so that nothing in the working directory is imported by root; then our own path, as it is here.
_START = (
    "import json, runpy, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), None, '__main__', True)"
)
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE)
_MARK = "ditseed-error: "


def command(module: str, *arguments: object) -> list[str]:
    """The command line that runs a module's `__main__` part with this process's own import path."""
    path = json.dumps([place or os.getcwd() for place in sys.path])
    return [sys.executable, "-I", "-c", _START, path, module, *map(str, arguments)]


def ask(module: str, *arguments: object, origin: Path, meter: Meter | None = None) -> Any:
    """Run it and return what it printed. `meter` counts the bytes that it reads."""
    with Child(command(module, *arguments), stdout=subprocess.PIPE) as child:
        assert child.process.stdout is not None
        if meter is None:
            answer = child.process.stdout.read()
        else:
            with meter.cancelling(child.kill):
                watch_reading(child, meter)
                answer = child.process.stdout.read()
        finish(child, origin)
        return json.loads(answer)


def watch_reading(child: Child, meter: Meter, every: float = 0.25) -> None:
    """Count the bytes a child reads until it ends, as the kernel counts them."""
    before = 0
    while child.process.poll() is None:
        now = _bytes_read(child.process.pid, before)
        meter.add(size=now - before)
        meter.note = f"{units.size(now)} read"
        before = now
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(every)


def _bytes_read(pid: int, before: int) -> int:
    try:
        with open(f"/proc/{pid}/io") as file:
            return int(file.readline().split()[1])  # rchar
    except (OSError, IndexError, ValueError):
        return before


def finish(child: Child, origin: Path) -> None:
    """Judge how it ended. Raises its LoaderError, or MdbDamaged when a signal ended it."""
    status = child.wait()
    if status == 0:
        return
    for line in child.words:
        if line.startswith(_MARK):
            raise _revived(line.removeprefix(_MARK))
    if -status in _CRASHES:
        raise MdbDamaged(
            path=origin, reason=f"reading it ended with {signal.Signals(-status).name}"
        )
    child.check()


def _revived(text: str) -> LoaderError:
    name, facts = json.loads(text)
    kind: type[LoaderError] = getattr(errors, name)
    assert issubclass(kind, LoaderError)
    return kind(**facts)


def answering(work: Callable[..., Any]) -> None:
    """What the `__main__` part of such a module calls: prints the answer of `work(*argv)`, or the error."""
    try:
        answer = work(*sys.argv[1:])
    except LoaderError as error:
        facts = {name: str(value) for name, value in error.facts.items()}
        print(_MARK + json.dumps([type(error).__name__, facts]), file=sys.stderr)
        os._exit(error.exit_status)
    if answer is not None:
        json.dump(answer, sys.stdout)
        sys.stdout.flush()
