"""Logging: stderr for people, nothing secret in it."""

from __future__ import annotations

import logging
import re
import sys

_SECRET = re.compile(
    r"((?:userPassword|olcRootPW|rootpw|credentials|authPassword)\S{0,2}[:=]{1,2}\s*)\S+",
    re.IGNORECASE,
)


class SecretFilter(logging.Filter):
    """Blanks the values of password attributes and of slapd's password settings."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = blank(record.getMessage())
        record.args = ()
        return True


def blank(text: str) -> str:
    """`text` with password values blanked."""
    return _SECRET.sub(r"\1***", text)


def setup(verbosity: int) -> None:
    """-1 errors only, 0 warnings, 1 what is done, 2 everything."""
    level = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    handler.addFilter(SecretFilter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
