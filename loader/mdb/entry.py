"""The blob that back-mdb keeps for one entry in id2e: `decode` and `encode` undo each other.

Attributes are numbers here; the table ad2i has their names. The DN is not in it (that is dn2i).
Layout: OpenLDAP's servers/slapd/back-mdb/id2entry.c; proven against slapadd of 2.5.13 and 2.6.14.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import accumulate, pairwise

SORTED = 0x80000000  # in the attribute number: values are kept sorted (sortvals)
ELSEWHERE = 0x40000000  # in the attribute number: values live in the table id2v (multival)
NORMALISED = 0x80000000  # in the count: a normalised copy of each value follows

_HEADER = struct.Struct(
    "=IIII"
)  # attributes, value slots, object class flags, words before the data
_ALIGN = 8


@dataclass(frozen=True)
class Attribute:
    """`normalised` is None where slapd keeps no normalised copies. `flags`: SORTED, ELSEWHERE (then no values here)."""

    number: int
    values: tuple[bytes, ...]
    normalised: tuple[bytes, ...] | None = None
    flags: int = 0
    elsewhere: int = 0  # how many values there are in id2v
    elsewhere_normalised: bool = False

    @property
    def count(self) -> int:
        return self.elsewhere if self.flags & ELSEWHERE else len(self.values)

    @property
    def has_normalised(self) -> bool:
        return self.elsewhere_normalised if self.flags & ELSEWHERE else self.normalised is not None


@dataclass(frozen=True)
class Entry:
    """One entry's attributes in order. `class_flags`: what slapd worked out from the object classes."""

    class_flags: int
    attributes: tuple[Attribute, ...]

    def attribute(self, number: int) -> Attribute | None:
        return next((one for one in self.attributes if one.number == number), None)

    def replaced(self, new: Attribute) -> Entry:
        """With `new` in the place of the attribute of that number, or at the end."""
        if self.attribute(new.number) is None:
            return Entry(self.class_flags, (*self.attributes, new))
        kept = [new if one.number == new.number else one for one in self.attributes]
        return Entry(self.class_flags, tuple(kept))


class Malformed(ValueError):
    """The bytes are no entry."""


def decode(blob: bytes) -> Entry:
    """An entry from the value of its id2e record. Raises Malformed."""
    try:
        count, _, class_flags, words = _HEADER.unpack_from(blob)
        numbers = struct.unpack_from(f"={words}I", blob, _HEADER.size)
        return Entry(
            class_flags, tuple(_attributes(blob, numbers, count, _HEADER.size + 4 * words))
        )
    except (struct.error, IndexError) as error:
        raise Malformed(str(error)) from error


def values_of(blob: bytes, number: int) -> tuple[bytes, ...]:
    """The values of one attribute of an entry, as `decode` gives them; none where it has none, or keeps them in id2v. A
    look at thousands of entries needs no more. Raises Malformed."""
    try:
        count, _, _, words = _HEADER.unpack_from(blob)
        numbers = struct.unpack_from(f"={words}I", blob, _HEADER.size)
        data, at = _HEADER.size + 4 * words, 0
        for _ in range(count):
            found, size = numbers[at] & ~(SORTED | ELSEWHERE), numbers[at + 1] & ~NORMALISED
            at += 2
            if numbers[at - 2] & ELSEWHERE:
                if found == number:
                    return ()
                continue
            if found == number:
                return _values(blob, numbers[at : at + size], data)[0]
            slots = 2 * size if numbers[at - 1] & NORMALISED else size
            data += sum(numbers[at : at + slots]) + slots
            at += slots
        return ()
    except (struct.error, IndexError) as error:
        raise Malformed(str(error)) from error


def _attributes(blob: bytes, words: tuple[int, ...], count: int, data: int) -> list[Attribute]:
    found, at = [], 0
    for _ in range(count):
        number, size = words[at], words[at + 1]
        flags, normalised = number & (SORTED | ELSEWHERE), bool(size & NORMALISED)
        number, size = number & ~(SORTED | ELSEWHERE), size & ~NORMALISED
        at += 2
        if flags & ELSEWHERE:
            found.append(Attribute(number, (), None, flags, size, normalised))
            continue
        values, data = _values(blob, words[at : at + size], data)
        at += size
        copies = None
        if normalised:
            copies, data = _values(blob, words[at : at + size], data)
            at += size
        found.append(Attribute(number, values, copies, flags))
    return found


def _values(blob: bytes, lengths: tuple[int, ...], start: int) -> tuple[tuple[bytes, ...], int]:
    """Values lie one after another, each with a NUL behind it."""
    starts = list(accumulate((length + 1 for length in lengths), initial=start))
    if starts[-1] > len(blob):
        raise Malformed("a value ends behind the entry")
    return tuple(blob[begin : end - 1] for begin, end in pairwise(starts)), starts[-1]


def encode(entry: Entry) -> bytes:
    """The id2e value of an entry; the padding is zeros (slapd leaves there what was in memory)."""
    words: list[int] = []
    data: list[bytes] = []
    slots = 0
    for one in entry.attributes:
        words += [one.number | one.flags, one.count | (NORMALISED if one.has_normalised else 0)]
        slots += (one.count + 1) * (2 if one.has_normalised else 1)
        stored = [*one.values, *(one.normalised or ())]
        words += map(len, stored)
        data += stored
    header = _HEADER.pack(len(entry.attributes), slots, entry.class_flags, len(words))
    body = b"".join(value + b"\0" for value in data)
    blob = header + struct.pack(f"={len(words)}I", *words) + body
    return blob + bytes(-len(blob) % _ALIGN)
