"""Scripts for the storage VM that run ditseed in one interpreter, because starting one takes seconds there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fixtures import storage_vm
from tests.support.require import require

_PROGRAM = """exec {python} - <<'END'
import os, shlex, sys
import loader.cli, loader.cli.storage_cmd
from loader.operations.storage import bench, check, migrate, plan, watch

def ditseed(words, out):
    child = os.fork()
    if not child:
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(descriptor, 1), os.dup2(descriptor, 2)
        sys.argv = ["ditseed", "storage", *shlex.split(words)]
        loader.cli.main()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def sh(script):
    with open("script.sh", "w") as file:
        file.write(script)
    assert os.system("sh -e ./script.sh >&2") == 0, script

{body}
END
"""


def program(body: str) -> str:
    """Returns a script that runs `body`, Python with two functions: ditseed(WORDS, FILE) runs `ditseed storage WORDS`
    with output to FILE, and returns its status; sh(SCRIPT) runs commands, which must succeed, with output to stderr."""
    return _PROGRAM.format(python=sys.executable, body=body)


def run(script: str, disks: Sequence[Path], *tools: str, **more: Any) -> str:
    """Runs a script, which must succeed, in the storage VM, and returns its output. `tools`: programs required on this
    host. `more`: arguments of `storage_vm.run`."""
    require(storage_vm.missing_storage_vm(*tools))
    ended = storage_vm.run(script, disks, **more)
    assert ended.status == 0, f"{ended.out[-2000:]}\n{ended.err[-3000:]}"
    return ended.out
