"""Runs commands of this checkout as nobody, even if nobody cannot enter it (for example, a clone in root's home).

Such a command gets its own mounts (mount_namespaces(7)): the first inaccessible directory of the checkout's path is
replaced by an accessible one that contains only that path. Can be run as a program, with the command as arguments.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ID = 65534
# Prefix of a command line.
NOBODY = (sys.executable, str(Path(__file__).resolve()))
_CLONE_NEWNS = 0x00020000  # linux/sched.h


def become() -> None:
    """Changes this process's account, irrevocably: call it in a forked process."""
    _open_the_way()
    os.setgroups([])
    os.setresgid(ID, ID, ID)
    os.setresuid(ID, ID, ID)


def _open_the_way() -> None:
    way = (*reversed(ROOT.parents), ROOT)
    closed = next((one for one in way if not one.stat().st_mode & 0o001), None)
    if closed is None:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):  # os.unshare comes with Python 3.12
        raise OSError(ctypes.get_errno(), f"no mounts of its own, and {closed} is closed")
    here = os.getcwd()
    os.chdir(ROOT)
    _mount("--make-rprivate", "/")
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(closed))
    ROOT.mkdir(parents=True, exist_ok=True)
    _mount("--no-canonicalize", "--bind", ".", str(ROOT))  # the path already leads to the new directory
    os.chdir(here if os.path.isdir(here) else "/")


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    become()
    os.execvp(sys.argv[1], sys.argv[1:])
