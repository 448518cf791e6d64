"""Mounts that no other process sees, and that end with this process however it ends: also the loop devices below them.

They are made in a mount namespace (mount_namespaces(7)). This process enters it for good, and the tools that it runs
afterwards inherit it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loader import child
from loader.errors import NotPermitted, SystemFailed

_CLONE_NEWNS = 0x00020000  # linux/sched.h


def enter() -> None:
    """To be called by the main thread, before it starts others that look at the mounts. Raises NotPermitted,
    SystemFailed."""
    if os.geteuid() != 0:
        raise NotPermitted(action="mount file systems on", path="/", owner="root")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):  # os.unshare comes with Python 3.12
        reason = f"no mount namespace can be made: {os.strerror(ctypes.get_errno())}"
        raise SystemFailed(path="/", reason=reason)
    child.output(["mount", "--make-rprivate", "/"])


@contextmanager
def mounted(target: Path, *words: str) -> Iterator[None]:
    """`words`: of mount(8) before the target. Raises ToolFailed."""
    try:
        child.output(["mount", *words, str(target)])
        yield
    finally:  # also where a signal came while mount(8) ran; lazily, for a tool that was killed may not be gone yet
        child.ask(["umount", "--lazy", str(target)])
