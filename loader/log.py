"""Logging: to stderr for people, and into a file with times; nothing secret in either."""

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
    # LDIF, folded lines included; also a dictionary that was printed. To the end of the line: values may have spaces.
    re.compile(rf"((?:{_NAMES})(?:;[\w-]+)*['\"]?\s*::?\s*)\S[^\n]*(?:\n [^\n]*)*", re.IGNORECASE),
    re.compile(rf"((?:credentials|bindpw)\s*=\s*){_VALUE}", re.IGNORECASE),  # a syncrepl directive
    re.compile(rf"((?<![\w/.-])rootpw\s+){_VALUE}", re.IGNORECASE),  # slapd.conf; no file of that name
]


class SecretFormatter(logging.Formatter):
    """Blanks the values of password attributes and of slapd's password settings, in tracebacks too, and writes out what
    a terminal would obey. What a message says of the outside stands in its arguments: no line break of theirs is kept.
    """

    def format(self, record: logging.LogRecord) -> str:
        told = copy.copy(record)
        if isinstance(record.args, tuple):
            told.args = tuple(map(_argument, record.args))
        return printable(redact(super().format(told)))


def _argument(value: object) -> object:
    return value if isinstance(value, int | float) else plain.sentence(redact(plain.with_operator_paths(str(value))))


RED, YELLOW, BOLD = "1;31", "1;33", "1"  # ECMA-48, SGR
_COLOURS = {"ERROR": RED, "CRITICAL": RED, "WARNING": YELLOW}


def coloured(word: str, colour: str) -> str:
    """A word of ours for stderr, in a colour where that is a terminal (https://no-color.org)."""
    plain_only = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain_only or not sys.stderr.isatty():
        return word
    return f"\x1b[{colour}m{word}\x1b[0m"


class _Coloured(SecretFormatter):
    """The level alone: everything else has gone through the formatter already."""

    def format(self, record: logging.LogRecord) -> str:
        level, mark, rest = super().format(record).partition(":")
        colour = _COLOURS.get(level)
        return (coloured(level, colour) if colour else level) + mark + rest


def printable(text: str) -> str:
    """Several lines, each as a terminal may see it."""
    return "\n".join(map(plain.printable, text.split("\n")))


def redact(text: str) -> str:
    """`text` with password values blanked."""
    for secret in _SECRETS:
        text = secret.sub(r"\1***", text)
    return text


# `extra` of a record that stderr has got already, in another form.
SHOWN = {"shown": True}
_FILE_FORMAT = "%(asctime)s [%(process)d] %(levelname)s: %(message)s"
_level = 0


class _Stderr(logging.StreamHandler[Any]):
    """To what sys.stderr is when the record comes: a progress display puts itself in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


class _File(logging.StreamHandler[Any]):
    """A log file that cannot be written any more, as on a full disk, ends neither the run nor its messages."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        logging.getLogger().removeHandler(self)
        logging.getLogger(__name__).warning("the log file is incomplete: %s", sys.exc_info()[1])


def _is_new(record: logging.LogRecord) -> bool:
    return not getattr(record, "shown", False)


def setup(verbosity: int) -> None:
    """-1: errors, and no progress; 0: warnings as well, 1: what is done, 2: everything."""
    global _level
    _level = verbosity
    handler = _Stderr()
    handler.addFilter(_is_new)
    handler.setLevel(_threshold())
    handler.setFormatter(_Coloured("%(levelname)s: %(message)s"))
    files = [one for one in logging.getLogger().handlers if isinstance(one, _File)]
    root = logging.getLogger()
    root.handlers[:] = [handler, *files]
    _adjust(root, files)
    threading.excepthook = _of_a_thread


def verbosity() -> int:
    return _level


def has_file() -> bool:
    return any(isinstance(one, _File) for one in logging.getLogger().handlers)


def into(file: Any) -> None:
    """Append what -v tells, and more with -vv, to an open text file."""
    handler = _File(file)
    formatter = SecretFormatter(_FILE_FORMAT, "%Y-%m-%dT%H:%M:%SZ")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.addHandler(handler)
    _adjust(root, [handler])


def _adjust(root: logging.Logger, files: list[_File]) -> None:
    """A file has at least what -v tells."""
    for one in files:
        one.setLevel(min(logging.INFO, _threshold()))
    root.setLevel(min([_threshold(), *(one.level for one in files)]))


def _threshold() -> int:
    return {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}.get(_level, logging.DEBUG)


def _of_a_thread(ended: threading.ExceptHookArgs) -> None:
    """Python would print the traceback as it is."""
    if ended.exc_value is not None:
        told = (ended.exc_type, ended.exc_value, ended.exc_traceback)
        logging.getLogger(__name__).error("a thread ended with an error", exc_info=told)
