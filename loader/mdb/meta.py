"""Reads the meta pages of a data.mdb, and translates the core's errors about data files into LoaderErrors.

The core parses the meta pages in a buffer: with a memory map, a truncated file would kill the process."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loader import _native, plain, units
from loader._native import MetaPage
from loader.errors import (
    FULL,
    FULL_ERRNOS,
    LoaderError,
    MdbDamaged,
    MdbProtected,
    NoSpace,
    NoSuchPath,
    NotLmdb,
    NotPermitted,
    SystemFailed,
)
from loader.storage import files

__all__ = ["MetaPage"]

_log = logging.getLogger(__name__)
DATA = "data.mdb"
MAGIC = 0xBEEFC0DE
_MAGIC = MAGIC.to_bytes(4, sys.byteorder)
HEAD_BYTES = 65536 + 160  # bytes with both meta pages: a page of the largest size, and the used part of the next page
_PROTECTED = {"lmdb.encrypted": "encryption", "lmdb.checksums": "page checksums"}


def data_file(path: Path) -> Path:
    """Returns the data file of an environment directory, or `path` itself if it is no directory."""
    return path / DATA if path.is_dir() else path


def is_data_file(path: Path) -> bool:
    """Returns whether a file looks like an LMDB data file, by its name or its first page."""
    if path.suffix == ".mdb":
        return True
    with files.reading(path) as file:
        head = file.read(28)
    return _MAGIC in (head[16:20], head[24:28])  # the magic number follows the page header of LMDB 0.9 or 1.0


def read_meta(source: Path) -> MetaPage:
    """Returns the newer meta page of an environment directory or data file. Raises NoSuchPath, NotPermitted, NotLmdb,
    MdbProtected, MdbDamaged."""
    path = data_file(source)
    try:
        with files.reading(path) as file:
            page = parse(file.read(HEAD_BYTES), str(path))
    except FileNotFoundError:
        raise NoSuchPath(path=path) from None
    except PermissionError:
        raise NotPermitted(action="read", path=path, owner=files.owner_name(path)) from None
    except OSError as error:
        raise SystemFailed(path=path, reason=error.strerror) from error
    _log.info("%s: %s in use, transaction %d", plain.with_operator_paths(str(path)), units.size(page.used), page.txnid)
    return page


def parse(head: bytes, origin: str, *, alone: bool = False) -> MetaPage:
    """Returns the newer meta page in `head`, the first HEAD_BYTES of a file. With `alone`, `head` is a single meta
    page. Raises NotLmdb, MdbProtected, MdbDamaged."""
    if not head:
        raise NotLmdb(path=origin, reason="empty")
    with explained(Path(origin)):
        return MetaPage(head, alone=alone)


@contextmanager
def explained(path: Path, pin: Path | None = None) -> Iterator[None]:
    """Translates the core's errors about the data file `path` into LoaderErrors. `pin`: the name under which the core
    has opened the file, if it is not `path`; it is removed from the messages."""
    try:
        yield
    except _native.NativeError as error:
        reason = error.message.removeprefix(f"{pin or path}: ")
        if error.code in _PROTECTED:
            raise MdbProtected(path=path, what=_PROTECTED[error.code]) from error
        if error.code == "lmdb.foreign":
            raise NotLmdb(path=path, reason=reason) from error
        if error.code in ("lmdb.damaged", "build.damaged"):
            raise MdbDamaged(path=path, reason=reason) from error
        if error.errno is not None:
            where = Path(plain.with_operator_paths(error.path)) if error.path else path
            raise system_error(error.errno, where) from error
        raise


def system_error(number: int, path: Path) -> LoaderError:
    """Returns the LoaderError for an errno that the native core reported."""
    if number in (errno.EACCES, errno.EPERM):
        return NotPermitted(action="open", path=path, owner=files.owner_name(path))
    if number in FULL_ERRNOS:
        return NoSpace(path=path, lack=FULL)
    return SystemFailed(path=path, reason=os.strerror(number))
