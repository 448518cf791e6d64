"""Words of slapd's configuration, cut as slapd cuts them: a line of slapd.conf and a value of cn=config differ in that.

Pure text. The rules are those of servers/slapd/config.c: strtok_quote for lines, strtok_quote_ldif for values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_SPACE = " \t\n\v\f\r"  # isspace(3) in the C locale
_ORDER = re.compile(r"\{-?\d+\}")


def of_line(line: str) -> list[str]:
    """Of a line of slapd.conf: quotes come and go anywhere, a backslash makes the next character literal."""
    found, word, quoted = [], None, False
    characters = iter(line)
    for one in characters:
        if one in " \t" and not quoted:
            if word is not None:
                found.append(word)
            word = None
            continue
        word = word or ""
        if one == '"':
            quoted = not quoted
        else:
            word += next(characters, "\\") if one == "\\" else one
    return found if word is None else [*found, word]


def of_value(value: str) -> list[str]:
    """Of a value in cn=config: only a quote at the end of a word closes one, and a backslash is a character."""
    return list(_of_value(value))


def _of_value(rest: str) -> Iterator[str]:
    while rest:
        rest = rest.lstrip(_SPACE)
        quoted = rest.startswith('"')
        word, rest = _first(rest[1:] if quoted else rest, quoted)
        yield word


def _first(text: str, quoted: bool) -> tuple[str, str]:
    """The first word of a text, which may be within a quote already; and what follows it and white space."""
    inner, end = (
        -1,
        len(text),
    )  # where the last quote stands that closes nothing: it alone is left out
    for at, one in enumerate(text):
        if one == '"' and not (quoted and text[at + 1 : at + 2] in ("", *_SPACE)):
            inner, quoted = at, True
        elif one == '"' or (one in _SPACE and not quoted):
            end = at
            break
    word = text[:end] if inner < 0 else text[:inner] + text[inner + 1 : end]
    return word, text[end + 1 :].lstrip(_SPACE)


def as_value(word: str) -> str:
    """How a single word is written in cn=config. slapd itself leaves quotes out when it converts a slapd.conf."""
    return word if of_value(word) == [word] else f'"{word}"'


def as_single(text: str) -> str:
    """A value that is one word: quotes around what is cut into several."""
    return text if len(of_value(text)) == 1 else as_value(text)


def as_line(word: str) -> str:
    """How a single word is written in slapd.conf."""
    return '"' + re.sub(r'(["\\])', r"\\\1", word) + '"'


def unordered(value: str) -> str:
    """Without the {n} that stands before ordered values."""
    found = _ORDER.match(value)
    return value[found.end() :] if found else value
