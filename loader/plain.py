"""Text from outside (DNs, values, messages of servers and tools, names of files) made fit for a terminal; and the names
by which operators know what ditseed reaches through descriptors (/proc/PID/fd/N).

A terminal obeys control characters, and bidirectional ones make a line read as something that it is not; a line break
forges a line of a log. All of them are written out here: `\n`, `\x1b`, `\u202e`; of what is not UTF-8, the bytes.
A backslash stays as it is, for DNs are full of them, so text that has been through this once does not change again.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeVar

VALUE = 200  # characters of a value, or of a word, that a message shows
SENTENCE = 1000  # of a message by somebody else, such as the diagnostic message of a server
WHOLE = 8000  # of what has to be given as it stands: paths, commands

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """`text` on one line, of which a terminal shows every character."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(one: str) -> str:
    if one.isprintable():
        return one
    number = ord(one)
    if 0xDC80 <= number <= 0xDCFF:  # a byte that is not UTF-8 (PEP 383)
        number -= 0xDC00
    short = f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
    return _NAMED.get(one, short if number < 0x10000 else f"\\U{number:08x}")


def shortened(text: str, most: int = VALUE) -> str:
    """As `printable`, with the middle left out of what is much longer than `most` characters."""
    return _cut(printable(_cut(text, most)), most)


def sentence(text: str) -> str:
    """As `shortened`, of words in which values stand."""
    return shortened(_LONG.sub(lambda found: shortened(found[0]), _cut(text, 10 * SENTENCE)), SENTENCE)


_LONG = re.compile(rf"\S{{{VALUE + 60},}}")


def _cut(text: str, most: int) -> str:
    """What is left out is worth the words that say so."""
    left_out = len(text) - most
    if left_out < 60:
        return text
    end = most // 3
    return f"{text[: most - end]}[... {left_out:,} characters ...]{text[-end:]}"


# --- names of what is reached through descriptors --------------------------------------------------

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
