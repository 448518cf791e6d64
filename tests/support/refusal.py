"""Checks that a command was refused: with a listed error and a hint, and without changing anything."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from fixtures.trees import record
from loader.errors import LoaderError
from tests.support import nobody
from tests.support.command import Done, ditseed
from tests.support.seeding import Pair

State = dict[str, tuple[int, ...]]


def _state(both: Pair) -> State:
    """Returns name, size, owner and time of each file in the consumer's configuration and database directory."""
    found: State = {}
    for top in (both.consumer.config_path, both.consumer.database_dir):
        for path in (top, *top.rglob("*")):
            if ".ditseed-" in str(path) or path.name in ("data", "lock.mdb"):
                continue  # the run directory, the database directory, which contains it, and the lock file
            status = path.lstat()
            found[str(path)] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode, status.st_uid)
    return found


def refused(both: Pair, error: type[LoaderError], *command: object, prefix: tuple[str, ...] = ()) -> Done:
    """Runs the command, which must be refused with `error`."""
    before = _state(both)
    done = ditseed(*command, prefix=prefix)
    assert re.match(".{10}", done.refused(error)), f"{command}\n{done}"
    assert done.out == "", f"{command}\n{done}"
    assert _state(both) == before, f"{command}\n{done}"
    return done


def error_as_nobody(work: Callable[[], object]) -> str:
    """Returns the code, the message and the hint of the error with which `work` ends when nobody does it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            nobody.become()
            work()
        except LoaderError as error:
            os.write(writer, f"{error.code}: {error}; {error.advice()}".encode())
        except BaseException as error:
            os.write(writer, repr(error).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as told:
        return told.read()


def where(both: Pair) -> tuple[object, ...]:
    return both.where


def text(dn: str, **attributes: str) -> str:
    return record(dn, list(attributes.items()))


def pasted(said: str) -> str:
    """Returns the commands below a hint, as an operator copies them from the screen."""
    hint, _, commands = said.partition("\nhint: ")[2].partition("\n")
    assert commands, hint
    return commands
