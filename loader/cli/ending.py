"""How a run of the command ends: every way out becomes a message, a hint and an exit status, never a traceback.

Signals unwind the stack, so that children end and what was loosened is tightened again before the process goes.
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
    """How a run has ended. error: None where it was not one."""

    status: int
    error: LoaderError | None = None


_at_end: list[Callable[[Ending], None]] = []
_PYTHON_LDAP = ("ldap", "_ldap")
_NO_VERB = re.compile(r"No such command '([^']*)'")  # click.Group.resolve_command
_HELP = {"-h", "--help", "--version"}
_SHOWING = {"history", "learn", "list", "plan", "show", "status", "templates"}  # verbs that only do that
_STDOUT = "standard output"
_OF_THE_DISK = (errno.EIO, errno.EROFS, errno.ESTALE, errno.ENODEV, errno.ENXIO)
_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


def run(command: click.Command, name: str) -> int:
    """Parse the command line, do what it says; the exit status."""
    log.setup(0)
    _unwind_on_signals()
    status = _ended(command, name)
    _log.info("ended with exit status %d", status, extra=log.SHOWN)
    return status


def leave(status: int) -> NoReturn:
    """End the process at once. The interpreter's own end would take apart what a thread may still use that waits in
    libldap for an answer which nobody wants any more; it takes longer, too."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # that it cannot be written has been said, where it can be
            stream.flush()
    os._exit(status)


def _ended(command: click.Command, name: str) -> int:
    try:
        return _run(command, name)
    except KeyboardInterrupt as stop:  # while it was said how the run ended
        return _status_of(str(stop))
    finally:
        _leave_on_signals()


def _run(command: click.Command, name: str) -> int:
    _at_end.clear()
    ending = _ending_of(command, name)
    for told in _at_end:
        try:
            told(ending)
        except BaseException as error:
            _log.warning("the run itself had ended with exit status %d", ending.status)
            late = _fail(error, as_json=False)
            ending = ending if ending.error else late
    return ending.status


def at_end(told: Callable[[Ending], None]) -> None:
    """Call it once the run has ended and what happened has been said. If it fails, so does a run that had not."""
    _at_end.append(told)


def _ending_of(command: click.Command, name: str) -> Ending:
    try:
        status = _status(command, name)
        _require_written(command, status)
        return Ending(status)
    except BaseException as error:
        return _fail(error)


def _require_written(command: click.Command, status: int) -> None:
    """A lost report changes neither the work nor its status. Raises NoSpace or SystemFailed if stdout was all that the
    run was for."""
    failure = standard.failure()
    if failure is None:
        return
    if status == EXIT_OK and (standard.is_for_data() or _shows(command)):
        if failure.errno in FULL_ERRNOS:
            raise NoSpace(path=_STDOUT, lack=FULL)
        raise SystemFailed(path=_STDOUT, reason=failure.strerror)
    _log.warning("the report could not be written: %s: %s", _STDOUT, failure.strerror)


def _shows(command: click.Command) -> bool:
    """Is the command line one of a verb that only prints something, or one that only asks for help?"""
    words = _options()
    leaf = command
    for word in words:
        if isinstance(leaf, click.Group):
            leaf = leaf.get_command(click.Context(leaf), word) or leaf
    return _asks_for_help() or leaf.name in _SHOWING


def _options() -> list[str]:
    """The words of the command line in which options may stand."""
    words = sys.argv[1:]
    return words[: words.index("--")] if "--" in words else words


def _asks_for_help() -> bool:
    return not _HELP.isdisjoint(_options()) or _options()[:1] == ["help"]


def _status(command: click.Command, name: str) -> int:
    try:
        return _called(command, name)
    except click.exceptions.Exit as end:
        return end.exit_code


def _called(command: click.Command, name: str) -> int:
    """Put back what earlier runs have left loosened on servers, where that can be; and say what is still left."""
    temporary.sweep()
    only_tells = f"_{name.upper()}_COMPLETE" in os.environ or _asks_for_help()
    if not only_tells and _has_leases():
        from loader.cli import leases  # it is seldom needed

        leases.give_back(sys.argv[1:])
    try:
        return _call(command, name)
    finally:
        if not only_tells and _has_leases():
            from loader.cli import leases

            leases.warn()


def _has_leases() -> bool:
    """A state directory that cannot be read is somebody else's."""
    try:
        return (defaults.state_dir() / "leases.log").stat().st_size > 0
    except OSError:
        return False


def _call(command: click.Command, name: str) -> int:
    """What `command.main` does, without its own endings: it calls a SIGTERM an Abort, and a broken pipe status 1."""
    variable = f"_{name.upper()}_COMPLETE"
    if variable in os.environ:
        return shell_completion.shell_complete(command, {}, name, variable, os.environ[variable])
    with command.make_context(name, sys.argv[1:]) as context:
        status = command.invoke(context)
    return status if isinstance(status, int) else EXIT_OK


def _unwind_on_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup sets it, and means it
            signal.signal(number, child.unwind)


def _leave_on_signals() -> None:
    """All is undone and said. Of a KeyboardInterrupt that nobody catches the interpreter would die by SIGINT."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)


def _fail(error: BaseException, as_json: bool | None = None) -> Ending:
    """Say what went wrong, and how the run ends with it. as_json: None, if --json was given."""
    stopped = next(filter(_is_stop, chain(error)), None)
    if stopped is not None:
        return _stopped(str(stopped) or "SIGINT", _leaves_a_run(error), as_json)
    if isinstance(error, BrokenPipeError) and _reader_gone():
        return _silenced()
    if isinstance(error, click.ClickException):
        return _misused(error)
    if not isinstance(error, Exception):
        raise error
    _log.debug("where it happened", exc_info=error)
    known = _known(error) or _bug(error)
    if _leaves_a_run(error):
        keeps_run_directory(known)
    return _told(known, known.exit_status, as_json)


def _misused(error: click.ClickException) -> Ending:
    """Of a command line that click refused. Without a verb the help is what was asked for."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return Ending(UsageProblem.exit_status)
    context = error.ctx if isinstance(error, click.UsageError) else None
    verb = context.command_path.partition(" ")[2] if context else ""
    told = UsageProblem(reason=f"{verb}: {_refusal(error)}" if verb else _refusal(error))
    return _told(told, told.exit_status)


def _told(error: LoaderError, status: int, as_json: bool | None = None) -> Ending:
    """The command line may be the one that click refused, so --json is looked for in its words."""
    show_failure(error, status, as_json="--json" in _options() if as_json is None else as_json)
    return Ending(status, error)


def _refusal(error: click.ClickException) -> str:
    """click's words as a message of ours. What stands behind -w may be a password, and is not repeated."""
    said = error.format_message().removesuffix(".")
    if isinstance(error, click.UsageError) and (unknown := _NO_VERB.match(said)):
        return _no_such_verb(unknown[1], error.ctx)
    if isinstance(error, click.BadParameter) and error.ctx and error.param:
        said += profile.origin(error.ctx, error.param)
    if "unexpected extra argument" in said and "-w" in sys.argv:
        return f"-w takes no value here. {NO_SECRETS}"
    return said[:1].lower() + said[1:] if said[1:2].islower() else said


def _no_such_verb(name: str, context: click.Context | None) -> str:
    import difflib  # only a mistake needs it

    group = context.command if context else None
    known = group.list_commands(context) if context and isinstance(group, click.Group) else []
    spoken = known if context and context.parent else [*known, "help"]
    close = difflib.get_close_matches(name, spoken, 1)
    called = context.command_path if context else "ditseed"
    what = f"did you mean `{called} {close[0]}`?" if close else f"there are {', '.join(known)}"
    return f"no such verb: {name} ({what})"


def _is_stop(error: BaseException) -> bool:
    return isinstance(error, KeyboardInterrupt | click.Abort)


def _leaves_a_run(error: BaseException) -> bool:
    return any(map(is_resumable, chain(error)))


def _stopped(by: str, run_stays: bool, as_json: bool | None) -> Ending:
    told = Cancelled(signal={"SIGINT": "Ctrl-C"}.get(by, by))
    if run_stays:
        keeps_run_directory(told)
    return _told(told, _status_of(by), as_json)


def _status_of(signal_name: str) -> int:
    """As shells have it; a KeyboardInterrupt without a name is Python's own, of SIGINT."""
    return 128 + getattr(signal, signal_name or "SIGINT", signal.SIGINT)


def _reader_gone() -> bool:
    """Has whoever read our output ended? (A broken pipe to a child of ours is another matter.)"""
    poll = select.poll()
    poll.register(1, select.POLLOUT)
    poll.register(2, select.POLLOUT)
    return any(event & _GONE for _, event in poll.poll(0))


def _silenced() -> Ending:
    """As `head` expects: nothing more is said, neither here nor when the interpreter flushes at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    return Ending(128 + signal.SIGPIPE)


def _known(error: Exception) -> LoaderError | None:
    """An error with a message for operators; None for one that nobody foresaw."""
    if isinstance(error, LoaderError):
        return error
    if isinstance(error, ImportError) and error.name in _PYTHON_LDAP:
        return LibldapMissing(reason=error)
    if isinstance(error, ImportError):
        return NotInstalled(reason=error)
    if not isinstance(error, OSError):
        return None
    if isinstance(error, shutil.Error):  # of a whole tree: each file with its error
        path, _, reason = error.args[0][0]
        return SystemFailed(path=path, reason=reason)
    if not isinstance(error.filename, str | bytes):  # of os.listdir(DESCRIPTOR), a number
        return _of_a_file(error)
    try:
        with files.explained(Path(os.fsdecode(error.filename))):
            raise error
    except LoaderError as explained:
        return explained
    except OSError:
        return SystemFailed(path=os.fsdecode(error.filename), reason=error.strerror)


def _of_a_file(error: OSError) -> LoaderError | None:
    """The system does not say of which one."""
    if error.errno in FULL_ERRNOS:
        return NoSpace(path="a file", lack=FULL)
    if error.errno in _OF_THE_DISK:
        return SystemFailed(path="a file", reason=error.strerror)
    return None


def _bug(error: Exception) -> Internal:
    """The traceback goes into a file for the report."""
    first = str(error).partition("\n")[0]
    return Internal(what=f"{type(error).__name__}: {first}", path=_keep(error))


def _keep(error: Exception) -> str:
    place = defaults.state_dir() / "faults"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _write(error, place)
    except OSError:
        return _write(error, Path(tempfile.gettempdir()))


def _write(error: Exception, place: Path) -> str:
    """mkstemp makes it for our eyes only: it may name entries."""
    # Here, for it takes a third of the start of a verb.
    from importlib.metadata import version

    stamp = time.strftime("%Y%m%dT%H%M%SZ-", time.gmtime())
    descriptor, path = tempfile.mkstemp(prefix=f"ditseed-{stamp}", suffix=".txt", dir=place)
    told = [
        f"ditseed {version('ditseed')}, Python {sys.version.split()[0]}\n",
        f"{' '.join(sys.argv)}\n\n",
        *traceback.format_exception(error),
    ]
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(printable(redact("".join(told))))
    return path
