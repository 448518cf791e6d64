"""Logging: stderr for people, nothing secret in it."""

from __future__ import annotations

import copy
import logging
import re
import sys
import threading

from loader import plain

_NAMES = (
    "userPassword|authPassword|olcRootPW|rootpw|credentials|bindpw|sambaNTPassword|sambaLMPassword"
)
_VALUE = r'(?:"[^"]*"|\S+)'
_SECRETS = [
    # LDIF, folded lines included; also a dictionary that was printed. To the end of the line: values may have spaces.
    re.compile(rf"((?:{_NAMES})(?:;[\w-]+)*['\"]?\s*::?\s*)\S[^\n]*(?:\n [^\n]*)*", re.IGNORECASE),
    re.compile(rf"((?:credentials|bindpw)\s*=\s*){_VALUE}", re.IGNORECASE),  # a syncrepl directive
    re.compile(rf"(\brootpw\s+){_VALUE}", re.IGNORECASE),  # slapd.conf
]


class SecretFormatter(logging.Formatter):
    """Blanks the values of password attributes and of slapd's password settings, in tracebacks too, and writes out what
    a terminal would obey. What a message says of the outside stands in its arguments: no line break of theirs is kept.
    """

    def format(self, record: logging.LogRecord) -> str:
        told = copy.copy(record)
        if isinstance(record.args, tuple):
            told.args = tuple(map(_argument, record.args))
        return printable(blank(super().format(told)))


def _argument(value: object) -> object:
    return value if isinstance(value, int | float) else plain.sentence(blank(str(value)))


def printable(text: str) -> str:
    """Several lines, each as a terminal may see it."""
    return "\n".join(map(plain.printable, text.split("\n")))


def blank(text: str) -> str:
    """`text` with password values blanked."""
    for secret in _SECRETS:
        text = secret.sub(r"\1***", text)
    return text


def setup(verbosity: int) -> None:
    """-1 errors only, 0 warnings, 1 what is done, 2 everything."""
    level = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(SecretFormatter("%(levelname)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    threading.excepthook = _of_a_thread


def _of_a_thread(ended: threading.ExceptHookArgs) -> None:
    """Python would print the traceback as it is."""
    if ended.exc_value is not None:
        told = (ended.exc_type, ended.exc_value, ended.exc_traceback)
        logging.getLogger(__name__).error("a thread ended with an error", exc_info=told)
