"""Which processes are about something: for showing that none is left behind."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path


def mentioning(*texts: str) -> dict[int, str]:
    """Process ID -> command line, of those whose command line names one of `texts`; zombies have none."""
    return {
        pid: line
        for pid, line in _command_lines()
        if pid != os.getpid() and any(text in line for text in texts)
    }


def wait_until_gone(*texts: str, but: int, seconds: float = 5.0) -> dict[int, str]:
    """Those that are still there after that long, process `but` left aside."""
    deadline = time.monotonic() + seconds
    while True:
        left = {pid: line for pid, line in mentioning(*texts).items() if pid != but}
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def _command_lines() -> Iterator[tuple[int, str]]:
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        yield int(place.name), b" ".join(words).decode("utf-8", "replace")
