"""Runs processes beside a test, and finds processes by their command lines, to show that a command leaves none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any


def announced(
    program: str, *arguments: object, prefix: Sequence[str] = (), **more: Any
) -> AbstractContextManager[subprocess.Popen[str]]:
    """Runs a Python program as `started` does."""
    return started([*prefix, sys.executable, "-c", program, *map(str, arguments)], **more)


@contextmanager
def started(command: Sequence[str], **more: Any) -> Iterator[subprocess.Popen[str]]:
    """Runs a command during the body, which begins when it has printed a line, and kills it unless it has ended.

    `more`: arguments of subprocess.Popen."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline(), "it ended before it was ready"
            yield process
        finally:
            process.kill()


def mentioning(*texts: str) -> dict[int, str]:
    """Returns process ID -> command line if that contains one of `texts`. Zombies have no command line."""
    lines = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (place / "cmdline").read_bytes().split(b"\0")
            lines[int(place.name)] = b" ".join(words).decode("utf-8", "replace")
    return {pid: line for pid, line in lines.items() if pid != os.getpid() and any(text in line for text in texts)}


def wait_until_gone(*texts: str, but: int, seconds: float = 60.0) -> dict[int, str]:
    """Waits up to `seconds` until no such process is left except `but`. Returns those that remain."""
    deadline = time.monotonic() + seconds
    while True:
        left = {pid: line for pid, line in mentioning(*texts).items() if pid != but}
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def has_ended(pid: int, seconds: float = 60.0) -> bool:
    """Waits up to `seconds`. Returns whether the process is gone or a zombie."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z" or time.monotonic() > deadline:
            return state == "Z"
        time.sleep(0.01)
