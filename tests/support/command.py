"""Runs ditseed as an operator does, in a process, and returns its exit status and output."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loader.errors import LoaderError
from tests.support import preloaded

COMMAND = Path(sys.executable).with_name("ditseed")


@dataclass(frozen=True)
class Done:
    """The result of a run."""

    status: int
    out: str
    err: str

    @property
    def facts(self) -> Any:
        return json.loads(self.out)

    def ok(self) -> Done:
        assert self.status == 0, f"exit status {self.status}:\n{self.out}\n{self.err}"
        return self

    def refused(self, error: type[LoaderError], *words: str) -> str:
        """Asserts that the run ended with this error, whose message or hint has these words. Returns the hint."""
        said = f"exit status {self.status}:\n{self.out}\n{self.err}"
        assert self.status == error.exit_status, said
        assert f"[{error.code}]" in self.err, said
        assert "Traceback" not in self.err, said
        assert all(word in self.err for word in words), said
        return self.err.partition("hint: ")[2]


def arguments_of(*arguments: object, prefix: Sequence[str] = ()) -> list[str]:
    return [*prefix, str(COMMAND), *map(str, arguments)]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the environment of this process, without the variables of libldap that a shell may have set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LDAP")}
    return {**kept, **(more or {})}


def start(
    *arguments: object, env: Mapping[str, str] | None = None, prefix: Sequence[str] = (), **more: Any
) -> subprocess.Popen[Any]:
    """Starts a run. If the result is the same, it is forked by a process that has imported everything (`preloaded`).

    `more`: arguments of subprocess.Popen; by default, pipes with text, and no standard input.
    """
    its = environment(env)
    process = preloaded.Process if not prefix and preloaded.fits(its) else subprocess.Popen
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    streams = {**pipes, "text": True, **more}
    return process(arguments_of(*arguments, prefix=prefix), env=its, **streams)


def ditseed(*arguments: object, env: Mapping[str, str] | None = None, prefix: Sequence[str] = (), **more: Any) -> Done:
    """Runs ditseed to its end. A negative status is the signal that ended it."""
    process = start(*arguments, env=env, prefix=prefix, **more)
    out, err = process.communicate()
    return Done(process.returncode, out, err)


def piped(text: bytes, *arguments: object, env: Mapping[str, str] | None = None) -> Done:
    """Runs ditseed with `text` on standard input, a pipe."""
    process = start(*arguments, env=env, stdin=subprocess.PIPE, text=False)
    out, err = process.communicate(text)
    return Done(process.returncode, out.decode(), err.decode())


def by_shell(redirected: str, *arguments: object) -> Done:
    """Runs ditseed with these redirections, or more arguments, as a shell understands them."""
    line = f"exec {shlex.join(arguments_of(*arguments))} {redirected}"
    done = subprocess.run(["sh", "-c", line], env=environment(), capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr)
