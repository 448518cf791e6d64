"""Words and values of slapd's configuration. slapd has two functions that split text into words, both in
servers/slapd/config.c: strtok_quote for a line of slapd.conf, strtok_quote_ldif for a value of cn=config.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from loader.errors import ConfigValue

_SPACE = " \t\n\v\f\r"  # isspace(3) in the C locale


def of_line(line: str) -> list[str]:
    """Splits a line of slapd.conf. Quotes can begin and end anywhere; a backslash makes the next character literal."""
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
    """Splits a value of cn=config. Only a quote at the end of a word closes one; of others, slapd removes the last."""
    words, rest = [], value
    while rest:
        rest = rest.lstrip(_SPACE)
        quoted = rest.startswith('"')
        text = rest[1:] if quoted else rest
        inner, end = (-1, len(text))  # inner: index of the last quote that closes nothing
        for at, one in enumerate(text):
            if one == '"' and not (quoted and text[at + 1 : at + 2] in ("", *_SPACE)):
                inner, quoted = at, True
            elif one == '"' or (one in _SPACE and not quoted):
                end = at
                break
        words.append(text[:end] if inner < 0 else text[:inner] + text[inner + 1 : end])
        rest = text[end + 1 :].lstrip(_SPACE)
    return words


def as_value(word: str) -> str:
    """Quotes a word for cn=config if necessary. slapd itself omits the quotes when it converts a slapd.conf."""
    return word if of_value(word) == [word] else f'"{word}"'


def as_single(text: str) -> str:
    """Returns a value of cn=config that slapd reads as one word: quotes `text` if slapd would split it."""
    return text if len(of_value(text)) == 1 else as_value(text)


def as_line(word: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", word) + '"'


def unordered(value: str) -> str:
    """Returns a value without the {n} in front of ordered values."""
    return re.sub(r"^\{-?\d+\}", "", value)


Attributes = Mapping[str, Sequence[bytes]]

_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")  # strtol(3), base 0
_SWITCH = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}


class Values:
    """The settings of some entries of cn=config. Names are case-insensitive; bytes that are not UTF-8 become surrogate
    escapes. Methods raise ConfigValue for values that slapd would refuse."""

    def __init__(self, where: str, *entries: Attributes) -> None:
        self._where = where
        self._entries = [{name.lower(): found for name, found in one.items()} for one in entries]

    def stored(self, name: str) -> list[str]:
        return [
            value.decode("utf-8", "surrogateescape") for found in self._entries for value in found.get(name.lower(), ())
        ]

    def all(self, name: str) -> list[str]:
        return [unordered(value) for value in self.stored(name)]

    def words(self, name: str) -> list[list[str]]:
        return [of_value(value) for value in self.all(name)]

    def word(self, name: str) -> str | None:
        """Returns the value of a setting of one word, or None if it is not set. The last of several values counts."""
        word = None
        for value in self.all(name):
            words = of_value(value)
            if len(words) != 1:
                self._refuse(name, value, "not a single word")
            word = words[0]
        return word

    def pairs(self, name: str) -> Iterator[tuple[str, str]]:
        for value in self.all(name):
            first, *others = of_value(value) or [""]
            if len(others) != 1:
                self._refuse(name, value, "not two words")
            yield first, others[0]

    def dns(self, name: str) -> list[str]:
        """Returns the DNs in a setting. A DN needs no quotes (ARG_QUOTE, bconfig.c); an empty value is the empty DN."""
        return ["".join(of_value(one)[:1]) if one.startswith('"') else one for one in self.all(name)]

    def dn(self, name: str) -> str | None:
        return next(iter(self.dns(name)), None)

    def number(self, name: str, otherwise: int) -> int:
        """Returns a number: 0x is hexadecimal, a leading zero octal (lutil_atoix with base 0)."""
        text = self.word(name)
        if text is None:
            return otherwise
        if not _NUMBER.fullmatch(text):
            self._refuse(name, text, "not a number")
        sign, digits = -1 if text[0] == "-" else 1, text.lstrip("+-")
        octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
        return sign * int(digits, 8 if octal else 0)

    def flag(self, name: str, otherwise: bool) -> bool:
        found = self.word(name)
        if found is None:
            return otherwise
        if found.lower() not in _SWITCH:
            self._refuse(name, found, "neither TRUE nor FALSE")
        return _SWITCH[found.lower()]

    def mode(self, name: str, otherwise: int) -> int:
        """Returns permissions from a number ("0600"; "600" is decimal to slapd) or symbols ("-rw-------")."""
        found = self.word(name)
        if found is None:
            return otherwise
        if found[:1].isdigit():
            return self.number(name, otherwise)
        if not re.fullmatch("-" + 3 * "[r-][w-][x-]", found):
            self._refuse(name, found, "neither a number nor in the form -rw-------")
        return sum(1 << (8 - place) for place, letter in enumerate(found[1:]) if letter != "-")

    def server_id(self) -> int | None:
        """Returns olcServerID, decimal or else hexadecimal (bconfig.c); None if unset or set per listener URL."""
        found = self.words("olcServerID")
        if len(found) != 1 or len(found[0]) != 1:
            return None
        text = found[0][0]
        if not re.fullmatch(r"\+?(?:0[xX])?[0-9a-fA-F]+", text):
            self._refuse("olcServerID", text, "not a number")
        return int(text, 10 if text.lstrip("+").isdigit() else 16)

    def _refuse(self, name: str, value: str, reason: str) -> NoReturn:
        raise ConfigValue(config=self._where, attribute=name, value=value, reason=reason)
