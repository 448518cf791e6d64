"""A configuration as slapd's tools may read it: without the log file, which they would empty.

Every tool opens the file that `logfile` names as soon as it reads the line: 2.4 and 2.5 for writing from its beginning
(bconfig.c), 2.6 at its end (logging.c).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loader import slapd_conf
from loader.server import account
from loader.slapd_conf import TextOf
from loader.storage import files, held, temporary
from loader.storage.files import Owner

_ENTRY = "cn=config.ldif"
_VALUE = re.compile(rb"^olcLogFile:.*\n(?: .*\n)*", re.MULTILINE | re.IGNORECASE)
_CHECKSUM = re.compile(rb"\A(?:#.*\n)+")  # of the file as slapd wrote it


@contextmanager
def readable(
    path: Path, scratch: str | None, text_of: TextOf, owner: Owner | None = None
) -> Iterator[Path]:
    """A slapd.d or slapd.conf: `path` itself, or where it names a log file, or `owner` may not read it, a copy, which
    `owner` can read and not change."""
    kept = _entry(path) if path.is_dir() else _text(path, text_of, owner)
    if kept is None and (owner is None or account.may_read(owner, _read(path, text_of))):
        yield path
        return
    with temporary.directory("read", scratch) as place:
        copy = Path(place, path.name)
        if path.is_dir():
            copy_directory(path, copy)
        if kept is not None:
            write(copy / _ENTRY if path.is_dir() else copy, kept)
        account.let_read(owner, Path(place))
        yield copy


def copy_directory(source: Path, copy: Path) -> None:
    """What slapd reads of a slapd.d. As root, links of another account, such as slapd's, are refused: they could lead
    to any file of root's. Raises FileUnsafe, DirectoryUnsafe, OSError."""
    copy.mkdir(mode=0o700)
    with held.opened(source) as directory:
        for name in os.listdir(directory.descriptor):
            path = directory.path / name
            if name.endswith(".ldif"):
                write(copy / name, files.read(path))
            elif path.is_dir():
                copy_directory(path, copy / name)


def _entry(path: Path) -> bytes | None:
    """cn=config without the log file; None where it names none."""
    text = files.read(path / _ENTRY) if (path / _ENTRY).exists() else b""
    kept = _VALUE.sub(b"", _CHECKSUM.sub(b"", text))
    return kept if _VALUE.search(text) else None


def _text(path: Path, text_of: TextOf, owner: Owner | None) -> bytes | None:
    """Of a slapd.conf, likewise; with what it includes in it only where `owner` may not read that: schema gets its
    names from the files."""
    text = slapd_conf.without(path, "logfile", text_of)
    if owner is not None and not account.may_read(owner, _read(path, text_of)):
        included = _read(path, text_of)[1:]
        if included and not account.may_read(owner, included):
            text = slapd_conf.whole(path, "logfile", text_of)
        text = text_of(path) if text is None else text
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _read(path: Path, text_of: TextOf) -> list[Path]:
    """The files that a tool reads."""
    if not path.is_dir():
        return [path, *{one.file for one in slapd_conf.statements(path, text_of)} - {path}]
    return [file for file in (path, *path.rglob("*")) if file.is_dir() or file.suffix == ".ldif"]


def write(path: Path, text: bytes) -> None:
    """A new file of mode 0600 in the place of another."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
