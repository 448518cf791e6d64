"""To run as nobody what lies in this checkout, although nobody may be unable to enter it: a clone in root's home, say.

Then what runs as nobody has mounts of its own (mount_namespaces(7)). There, the first directory on the way that is
closed holds nothing but the way to the checkout, and is open. Also a program of its own, with a command as arguments.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ID = 65534
# In front of a command line.
NOBODY = (sys.executable, str(Path(__file__).resolve()))
_CLONE_NEWNS = 0x00020000  # linux/sched.h


def become() -> None:
    """For good, so in a process that was forked."""
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
    _mount("--no-canonicalize", "--bind", ".", str(ROOT))  # the name leads to the new one already
    os.chdir(here if os.path.isdir(here) else "/")


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    become()
    os.execvp(sys.argv[1], sys.argv[1:])
