"""DNs as far as Python needs them: comparing suffixes and bases. Entries' own DNs are the native core's business."""

from __future__ import annotations

import re

_SPACES = re.compile(r"\s*([,=+;])\s*")


def key(dn: str) -> str:
    """A form in which equal suffixes are equal text: lower case, no spaces around separators."""
    return _SPACES.sub(r"\1", dn.strip()).replace(";", ",").lower()


def within(dn: str, base: str) -> bool:
    """Is `dn` the entry `base` or below it?"""
    inner, outer = key(dn), key(base)
    return inner == outer or outer == "" or inner.endswith("," + outer)
