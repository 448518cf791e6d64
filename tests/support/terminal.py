"""Runs a command on a terminal of 80 columns, and returns its output."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping
from contextlib import suppress

from tests.support.command import start


def on_terminal(*arguments: object, env: Mapping[str, str] | None = None, stream: str = "stderr") -> tuple[int, str]:
    """Returns the exit status and the output on `stream`, which is a terminal; the other stream is discarded."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    known = {"TERM": "xterm-256color", "NO_COLOR": "", **(env or {})}
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: theirs}
    process = start(*arguments, env=known, **streams)
    os.close(theirs)
    pieces = []
    with os.fdopen(ours, "rb", buffering=0) as screen, suppress(OSError):  # EIO: the other end is closed
        while piece := screen.read(65536):
            pieces.append(piece)
    return process.wait(timeout=300), b"".join(pieces).decode()
