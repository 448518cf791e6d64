"""The names by which operators know what ditseed reaches through descriptors (/proc/PID/fd/N), for messages."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeVar

_names: dict[str, str] = {}  # path through a descriptor -> the name

_PROC = "/proc/"
_DESCRIPTOR = re.compile(r"/proc/(self|\d+)/fd/\d+")

Told = TypeVar("Told")


def register(path: Path, name: Path | str) -> None:
    """From now on `path`, and whatever is below it, is called `name`."""
    _names[str(path)] = with_operator_paths(str(name))


def forget(path: Path) -> None:
    _names.pop(str(path), None)


def with_operator_paths(text: str) -> str:
    """A text with the names that operators know."""
    for path in sorted(_names.copy(), key=len, reverse=True):
        if path in text:
            text = text.replace(path, _names.get(path, path))
    return _DESCRIPTOR.sub(_path_of, text) if _PROC in text else text


def _path_of(descriptor: re.Match[str]) -> str:
    """Of one that nobody registered, as the kernel knows it; as it stands where that has none, or is closed."""
    if descriptor[1] not in ("self", str(os.getpid())):
        return descriptor[0]
    try:
        path = os.readlink(descriptor[0])
    except OSError:
        return descriptor[0]
    return path if os.path.lexists(path) else descriptor[0]


def told(value: Told) -> Told:
    """The same of facts: of all texts and paths in dictionaries, lists and tuples."""
    found: object = value
    if isinstance(value, str):
        found = with_operator_paths(value)
    elif isinstance(value, Path):
        name = with_operator_paths(str(value))
        found = name if "://" in name else Path(name)  # `Path` makes one slash of two
    elif isinstance(value, dict):
        found = {key: told(one) for key, one in value.items()}
    elif type(value) in (list, tuple):
        found = type(value)(told(one) for one in value)  # type: ignore[call-arg, attr-defined]
    return found  # type: ignore[return-value]
