"""Records in a repository that tell when they were damaged: JSON in one form only, with a seal over all that it says.

A seal tells damage. Whoever may write in the repository (mode 0700) can forge one.
"""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from loader import typed
from loader.typed import Unfit

Record = TypeVar("Record", bound=Any)


def sealed(record: Record) -> Record:
    """The same, a dataclass with a field `seal`, with the seal that fits the others."""
    return dataclasses.replace(record, seal=_seal(record))


def text(record: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def read(path: Path, kind: type[Record], version: int) -> Record:
    """Raises Unfit, FileNotFoundError, OSError."""
    content = typed.content(path)
    found = typed.parse(content, kind, version)
    require(found, content)
    return found


def require(record: Any, content: bytes) -> None:
    """Raise Unfit unless a record and the file that it was read from are as they were written."""
    if record.seal != _seal(record) or text(record) != content:
        raise Unfit("was changed since it was written: its seal does not fit")


def _seal(record: Any) -> str:
    return hashlib.sha256(text(dataclasses.replace(record, seal=""))).hexdigest()
