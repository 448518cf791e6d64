"""How a run of the command ends: every way out becomes a message, a hint and an exit status, never a traceback.

Signals unwind the stack, so that children end and settings are restored before the process ends. Leases that killed
runs have left are restored before any verb on their host; the others are reported.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click
from click import shell_completion

from loader import child, defaults, log, standard
from loader.cli import profile
from loader.cli.report import show_failure
from loader.errors import (
    EXIT_OK,
    FULL,
    FULL_ERRNOS,
    NO_SECRETS,
    Cancelled,
    Internal,
    LibldapMissing,
    LoaderError,
    NoSpace,
    NotInstalled,
    SystemFailed,
    UsageProblem,
    chain,
    is_resumable,
    keeps_run_directory,
)
from loader.log import printable, redact
from loader.storage import files, temporary

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ending:
    """How a run has ended. error: None if it succeeded."""

    status: int
    error: LoaderError | None = None


_at_end: list[Callable[[Ending], None]] = []
_PYTHON_LDAP = ("ldap", "_ldap")
_NO_VERB = re.compile(r"No such command '([^']*)'")  # click.Group.resolve_command
_HELP = {"-h", "--help", "--version"}
_SHOWING = {"history", "learn", "list", "plan", "show", "status", "templates"}  # verbs that only print
_STDOUT = "standard output"
_OF_THE_DISK = (errno.EIO, errno.EROFS, errno.ESTALE, errno.ENODEV, errno.ENXIO)
_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


def run(command: click.Command, name: str) -> int:
    """Parse the command line, do what it says; the exit status."""
    log.setup(0)
    _handle_signals(child.unwind)
    try:
        status = _run(command, name)
    except KeyboardInterrupt as stop:  # while the end of the run was reported
        status = _status_of(str(stop))
    finally:
        # A KeyboardInterrupt that nobody catches would end the interpreter by SIGINT.
        _handle_signals(lambda number, _: os._exit(128 + number))
    _log.info("ended with exit status %d", status, extra=log.SHOWN)
    return status


def leave(status: int) -> NoReturn:
    """End the process at once. The interpreter's own end would take apart what a thread may still use that waits in
    libldap for an answer which nobody wants any more; it takes longer, too."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # it was reported already, where it can be
            stream.flush()
    os._exit(status)


def at_end(function: Callable[[Ending], None]) -> None:
    """Calls it once the run has ended and the error was reported. If it fails, a run that had succeeded fails too."""
    _at_end.append(function)


def _handle_signals(handler: Callable[[int, FrameType | None], object]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP on purpose
            signal.signal(number, handler)


def _run(command: click.Command, name: str) -> int:
    _at_end.clear()
    try:
        ending = Ending(_call(command, name))
        _require_written(command, ending.status)
    except BaseException as error:
        ending = _fail(error)
    for function in _at_end:
        try:
            function(ending)
        except BaseException as error:
            _log.warning("the run itself had ended with exit status %d", ending.status)
            late = _fail(error, as_json=False)
            ending = ending if ending.error else late
    return ending.status


def _call(command: click.Command, name: str) -> int:
    """What `command.main` does, without its own endings: it calls a SIGTERM an Abort, and a broken pipe status 1."""
    temporary.sweep()
    variable = f"_{name.upper()}_COMPLETE"
    if variable in os.environ:
        return shell_completion.shell_complete(command, {}, name, variable, os.environ[variable])
    uses_leases = not _asks_for_help()
    if uses_leases and _has_leases() and _SHOW_LEASES.isdisjoint(sys.argv[1:]):
        with contextlib.suppress(LoaderError, ImportError):  # verbs that need python-ldap report that it is missing
            restore_local_leases()
    try:
        with command.make_context(name, sys.argv[1:]) as context:
            status = command.invoke(context)
        return status if isinstance(status, int) else EXIT_OK
    except click.exceptions.Exit as end:
        return end.exit_code
    finally:
        if uses_leases and _has_leases():
            _warn_of_leases()


def _require_written(command: click.Command, status: int) -> None:
    """A lost report changes neither the work nor its status. Raises NoSpace or SystemFailed if stdout was all that the
    run was for."""
    failure = standard.failure()
    if failure is None:
        return
    if status == EXIT_OK and (standard.is_for_data() or _only_prints(command)):
        if failure.errno in FULL_ERRNOS:
            raise NoSpace(path=_STDOUT, lack=FULL)
        raise SystemFailed(path=_STDOUT, reason=failure.strerror)
    _log.warning("the report could not be written: %s: %s", _STDOUT, failure.strerror)


def _only_prints(command: click.Command) -> bool:
    """Is the command line one of a verb that only prints something, or one that only asks for help?"""
    leaf = command
    for word in _options():
        if isinstance(leaf, click.Group):
            leaf = leaf.get_command(click.Context(leaf), word) or leaf
    return _asks_for_help() or leaf.name in _SHOWING


def _options() -> list[str]:
    """The words of the command line in which options may stand."""
    words = sys.argv[1:]
    return words[: words.index("--")] if "--" in words else words


def _asks_for_help() -> bool:
    return not _HELP.isdisjoint(_options()) or _options()[:1] == ["help"]


# --- leases that killed runs have left --------------------------------------------------------------

_SESSION_LOG = "sessionlog"  # until `replica release` restores it
_SHOW_LEASES = {"tune", "doctor", "release"}  # they show leases, and restore settings on request


def _has_leases() -> bool:
    """A state directory that cannot be read is somebody else's."""
    try:
        return (defaults.state_dir() / "leases.log").stat().st_size > 0
    except OSError:
        return False


def restore_local_leases() -> list[str]:
    """Restores how commits are synced at servers of this host; the result of each lease, in words. Raises ImportError
    if python-ldap cannot be loaded."""
    from loader.operations.add import lending
    from loader.operations.tune import syncing
    from loader.run import lease
    from loader.server.options import Connection

    results = []
    for left in lease.left():
        if left.kind in syncing.SETTINGS and lending.is_local(left):
            result = lending.put_back(left, Connection())
            results.append(f"{left.kind} of {left.database} at {left.target}: {result}")
    return results


def _warn_of_leases() -> None:
    """Never fails: the verb's own exit status counts."""
    from loader.run import lease

    with contextlib.suppress(LoaderError):
        for left in lease.left():
            if left.kind != _SESSION_LOG:
                _log.warning(
                    "%s of %s at %s was left by a run of %s that was killed (if that server is gone for good: "
                    "`ditseed replica release -H %s --forget`). To put it back:\n%s",
                    *(left.kind, left.database, left.target, left.taken, left.target, left.undo),
                )


# --- errors -----------------------------------------------------------------------------------------


def _fail(error: BaseException, as_json: bool | None = None) -> Ending:
    """Report what went wrong, and how the run ends with it. as_json: None, if --json was given."""
    leaves_a_run = any(map(is_resumable, chain(error)))
    stop = next((cause for cause in chain(error) if isinstance(cause, KeyboardInterrupt | click.Abort)), None)
    known: LoaderError
    if stop is not None:
        name = str(stop) or "SIGINT"
        known, status = Cancelled(signal={"SIGINT": "Ctrl-C"}.get(name, name)), _status_of(name)
    elif isinstance(error, BrokenPipeError) and _reader_has_ended():
        return _silenced()
    elif isinstance(error, click.exceptions.NoArgsIsHelpError):  # without a verb
        error.show()
        return Ending(UsageProblem.exit_status)
    elif isinstance(error, click.ClickException):
        context = error.ctx if isinstance(error, click.UsageError) else None
        verb = context.command_path.partition(" ")[2] if context else ""
        known = UsageProblem(reason=f"{verb}: {_refusal(error)}" if verb else _refusal(error))
        status = known.exit_status
    elif isinstance(error, Exception):
        _log.debug("where it happened", exc_info=error)
        known = _known(error) or _internal(error)
        status = known.exit_status
    else:
        raise error
    if leaves_a_run:
        keeps_run_directory(known)
    # click may have refused the command line, so --json is looked for in its words.
    show_failure(known, status, as_json="--json" in _options() if as_json is None else as_json)
    return Ending(status, known)


def _refusal(error: click.ClickException) -> str:
    """click's words as a message of ours. What stands behind -w may be a password, and is not repeated."""
    words = error.format_message().removesuffix(".")
    if isinstance(error, click.UsageError) and (unknown := _NO_VERB.match(words)):
        return _no_such_verb(unknown[1], error.ctx)
    if isinstance(error, click.BadParameter) and error.ctx and error.param:
        words += profile.origin(error.ctx, error.param)
    if "unexpected extra argument" in words and "-w" in sys.argv:
        return f"-w takes no value here. {NO_SECRETS}"
    return words[:1].lower() + words[1:] if words[1:2].islower() else words


def _no_such_verb(name: str, context: click.Context | None) -> str:
    import difflib  # only a mistake needs it

    group = context.command if context else None
    known = group.list_commands(context) if context and isinstance(group, click.Group) else []
    close = difflib.get_close_matches(name, known if context and context.parent else [*known, "help"], 1)
    path = context.command_path if context else "ditseed"
    what = f"did you mean `{path} {close[0]}`?" if close else f"there are {', '.join(known)}"
    return f"no such verb: {name} ({what})"


def _status_of(signal_name: str) -> int:
    """As shells have it; a KeyboardInterrupt without a name is Python's own, for SIGINT."""
    return 128 + getattr(signal, signal_name or "SIGINT", signal.SIGINT)


def _reader_has_ended() -> bool:
    """Has whoever read our output ended? (A broken pipe to a child of ours is another matter.)"""
    poll = select.poll()
    poll.register(1, select.POLLOUT)
    poll.register(2, select.POLLOUT)
    return any(event & _GONE for _, event in poll.poll(0))


def _silenced() -> Ending:
    """As `head` expects: nothing more is printed, neither here nor when the interpreter flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return Ending(128 + signal.SIGPIPE)


def _known(error: Exception) -> LoaderError | None:
    """An error with a message for operators; None for one that nobody foresaw."""
    if isinstance(error, LoaderError):
        return error
    if isinstance(error, ImportError):
        return (LibldapMissing if error.name in _PYTHON_LDAP else NotInstalled)(reason=error)
    if not isinstance(error, OSError):
        return None
    if isinstance(error, shutil.Error):  # of a whole tree: each file with its error
        path, _, reason = error.args[0][0]
        return SystemFailed(path=path, reason=reason)
    if isinstance(error.filename, str | bytes):
        path = os.fsdecode(error.filename)
        try:
            with files.explained(Path(path)):
                raise error
        except LoaderError as explained:
            return explained
        except OSError:
            return SystemFailed(path=path, reason=error.strerror)
    # The system does not say of which file: os.listdir(DESCRIPTOR) has a number.
    if error.errno in FULL_ERRNOS:
        return NoSpace(path="a file", lack=FULL)
    return SystemFailed(path="a file", reason=error.strerror) if error.errno in _OF_THE_DISK else None


def _internal(error: Exception) -> Internal:
    """The traceback goes into a file for a report: in the state directory, else among temporary files."""
    # Here, for it takes a third of the start of a verb.
    from importlib.metadata import version

    lines = [
        f"ditseed {version('ditseed')}, Python {sys.version.split()[0]}\n",
        f"{' '.join(sys.argv)}\n\n",
        *traceback.format_exception(error),
    ]
    text = printable(redact("".join(lines)))
    directory = defaults.state_dir() / "faults"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = _write(text, directory)
    except OSError:
        path = _write(text, Path(tempfile.gettempdir()))
    first = str(error).partition("\n")[0]
    return Internal(what=f"{type(error).__name__}: {first}", path=path)


def _write(text: str, directory: Path) -> str:
    """mkstemp creates it for our eyes only: it may name entries."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ-", time.gmtime())
    descriptor, path = tempfile.mkstemp(prefix=f"ditseed-{stamp}", suffix=".txt", dir=directory)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return path
