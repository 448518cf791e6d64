"""Files that are given as input."""

from __future__ import annotations

from pathlib import Path

from loader.sources.ldif_files import STDIN
from loader.storage import files


def same_file(one: Path, other: Path) -> bool:
    """Are both there, and the same?"""
    return one.exists() and other.exists() and one.samefile(other)


def is_stream(path: Path) -> bool:
    """Standard input, a pipe, a socket: what goes by but once."""
    return str(path) == STDIN or (path.exists() and not path.is_file() and not path.is_dir())


def fingerprint(path: Path) -> list[object]:
    """Other than before when the file was changed."""
    if is_stream(path):
        return [str(path)]
    files.require_readable(path)
    status = path.stat()
    return [str(path.absolute()), status.st_size, status.st_mtime_ns]
