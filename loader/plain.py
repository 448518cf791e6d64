"""Escapes text from outside (DNs, values, messages of servers and tools, file names), so that terminals and logs can
show it. Also replaces paths through descriptors (/proc/PID/fd/N) by the paths that the operator gave.

A terminal obeys control characters. Bidirectional characters can disguise a line, and a line break can forge a line of
a log. This module escapes such characters as `\n`, `\x1b` or `\u202e`, and bytes that are not UTF-8 as `\xff`. It does
not escape backslashes, which are frequent in DNs. So a second escaping does not change the text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeVar

# Maximum characters that a message shows:
VALUE = 200  # of a value or a word
SENTENCE = 1000  # of a foreign message, such as the diagnostic message of a server
WHOLE = 8000  # of a text that is useful only in full, such as a path or a command


def printable(text: str) -> str:
    """Returns `text` on one line. Escapes all characters that a terminal does not show."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    if char.isprintable():
        return char
    if "\udc80" <= char <= "\udcff":  # a byte that is not UTF-8 (PEP 383)
        return f"\\x{ord(char) - 0xDC00:02x}"
    return repr(char)[1:-1]


def shortened(text: str, most: int = VALUE) -> str:
    """Like `printable`, but cuts the middle out of a text that is much longer than `most` characters."""
    return _cut(printable(_cut(text, most)), most)


def sentence(text: str) -> str:
    """Escapes and shortens a foreign message. Also shortens every long word in it, such as a value."""
    return shortened(_LONG.sub(lambda match: shortened(match[0]), _cut(text, 10 * SENTENCE)), SENTENCE)


_LONG = re.compile(rf"\S{{{VALUE + 60},}}")


def _cut(text: str, most: int) -> str:
    """Cuts the middle out of a text that is at least 60 characters too long."""
    left_out = len(text) - most
    if left_out < 60:
        return text
    end = most // 3
    return f"{text[: most - end]}[... {left_out:,} characters ...]{text[-end:]}"


# --- the operator's names for paths through descriptors --------------------------------------------

_names: dict[str, str] = {}  # path through a descriptor -> the operator's name

_PROC = "/proc/"
_DESCRIPTOR = re.compile(r"/proc/(self|\d+)/fd/\d+")

Value = TypeVar("Value")


def register(path: Path, name: Path | str) -> None:
    """Makes messages show `path`, and paths below it, as `name`."""
    _names[str(path)] = with_operator_paths(str(name))


def forget(path: Path) -> None:
    _names.pop(str(path), None)


def with_operator_paths(text: str) -> str:
    """Returns a text in which the operator's name replaces each path through a descriptor."""
    for path in sorted(_names.copy(), key=len, reverse=True):
        if path in text:
            text = text.replace(path, _names.get(path, path))
    return _DESCRIPTOR.sub(_path_of, text) if _PROC in text else text


def _path_of(descriptor: re.Match[str]) -> str:
    """Returns the path that the kernel shows for a descriptor; the text unchanged if there is no such path."""
    if descriptor[1] not in ("self", str(os.getpid())):
        return descriptor[0]
    try:
        path = os.readlink(descriptor[0])
    except OSError:
        return descriptor[0]
    return path if os.path.lexists(path) else descriptor[0]


def with_operator_names(value: Value) -> Value:
    """Applies `with_operator_paths` to all texts and paths, also in dictionaries, lists and tuples."""
    result: object = value
    if isinstance(value, str):
        result = with_operator_paths(value)
    elif isinstance(value, Path):
        name = with_operator_paths(str(value))
        result = name if "://" in name else Path(name)  # `Path` would turn // into /
    elif isinstance(value, dict):
        result = {key: with_operator_names(item) for key, item in value.items()}
    elif type(value) in (list, tuple):
        result = type(value)(with_operator_names(item) for item in value)  # type: ignore[call-arg, attr-defined]
    return result  # type: ignore[return-value]
