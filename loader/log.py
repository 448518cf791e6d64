"""Logs messages without secrets: to stderr and, with timestamps, to a file."""

from __future__ import annotations

import copy
import logging
import os
import re
import sys
import threading
import time
from typing import Any

from loader import plain

_NAMES = "userPassword|authPassword|olcRootPW|rootpw|credentials|bindpw|sambaNTPassword|sambaLMPassword"
_VALUE = r'(?:"[^"]*"|\S+)'
_SECRETS = [
    # LDIF or a printed dictionary. Includes the whole line and its continuations, because a value may have spaces.
    re.compile(rf"((?:{_NAMES})(?:;[\w-]+)*['\"]?\s*::?\s*)\S[^\n]*(?:\n [^\n]*)*", re.IGNORECASE),
    re.compile(rf"((?:credentials|bindpw)\s*=\s*){_VALUE}", re.IGNORECASE),  # a syncrepl directive
    re.compile(rf"((?<![\w/.-])rootpw\s+){_VALUE}", re.IGNORECASE),  # slapd.conf; does not match file names
]


class SecretFormatter(logging.Formatter):
    """Blanks the values of password attributes and of slapd's password settings, even in tracebacks. Escapes control
    characters, but line breaks only in the arguments of a record, because only the arguments contain foreign text."""

    def format(self, record: logging.LogRecord) -> str:
        safe = copy.copy(record)
        if isinstance(record.args, tuple):
            safe.args = tuple(
                value
                if isinstance(value, int | float)
                else plain.sentence(redact(plain.with_operator_paths(str(value))))
                for value in record.args
            )
        return printable(redact(super().format(safe)))


RED, YELLOW, BOLD = "1;31", "1;33", "1"  # ECMA-48, SGR
_COLOURS = {"ERROR": RED, "CRITICAL": RED, "WARNING": YELLOW}


def coloured(word: str, colour: str) -> str:
    """Returns a word, coloured if stderr is a terminal and colours are not disabled (https://no-color.org)."""
    plain_only = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain_only or not sys.stderr.isatty():
        return word
    return f"\x1b[{colour}m{word}\x1b[0m"


class _Coloured(SecretFormatter):
    """Colours the level only, after the base class has formatted the record."""

    def format(self, record: logging.LogRecord) -> str:
        level, colon, text = super().format(record).partition(":")
        colour = _COLOURS.get(level)
        return (coloured(level, colour) if colour else level) + colon + text


def printable(text: str) -> str:
    """Returns a text of several lines with the control characters in each line escaped."""
    return "\n".join(map(plain.printable, text.split("\n")))


def redact(text: str) -> str:
    """Returns `text` with the values of passwords blanked."""
    for secret in _SECRETS:
        text = secret.sub(r"\1***", text)
    return text


# `extra` of a record for the log file only, because stderr shows the text in another form.
SHOWN = {"shown": True}
_FILE_FORMAT = "%(asctime)s [%(process)d] %(levelname)s: %(message)s"
_level = 0


class _Stderr(logging.StreamHandler[Any]):
    """Writes to the current sys.stderr, which a progress display may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


class _File(logging.StreamHandler[Any]):
    """Writes to a log file. If that fails, for example on a full disk, the run continues without the log file."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        logging.getLogger().removeHandler(self)
        logging.getLogger(__name__).warning("the log file is incomplete: %s", sys.exc_info()[1])


def setup(verbosity: int) -> None:
    """Logs to stderr. `verbosity`: -1: only errors, no progress; 0: warnings, too; 1: actions, too; 2: everything."""
    global _level
    _level = verbosity
    handler = _Stderr()
    handler.addFilter(lambda record: not getattr(record, "shown", False))
    handler.setFormatter(_Coloured("%(levelname)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler, *(other for other in root.handlers if isinstance(other, _File))]
    _adjust(root)
    threading.excepthook = _log_thread_error


def verbosity() -> int:
    return _level


def has_file() -> bool:
    return any(isinstance(handler, _File) for handler in logging.getLogger().handlers)


def add_file(file: Any) -> None:
    """Appends the messages of -v (with -vv, those of -vv) to an open text file."""
    handler = _File(file)
    formatter = SecretFormatter(_FILE_FORMAT, "%Y-%m-%dT%H:%M:%SZ")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.addHandler(handler)
    _adjust(root)


def _adjust(root: logging.Logger) -> None:
    """Sets the levels of the handlers; a log file gets at least the messages of -v."""
    least = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}.get(_level, logging.DEBUG)
    for handler in root.handlers:
        handler.setLevel(min(logging.INFO, least) if isinstance(handler, _File) else least)
    root.setLevel(min(handler.level for handler in root.handlers))


def _log_thread_error(failure: threading.ExceptHookArgs) -> None:
    """Logs an exception that ended a thread, because Python's own hook would print a traceback with secrets."""
    if failure.exc_value is not None:
        error = (failure.exc_type, failure.exc_value, failure.exc_traceback)
        logging.getLogger(__name__).error("a thread ended with an error", exc_info=error)
