"""Runs ditseed without starting an interpreter: a process that has imported everything forks for each run.

A run then takes some 10 ms instead of 100 to 300, and there are some 2,500 runs. The forking process has one thread and
has only imported modules. Its grandchildren become children of the requesting process, which is their subreaper for
that moment (prctl(2)), and waits for them and signals them like any other child. `fits` returns False if a new
interpreter would start differently.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import inspect
import io
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from setproctitle import getproctitle, setproctitle

from loader.mdb import isolated

# Variables that an interpreter or a library reads only when it starts.
_READ_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "LDAP", "COVERAGE", "MALLOC", "RUST")
# /proc/PID/cmdline of a run can be as long as the arguments and the environment of the forking process.
_ROOM = "x" * 8192
_GIVEN = inspect.signature(subprocess.Popen._execute_child)
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def fits(environment: Mapping[str, str]) -> bool:
    """Returns whether a new interpreter in that environment would start as the forking process has."""
    return (
        sys.platform == "linux"
        and _at_start(environment) == _at_start(os.environ)
        and not any(path.exists() for path in _of_libldap(environment, os.environ))
    )


def _of_libldap(*environments: Mapping[str, str]) -> Iterator[Path]:
    """Yields files with settings that libldap reads only once (ldap.conf(5))."""
    yield Path("ldaprc")
    for home in (one.get("HOME", "/nowhere") for one in environments):
        yield from (Path(home, "ldaprc"), Path(home, ".ldaprc"))


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


class Process(subprocess.Popen[Any]):
    """A run of a command line of ditseed: like subprocess.Popen, but `_forks` returns the process that forks."""

    def _forks(self) -> _Forks:
        return _server()

    def _execute_child(self, *given: Any) -> None:
        asked = _GIVEN.bind(self, *given).arguments
        handed = [
            number if asked[name] == -1 else asked[name]
            for number, name in enumerate(("p2cread", "c2pwrite", "errwrite"))
        ]
        its = os.environ if asked["env"] is None else asked["env"]
        place = asked["cwd"] or os.getcwd()
        self.pid = self._forks().fork(asked["args"], its, place, handed)
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(asked[name] for name in pipes))


class _Forks:
    def __init__(self) -> None:
        self._turn = threading.Lock()
        self.asked, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def fork(
        self, words: Sequence[str], environment: Mapping[str, str], place: str | Path, handed: Sequence[int]
    ) -> int:
        """Returns the process ID of a new child of this process that runs these words in the directory `place`."""
        mask = os.umask(0)
        os.umask(mask)
        asked = json.dumps([list(words), dict(environment), str(place), mask]).encode()
        with self._turn, tempfile.TemporaryFile() as file, _subreaper():
            file.write(asked)  # in a file, because it may be longer than a message
            file.flush()
            socket.send_fds(self.asked, [b"?"], [file.fileno(), *handed])
            process = int(self.asked.recv(32))
        assert process, "it could not begin: standard error says why"
        return process


class _Server(_Forks):
    """A forking process that has imported everything."""

    def __init__(self) -> None:
        super().__init__()
        with self.theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(self.theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[self.theirs.fileno()],
                env={**os.environ, "ROOM_FOR_A_NAME": _ROOM},
                cwd=Path(__file__).parents[2],
            )
        atexit.register(self._end)

    def _end(self) -> None:
        self.asked.close()
        self._process.wait()


@contextlib.contextmanager
def _subreaper() -> Any:
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


_running: _Server | None = None
_starting = threading.Lock()


def _server() -> _Server:
    global _running
    with _starting:
        if _running is None:
            _running = _Server()
        return _running


# --- in the forking process --------------------------------------------------------------------


def main() -> None:
    """Imports everything, then forks on request until no process that could send a request is left."""
    asked = socket.socket(fileno=int(sys.argv[1]))
    getproctitle()  # finds the memory for the title, before the environment of a run hides it
    os.environ.pop("ROOM_FOR_A_NAME")
    _import_all()
    gc.freeze()
    with contextlib.suppress(KeyboardInterrupt):
        _serve(asked)


def _serve(asked: socket.socket) -> None:
    while message := socket.recv_fds(asked, 32, 4)[1]:
        asked.send(str(_forked(asked, message)).encode())
        for descriptor in message:
            os.close(descriptor)


def _import_all() -> None:
    """Imports all modules of ditseed, because most verbs import late; except slow ones that few runs need."""
    import loader
    import seeders
    from loader.storage import remote

    for package in (loader, seeders):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name not in remote.SCHEMES.values():
                import_module(found.name)


def _forked(asked: socket.socket, message: list[int]) -> int:
    """Returns the process ID of a grandchild, after its parent has ended."""
    there, here = os.pipe()
    middle = os.fork()
    if middle == 0:
        middle = os.getpid()
        if os.fork() == 0:
            while os.getppid() == middle:
                time.sleep(0.0002)
            asked.close()
            os.close(there)
            _run(here, *message)
        os._exit(0)
    os.close(here)
    os.waitpid(middle, 0)
    with os.fdopen(there) as told:
        return int(told.read() or 0)


def _run(here: int, asked: int, *standard: int) -> None:
    """Does what a new interpreter would do. Sends its process ID after it has set its title."""
    try:
        words = _begin(asked, standard)
        if isolated.START in words:
            _apart(here, words)
        else:
            _command_line(here, words)
        sys.stdout.flush()
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


def _command_line(here: int, words: list[str]) -> None:
    sys.argv[:] = words
    sys.path[0] = str(Path(words[0]).parent)
    _tell(here, [sys.executable, *words])
    _fork_apart_from_here()
    from loader.cli import main as command

    command()


def _apart(here: int, words: list[str]) -> None:
    """Does what `setpriv --pdeathsig KILL python -IS -c START ...` would do in a new session."""
    os.setsid()
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for number, handler in _SIGNALS.items():
        signal.signal(number, handler)
    sys.argv[:] = ["-c", *words[words.index(isolated.START) + 1 :]]
    sys.path[:] = json.loads(sys.argv[1])
    _tell(here, words[words.index("--") + 1 :])
    isolated.main()


def _tell(here: int, words: Sequence[str]) -> None:
    """Sets the title that ps shows, then sends the process ID. ps shows a word that is no text differently."""
    setproctitle(os.fsencode(" ".join(words)).decode("utf-8", "replace"))
    os.write(here, str(os.getpid()).encode())
    os.close(here)


def _begin(asked: int, standard: Sequence[int]) -> list[str]:
    """Receives everything that a new process inherits. Returns its arguments."""
    with os.fdopen(asked, "rb") as file:
        file.seek(0)
        words, environment, directory, mask = json.loads(file.read())
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
    for descriptor in set(standard) - {0, 1, 2}:
        os.close(descriptor)
    os.chdir(directory)
    os.umask(mask)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    tempfile.tempdir = None
    sys.stdin, sys.stdout = _text(0, "r", "strict"), _text(1, "w", "strict")
    sys.stderr = _text(2, "w", "backslashreplace")
    return list(words)


def _text(number: int, mode: str, errors: str) -> Any:
    """Opens a standard stream as Python's create_stdio does."""
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED")) and mode == "w"
    raw: Any = io.FileIO(number, mode, closefd=False)
    buffered = io.BufferedReader(raw) if mode == "r" else raw if unbuffered else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffered,
        encoding=sys.__stdout__.encoding,
        errors=errors,
        line_buffering=number == 2 or raw.isatty(),
        write_through=unbuffered,
    )


# --- child processes of loader.mdb.isolated ----------------------------------------------------

_apart_by: _Forks | None = None
_here = 0
_SIGNALS = {signal.SIGINT: signal.default_int_handler} | dict.fromkeys((signal.SIGTERM, signal.SIGHUP), signal.SIG_DFL)


class _Started(Process):
    """Forks the processes of loader.mdb.isolated too: in 5 ms instead of 70, and most runs start two or three."""

    def _forks(self) -> _Forks:
        return _apart_by or _server()

    def _execute_child(self, *given: Any) -> None:
        asked = _GIVEN.bind(self, *given).arguments
        forks = os.getpid() == _here and isolated.START in asked["args"]
        if forks and fits(asked["env"] or os.environ):
            super()._execute_child(*given)
        else:
            super(Process, self)._execute_child(*given)


def fork_what_is_isolated() -> None:
    """Patches subprocess.Popen in this process. In a process forked from it, children would not be its own."""
    global _here
    _here = os.getpid()
    subprocess.Popen = _Started  # type: ignore[misc]


def _fork_apart_from_here() -> None:
    """Starts another forking process while this run has one thread: children of the process that forked the run would
    not be the run's own."""
    global _apart_by
    _apart_by = _Forks()
    if os.fork() == 0:
        _apart_by.asked.close()
        for number in _SIGNALS:  # an interrupted run may still need the forking process
            signal.signal(number, signal.SIG_IGN)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        _serve(_apart_by.theirs)
        os._exit(0)
    _apart_by.theirs.close()
    fork_what_is_isolated()


if __name__ == "__main__":
    main()
