#!/usr/bin/env python3
"""Writes src/text/tables.rs: the Unicode 3.2 facts that slapd's normaliser knows.

Run without arguments to write the file, with --check to see whether it is current.
Source: unicodedata.ucd_3_2_0 of Python, with the deviations of OpenLDAP's liblunicode:
no decomposition for U+F900, U+F901 and everything above U+1D60E (the bound of the search in
ucdata.c falls short of the table's end), and four composites that NFC excludes.
"""

import sys
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

OLD = unicodedata.ucd_3_2_0
OUTPUT = Path(__file__).parent / "src" / "text" / "tables.rs"
BLOCK = 64
LAST_DECOMPOSED = 0x1D60E
END = (LAST_DECOMPOSED // BLOCK + 1) * BLOCK
NOT_DECOMPOSED = {0xF900, 0xF901}
EXTRA_COMPOSITES = {0x0344, 0x0F73, 0x0F75, 0x0F81}


def is_hangul(code: int) -> bool:
    return 0xAC00 <= code <= 0xD7FF


def fold(code: int) -> int:
    """Distance to the lower-case letter, which has to exist in Unicode 3.2 too."""
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
    """Cuts values into blocks; equal blocks are kept once."""
    blocks: dict[tuple[int, ...], int] = {}
    index = []
    for at in range(0, len(values), BLOCK):
        index.append(blocks.setdefault(tuple(values[at : at + BLOCK]), len(blocks)))
    return index, [value for block in blocks for value in block]


def array(name: str, kind: str, values: Sequence[object], doc: str) -> str:
    lines = [f"/// {doc}", f"pub(super) static {name}: [{kind}; {len(values)}] = ["]
    line = "   "
    for text in map(str, values):
        if len(line) + len(text) > 97:
            lines.append(line)
            line = "   "
        line += f" {text},"
    return "\n".join([*lines, line, "];\n"])


def tables() -> Iterator[str]:
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
    pairs = sorted(composites())
    yield array("FOLD_INDEX", "u8", fold_index, "Block of 64 code points to block of `FOLDS`.")
    yield array("FOLDS", "u8", fold_blocks, "Place in `FOLD_DELTAS`.")
    yield array("FOLD_DELTAS", "i32", deltas, "Lower-case letter minus letter.")
    yield array("CLASS_INDEX", "u8", class_index, "Block of 64 code points to block of `CLASSES`.")
    yield array("CLASSES", "u8", class_blocks, "Canonical combining class.")
    yield array("PARTS_INDEX", "u8", decomposition_index, "Block of 64 code points to block of `PARTS`.")
    yield array("PARTS", "u16", decomposition_blocks, "Place in `POOL`, 0 for none.")
    yield array("POOL", "u32", pool, "Full compatibility decompositions, each behind its length.")
    yield array(
        "COMPOSITES", "(u16, u16, u16)", [f"({a}, {b}, {c})" for a, b, c in pairs], "First, second, composite; sorted."
    )


def source() -> str:
    head = "//! Unicode 3.2 as slapd knows it. Written by `make_tables.py`; do not edit.\n"
    return "\n".join([head, *(f"#[rustfmt::skip]\n{table}" for table in tables())])


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(0 if OUTPUT.read_text() == source() else f"{OUTPUT} is not current")
    OUTPUT.write_text(source())
