#!/usr/bin/env python3
"""Writes src/text/tables.bin: the Unicode 3.2 facts that slapd's normaliser knows.

Run without arguments to write the file, with --check to see whether it is current.
Source: unicodedata.ucd_3_2_0 of Python, with the deviations of OpenLDAP's liblunicode:
no decomposition for U+F900, U+F901 and everything above U+1D60E (the bound of the search in
ucdata.c falls short of the table's end), and four composites that NFC excludes.
"""

from __future__ import annotations

import sys
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

OLD = unicodedata.ucd_3_2_0
OUTPUT = Path(__file__).parent / "src" / "text" / "tables.bin"
BLOCK = 64
LAST_DECOMPOSED = 0x1D60E
END = (LAST_DECOMPOSED // BLOCK + 1) * BLOCK
NOT_DECOMPOSED = {0xF900, 0xF901}
EXTRA_COMPOSITES = {0x0344, 0x0F73, 0x0F75, 0x0F81}


def is_hangul(code: int) -> bool:
    return 0xAC00 <= code <= 0xD7FF


def fold(code: int) -> int:
    """Returns the distance to the lower-case letter; 0 if Unicode 3.2 does not have the letter."""
    if OLD.category(chr(code)) not in ("Lu", "Lt"):
        return 0
    lower = ord(chr(code).lower()[0])
    return 0 if OLD.category(chr(lower)) == "Cn" else lower - code


def decomposition(code: int) -> tuple[int, ...]:
    if code in NOT_DECOMPOSED or code > LAST_DECOMPOSED or is_hangul(code):
        return ()
    text = OLD.normalize("NFKD", chr(code))
    return () if text == chr(code) else tuple(map(ord, text))


def composites() -> Iterator[tuple[int, int, int]]:
    for code in range(0x10000):
        parts = OLD.decomposition(chr(code)).split()
        if len(parts) == 2 and "<" not in parts[0]:
            first, second = (chr(int(part, 16)) for part in parts)
            if code in EXTRA_COMPOSITES or OLD.normalize("NFC", first + second) == chr(code):
                yield ord(first), ord(second), code


def two_levels(values: Sequence[int]) -> tuple[list[int], list[int]]:
    """Cuts values into blocks. Returns the number of each block among the distinct blocks, and the distinct blocks."""
    blocks: dict[tuple[int, ...], int] = {}
    index = []
    for at in range(0, len(values), BLOCK):
        index.append(blocks.setdefault(tuple(values[at : at + BLOCK]), len(blocks)))
    return index, [value for block in blocks for value in block]


def tables() -> Iterator[array[int]]:
    deltas = sorted({fold(code) for code in range(END)}, key=lambda delta: (delta != 0, delta))
    folds = [deltas.index(fold(code)) for code in range(END)]
    classes = [OLD.combining(chr(code)) for code in range(END)]
    starts: dict[tuple[int, ...], int] = {(): 0}
    pool = [0]
    for parts in map(decomposition, range(END)):
        if parts not in starts:
            starts[parts] = len(pool)
            pool += [len(parts), *parts]
    decompositions = [starts[decomposition(code)] for code in range(END)]
    assert len(pool) < 65536
    assert len(deltas) < 256
    fold_index, fold_blocks = two_levels(folds)
    class_index, class_blocks = two_levels(classes)
    decomposition_index, decomposition_blocks = two_levels(decompositions)
    yield array("B", fold_index)
    yield array("B", fold_blocks)
    yield array("i", deltas)
    yield array("B", class_index)
    yield array("B", class_blocks)
    yield array("B", decomposition_index)
    yield array("H", decomposition_blocks)
    yield array("I", pool)
    yield array("Q", [first << 32 | second << 16 | composite for first, second, composite in sorted(composites())])


def content() -> bytes:
    """Returns the arrays of src/text/tables.rs, in the order in which that file declares them."""
    found = list(tables())
    if sys.byteorder == "big":
        for one in found:
            one.byteswap()
    return b"".join(map(bytes, found))


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(0 if OUTPUT.read_bytes() == content() else f"{OUTPUT} is not current")
    OUTPUT.write_bytes(content())
