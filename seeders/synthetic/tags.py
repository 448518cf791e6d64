"""The tags of a template's texts, each compiled once into a function of the entry number.

`docs/generate.md` explains them to operators; `KINDS` at the foot is the whole list.
"""

from __future__ import annotations

import base64
import hashlib
import string
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from seeders.synthetic.randomness import below, stream

Known = Mapping[str, str]  # the entry's named values so far
Render = Callable[[int, Known], str]  # (entry number, named values) -> text


class TagError(ValueError):
    """A text that cannot be compiled; whoever knows the file and line says where."""


@dataclass(frozen=True)
class Scope:
    """What a text may speak of. `names`: values defined before it."""

    seed: int
    suffix: str
    lists: Mapping[str, Sequence[str]]
    names: frozenset[str]


@dataclass(frozen=True)
class Place:
    """Where a tag stands: its own randomness, and the scope around it."""

    name: str
    scope: Scope

    def draw(self, part: int = 0) -> Callable[[int], int]:
        return stream(self.scope.seed, f"{self.name}/{part}" if part else self.name)


def compile_text(text: str, name: str, scope: Scope) -> Render:
    """The function that writes `text` for an entry; `name` picks its randomness. Raises TagError."""
    pieces = list(_pieces(text, name, scope))
    renders = [piece for piece in pieces if not isinstance(piece, str)]
    if not renders:
        constant = "".join(str(piece) for piece in pieces)
        return lambda number, known: constant
    if len(pieces) == 1:
        return renders[0]
    pattern = "".join(
        piece.replace("%", "%%") if isinstance(piece, str) else "%s" for piece in pieces
    )
    return lambda number, known: pattern % tuple([render(number, known) for render in renders])


def tags_in(text: str) -> list[str]:
    """The names of its tags. Raises TagError when the braces do not match."""
    return [tag for _, tag, _ in _parse(text) if tag is not None]


def _parse(text: str) -> Iterator[tuple[str, str | None, str]]:
    """(text before, tag, its argument), by the rules of Python's format strings: {{ is a brace."""
    try:
        for literal, tag, argument, _ in string.Formatter().parse(text):
            yield literal, tag, argument or ""
    except ValueError as error:
        raise TagError(f"{text!r}: braces do not match (write {{{{ for a brace)") from error


def _pieces(text: str, name: str, scope: Scope) -> Iterator[str | Render]:
    for position, (literal, tag, argument) in enumerate(_parse(text)):
        if literal:
            yield literal
        if tag is None:
            continue
        if tag in KINDS:
            yield KINDS[tag](argument, Place(f"{name}#{position}", scope))
        elif tag in scope.names and not argument:
            yield _value(tag)
        else:
            known = ", ".join([*KINDS, *sorted(scope.names)])
            raise TagError(f"unknown tag {{{tag}}} (there are: {known})")


def _value(name: str) -> Render:
    return lambda number, known: known[name]


def _number(argument: str, place: Place) -> Render:
    width = _count(argument or "1", "number", 20)
    return lambda number, known: f"{number:0{width}d}"


def _digits(argument: str, place: Place) -> Render:
    width = _count(argument, "digits", 18)
    draw, limit = place.draw(), 10**width
    return lambda number, known: f"{below(draw(number), limit):0{width}d}"


def _hex(argument: str, place: Place) -> Render:
    width = _count(argument, "hex", 16)
    draw, limit = place.draw(), 16**width
    return lambda number, known: f"{below(draw(number), limit):0{width}x}"


def _between(argument: str, place: Place) -> Render:
    low, _, high = argument.partition(":")
    if not (low.isdecimal() and high.isdecimal() and int(low) <= int(high)):
        raise TagError(f"{{between:{argument}}}: write {{between:1:100}}")
    draw, first, span = place.draw(), int(low), int(high) - int(low) + 1
    return lambda number, known: str(first + below(draw(number), span))


def _pick(argument: str, place: Place) -> Render:
    values = place.scope.lists.get(argument)
    if not values:
        known = ", ".join(sorted(place.scope.lists)) or "none"
        raise TagError(f"{{pick:{argument}}}: no such list (there are: {known})")
    draw, count = place.draw(), len(values)
    return lambda number, known: values[below(draw(number), count)]


def _ascii(argument: str, place: Place) -> Render:
    name = _named(argument, "ascii", place)
    return lambda number, known: _plain(known[name])


def _ssha(argument: str, place: Place) -> Render:
    """RFC 2307 salted SHA-1, the hash slapd knows without a module."""
    name, draw = _named(argument, "ssha", place), place.draw()

    def render(number: int, known: Known) -> str:
        salt = draw(number).to_bytes(8, "big")
        digest = hashlib.sha1(known[name].encode() + salt, usedforsecurity=False).digest()
        return "{SSHA}" + base64.b64encode(digest + salt).decode()

    return render


def _uuid(argument: str, place: Place) -> Render:
    high, low = place.draw(), place.draw(1)
    return lambda number, known: uuid_of(high(number), low(number))


def _suffix(argument: str, place: Place) -> Render:
    suffix = place.scope.suffix
    return lambda number, known: suffix


def uuid_of(high: int, low: int) -> str:
    """128 random bits as a version 4 UUID (RFC 4122)."""
    bits = (high << 64 | low) & ~(0xF << 76) & ~(0x3 << 62) | 0x4 << 76 | 0x2 << 62
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _plain(text: str) -> str:
    """Lower case, accents off, only what a mail address takes: "Zoë O'Neil" -> "zoeoneil"."""
    if not (text.isascii() and text.isalnum()):
        text = unicodedata.normalize("NFKD", text)
        text = "".join(letter for letter in text if letter.isascii() and letter.isalnum())
    return text.lower()


def _count(argument: str, tag: str, most: int) -> int:
    if not argument.isdecimal() or not 1 <= int(argument) <= most:
        raise TagError(f"{{{tag}:{argument}}}: write a width from 1 to {most}")
    return int(argument)


def _named(argument: str, tag: str, place: Place) -> str:
    if argument not in place.scope.names:
        known = ", ".join(sorted(place.scope.names)) or "none"
        raise TagError(f"{{{tag}:{argument}}}: no such value before it (there are: {known})")
    return argument


KINDS: Mapping[str, Callable[[str, Place], Render]] = {
    "number": _number,
    "digits": _digits,
    "hex": _hex,
    "between": _between,
    "pick": _pick,
    "ascii": _ascii,
    "ssha": _ssha,
    "uuid": _uuid,
    "suffix": _suffix,
}
