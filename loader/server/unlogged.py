"""A configuration as slapd's tools may read it: without the log file, which they would empty.

Every tool opens the file that `logfile` names as soon as it reads the line: 2.4 and 2.5 for writing from its beginning
(bconfig.c), 2.6 at its end (logging.c).
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loader import slapd_conf
from loader.slapd_conf import TextOf

_ENTRY = "cn=config.ldif"
_VALUE = re.compile(rb"^olcLogFile:.*\n(?: .*\n)*", re.MULTILINE | re.IGNORECASE)
_CHECKSUM = re.compile(rb"\A(?:#.*\n)+")  # of the file as slapd wrote it


@contextmanager
def readable(path: Path, scratch: str | None, text_of: TextOf) -> Iterator[Path]:
    """A slapd.d or slapd.conf: `path` itself, or where it names a log file, a copy that does not. Mode 0700."""
    if path.is_dir():
        entry = (path / _ENTRY).read_bytes() if (path / _ENTRY).exists() else b""
        kept: bytes | None = _VALUE.sub(b"", _CHECKSUM.sub(b"", entry))
        kept = kept if _VALUE.search(entry) else None
    else:
        text = slapd_conf.without(path, "logfile", text_of)
        kept = None if text is None else text.encode("utf-8", "surrogateescape")
    if kept is None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="ditseed-read-", dir=scratch) as place:
        copy = Path(place, path.name)
        if path.is_dir():
            shutil.copytree(path, copy)
        _write(copy / _ENTRY if path.is_dir() else copy, kept)
        yield copy


def _write(path: Path, text: bytes) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
