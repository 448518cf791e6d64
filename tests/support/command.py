"""ditseed as an operator runs it: a process of its own, its exit status, what it said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import preloaded

COMMAND = Path(sys.executable).with_name("ditseed")


@dataclass(frozen=True)
class Done:
    """How a run of the command ended."""

    status: int
    out: str
    err: str

    @property
    def facts(self) -> Any:
        """The report of --json."""
        return json.loads(self.out)

    def ok(self) -> Done:
        assert self.status == 0, f"exit status {self.status}:\n{self.out}\n{self.err}"
        return self


def arguments_of(*arguments: object, prefix: Sequence[str] = ()) -> list[str]:
    return [*prefix, str(COMMAND), *map(str, arguments)]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The present one, without what the operator's shell may have set for libldap."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LDAP")}
    return {**kept, **(more or {})}


def start(
    *arguments: object, env: Mapping[str, str] | None = None, prefix: Sequence[str] = (), **more: Any
) -> subprocess.Popen[Any]:
    """Begin a run: forked by a process that has imported everything, where that is the same.

    more: of subprocess.Popen, instead of pipes with text, and nothing on standard input.
    """
    its = environment(env)
    process = preloaded.Process if not prefix and preloaded.fits(its) else subprocess.Popen
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    streams = {**pipes, "text": True, **more}
    return process(arguments_of(*arguments, prefix=prefix), env=its, **streams)


def ditseed(*arguments: object, env: Mapping[str, str] | None = None, prefix: Sequence[str] = (), **more: Any) -> Done:
    """Run it to its end. A negative status is the signal that ended it."""
    process = start(*arguments, env=env, prefix=prefix, **more)
    out, err = process.communicate()
    return Done(process.returncode, out, err)


def piped(text: bytes, *arguments: object, env: Mapping[str, str] | None = None) -> Done:
    """Run it with `text` on standard input, through a pipe."""
    process = start(*arguments, env=env, stdin=subprocess.PIPE, text=False)
    out, err = process.communicate(text)
    return Done(process.returncode, out.decode(), err.decode())
