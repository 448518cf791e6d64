"""Runs a verb. Every error and signal becomes a message, a hint and an exit status; no traceback is printed.

A signal unwinds the stack, which ends child processes and restores settings. A killed run can leave settings of servers
changed. The next ditseed command restores the settings of servers on this host, and warns of those of other servers.
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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import click
from click import shell_completion
from msgspec import Struct

from loader import child, defaults, errors, log, standard
from loader.cli import options
from loader.cli.report import show_failure, tell
from loader.log import printable, redact
from loader.storage import files

_log = logging.getLogger(__name__)


class Ending(Struct, frozen=True):
    """The result of a run. `error`: None if it succeeded."""

    status: int
    error: errors.LoaderError | None = None


# Functions that are called after the run and its error report. A failure of one is a failure of the run.
at_end: list[Callable[[Ending], None]] = []
_PYTHON_LDAP = ("ldap", "_ldap")
_NO_VERB = re.compile(r"No such command '([^']*)'")  # click.Group.resolve_command
_HELP = {"-h", "--help", "--version"}
# Verbs whose only result is their output.
_SHOWING = {"completion", "explain", "follow", "learn", "list", "plan", "show", "status", "templates"}
_STDOUT = "standard output"
_DISK_ERRORS = (errno.EIO, errno.EROFS, errno.ESTALE, errno.ENODEV, errno.ENXIO)
_READER_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


def run(command: click.Command, name: str) -> int:
    """Parses and executes the command line; returns the exit status."""
    log.setup(0)
    _handle_signals(child.unwind)
    try:
        status = _run(command, name)
    except KeyboardInterrupt as stop:  # a signal arrived during the error report
        status = 128 + getattr(signal, str(stop), signal.SIGINT)
    finally:
        # From now on, nothing catches a KeyboardInterrupt: it would end the interpreter by SIGINT.
        _handle_signals(lambda number, _: os._exit(128 + number))
    _log.info("ended with exit status %d", status, extra=log.SHOWN)
    return status


def leave(status: int) -> NoReturn:
    """Ends the process at once. A normal exit of the interpreter is slower, and would free objects that a thread may
    still use while it waits in libldap for an answer."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # `_require_written` has already reported the failure
            stream.flush()
    os._exit(status)


def _handle_signals(handler: Callable[[int, FrameType | None], object]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP on purpose
            signal.signal(number, handler)


def _run(command: click.Command, name: str) -> int:
    at_end.clear()
    try:
        ending = Ending(_call(command, name))
        _require_written(command, ending.status)
    except BaseException as error:
        ending = _fail(error)
    for function in at_end:
        try:
            function(ending)
        except BaseException as error:
            _log.warning("the run itself had ended with exit status %d", ending.status)
            late = _fail(error, as_json=False)
            ending = ending if ending.error else late
    return ending.status


def _call(command: click.Command, name: str) -> int:
    """Runs the verb; returns its exit status. click's own `command.main` would hide signals and broken pipes."""
    files.sweep_temporary()
    variable = f"_{name.upper()}_COMPLETE"
    if variable in os.environ:
        return shell_completion.shell_complete(command, {}, name, variable, os.environ[variable])
    uses_leases = not _asks_for_help()
    if uses_leases and _has_leases() and _SHOW_LEASES.isdisjoint(sys.argv[1:]):
        # Verbs that need python-ldap report a missing python-ldap.
        with contextlib.suppress(errors.LoaderError, ImportError):
            restore_local_leases()
    try:
        with command.make_context(name, sys.argv[1:]) as context:
            status = command.invoke(context)
        return status if isinstance(status, int) else errors.EXIT_OK
    except click.exceptions.Exit as end:
        return end.exit_code
    finally:
        if uses_leases and _has_leases():
            _warn_of_leases()


def _require_written(command: click.Command, status: int) -> None:
    """If the output could not be written to stdout: raises NoSpace or SystemFailed if the output is the purpose of the
    run; otherwise, logs a warning."""
    failure = standard.failure()
    if failure is None:
        return
    leaf = command
    for word in _options():
        if isinstance(leaf, click.Group):
            leaf = leaf.get_command(click.Context(leaf), word) or leaf
    if status == errors.EXIT_OK and (standard.is_for_data() or _asks_for_help() or leaf.name in _SHOWING):
        if failure.errno in errors.FULL_ERRNOS:
            raise errors.NoSpace(path=_STDOUT, lack=errors.FULL)
        raise errors.SystemFailed(path=_STDOUT, reason=failure.strerror)
    _log.warning("the report could not be written: %s: %s", _STDOUT, failure.strerror)


def _options() -> list[str]:
    """Returns the words of the command line before "--"; the words after "--" are arguments."""
    return list(takewhile(lambda word: word != "--", sys.argv[1:]))


def _asks_for_help() -> bool:
    return not _HELP.isdisjoint(_options()) or _options()[:1] == ["help"]


# --- leases: records of the settings that a run changed at a server ----------------------------------

_SESSION_LOG = "sessionlog"  # a lease of this kind lasts until `replica release`
_SHOW_LEASES = {"tune", "doctor", "release"}  # verbs that restore settings only on request


def _has_leases() -> bool:
    """Returns whether leases are recorded; False if this account may not read the state directory."""
    try:
        return (defaults.state_dir() / "leases.log").stat().st_size > 0
    except OSError:
        return False


def restore_local_leases() -> list[str]:
    """Restores the sync settings (nosync, envflags, checkpoint) of killed runs and expired leases at servers of this
    host. Returns a message for each lease. Raises ImportError if python-ldap cannot be loaded."""
    from loader.operations.add import lending
    from loader.operations.tune import syncing
    from loader.run import lease
    from loader.server.options import Connection

    results = []
    for lent in lease.abandoned():
        if lent.kind in syncing.SETTINGS and lending.is_local(lent):
            result = lending.put_back(lent, Connection())
            results.append(f"{lent.kind} of {lent.database} at {lent.target}: {result}")
    return results


def _warn_of_leases() -> None:
    """Warns of settings that killed runs left changed. Ignores errors, so that the exit status is that of the verb."""
    from loader.run import lease

    with contextlib.suppress(errors.LoaderError):
        for lent in lease.abandoned():
            if lent.kind != _SESSION_LOG:
                _log.warning(
                    "%s of %s at %s was left changed by a run of %s that was killed (if that server is gone for good: "
                    "`ditseed replica release -H %s --forget`). To restore it:\n%s",
                    *(lent.kind, lent.database, lent.target, lent.taken, lent.target, lent.undo),
                )


# --- errors -----------------------------------------------------------------------------------------


def _fail(error: BaseException, as_json: bool | None = None) -> Ending:
    """Reports an error; returns the run's ending. `as_json`: None if --json on the command line decides."""
    leaves_a_run = any(map(errors.is_resumable, errors.chain(error)))
    stop = next((cause for cause in errors.chain(error) if isinstance(cause, KeyboardInterrupt | click.Abort)), None)
    reported: errors.LoaderError
    if stop is not None:
        name = str(stop) or "SIGINT"  # a KeyboardInterrupt of Python itself has no text
        reported = errors.Cancelled(signal="Ctrl-C" if name == "SIGINT" else name)
        status = 128 + getattr(signal, name, signal.SIGINT)
    elif isinstance(error, BrokenPipeError) and _reader_has_ended():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # later flushes must not fail (`| head`)
        return Ending(128 + signal.SIGPIPE)
    elif isinstance(error, click.exceptions.NoArgsIsHelpError):  # no verb was given
        error.show()
        return Ending(errors.UsageProblem.exit_status)
    elif isinstance(error, click.ClickException):
        context = error.ctx if isinstance(error, click.UsageError) else None
        verb = context.command_path.partition(" ")[2] if context else ""
        reported = errors.UsageProblem(reason=f"{verb}: {_refusal(error)}" if verb else _refusal(error))
        status = reported.exit_status
    elif isinstance(error, Exception):
        _log.debug("where it happened", exc_info=error)
        reported = _explained(error) or _internal(error)
        status = reported.exit_status
    else:
        raise error
    if leaves_a_run:
        errors.mark_resumable(reported)
    # Searches the words for --json, because click may have rejected the command line.
    show_failure(reported, status, as_json="--json" in _options() if as_json is None else as_json)
    return Ending(status, reported)


def _refusal(error: click.ClickException) -> str:
    """Returns click's message in ditseed's style, without a word after -w, which may be a password."""
    words = error.format_message().removesuffix(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context and isinstance(context.command, click.Group) and (unknown := _NO_VERB.match(words)):
        import difflib  # imported here because only errors need it

        verbs = context.command.list_commands(context)
        close = difflib.get_close_matches(unknown[1], [*verbs, *([] if context.parent else ["help"])], 1)
        advice = f"did you mean `{context.command_path} {close[0]}`?" if close else f"there are {', '.join(verbs)}"
        return f"no such verb: {unknown[1]} ({advice})"
    if context and isinstance(error, click.BadParameter) and error.param:
        words += options.origin(context, error.param)
    if "unexpected extra argument" in words and "-w" in sys.argv:
        return f"-w takes no value here. {errors.NO_SECRETS}"
    return words[:1].lower() + words[1:] if words[1:2].islower() else words


def _reader_has_ended() -> bool:
    """Returns whether the reader of stdout or stderr has ended; otherwise, a child process broke the pipe."""
    poll = select.poll()
    poll.register(1, select.POLLOUT)
    poll.register(2, select.POLLOUT)
    return any(event & _READER_GONE for _, event in poll.poll(0))


def _explained(error: Exception) -> errors.LoaderError | None:
    """Returns the error as a LoaderError; None if the error is a bug."""
    if isinstance(error, errors.LoaderError):
        return error
    if isinstance(error, ImportError):
        return (errors.LibldapMissing if error.name in _PYTHON_LDAP else errors.NotInstalled)(reason=error)
    if not isinstance(error, OSError):
        return None
    if isinstance(error, shutil.Error):  # the first argument of shutil.Error is a list of (source, target, reason)
        path, _, reason = error.args[0][0]
        return errors.SystemFailed(path=path, reason=reason)
    if isinstance(error.filename, str | bytes):
        path = os.fsdecode(error.filename)
        try:
            with files.explained(Path(path)):
                raise error
        except errors.LoaderError as explained:
            return explained
        except OSError:
            return errors.SystemFailed(path=path, reason=error.strerror)
    # The error has no path. For example, `filename` is a number after os.listdir(DESCRIPTOR).
    if error.errno in errors.FULL_ERRNOS:
        return errors.NoSpace(path="a file", lack=errors.FULL)
    return errors.SystemFailed(path="a file", reason=error.strerror) if error.errno in _DISK_ERRORS else None


def _internal(error: Exception) -> errors.Internal:
    """Writes the traceback to a file for a bug report: in the state directory, or else in the temporary directory."""
    # Imported here, because the import takes a third of a verb's start time.
    from importlib.metadata import version

    versions = f"ditseed {version('ditseed')}, Python {sys.version.split()[0]}\n"
    text = printable(redact(f"{versions}{' '.join(sys.argv)}\n\n{''.join(traceback.format_exception(error))}"))
    directory = defaults.state_dir() / "faults"
    prefix = f"ditseed-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, path = tempfile.mkstemp(".txt", prefix, directory)  # mode 0600, because the text may name entries
    except OSError:
        descriptor, path = tempfile.mkstemp(".txt", prefix)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    first = str(error).partition("\n")[0]
    return errors.Internal(what=f"{type(error).__name__}: {first}", path=path)


# --- hooks: commands of the operator that run at the end -------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Hooks:
    on_success: Annotated[
        str | None,
        "--on-success COMMAND",
        "Run COMMAND with /bin/sh after a run with exit status 0. Its environment has DITSEED_VERB, DITSEED_REPO, "
        "DITSEED_BACKUP (IDs), DITSEED_STATUS and DITSEED_ERROR.",
    ] = None
    on_failure: Annotated[str | None, "--on-failure COMMAND", "The same after a run with another exit status."] = None


class Outcomes:
    """Runs a verb's hook once per repository, with the result that `add` recorded for it, or else the verb's result."""

    def __init__(self, verb: str, hooks: Hooks, repos: Sequence[object]) -> None:
        self._verb, self._hooks = verb, hooks
        self._endings: dict[str, tuple[str, Ending | None]] = {str(repo): ("", None) for repo in repos}
        at_end.append(self._run)

    def add(self, repo: object, ids: Iterable[str], end: Ending | None = None) -> None:
        self._endings[str(repo)] = (" ".join(ids), end)

    def _run(self, verb_end: Ending) -> None:
        for repo, (ids, own_end) in self._endings.items():
            end = own_end or verb_end
            command = self._hooks.on_success if end.status == errors.EXIT_OK else self._hooks.on_failure
            if command is None:
                continue
            facts = {"VERB": self._verb, "REPO": repo, "BACKUP": ids, "STATUS": str(end.status)}
            facts["ERROR"] = log.redact(f"{end.error.code}: {end.error}") if end.error else ""
            variables = {f"DITSEED_{name}": value for name, value in facts.items()}
            output = child.run_detached(["/bin/sh", "-c", command], variables)
            tell(*output.stderr_lines)
            if output.status:
                _log.warning("%s ended with exit status %d", command, output.status)
