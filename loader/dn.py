"""DNs as far as Python needs them: comparing suffixes and bases. Entries' own DNs are the native core's business."""

from __future__ import annotations

import re

# Where a part ends; behind a backslash the character is part of a value (RFC 4514, 2.4).
_SEPARATOR = re.compile(r"\s*(?<!\\)([,=+;])\s*")

_RDN_AND_REST = re.compile(r"(?:\\.|[^\\,;])*[,;](.*)", re.DOTALL)


def key(dn: str) -> str:
    """A form in which equal suffixes are equal text: lower case, no spaces around separators."""
    # RFC 1779 wrote ";" for ","; libldap still reads it.
    return _SEPARATOR.sub(lambda found: found[1].replace(";", ","), dn.strip()).lower()


def within(dn: str, base: str) -> bool:
    """Is `dn` the entry `base` or below it?"""
    inner, outer = key(dn), key(base)
    if inner == outer or outer == "":
        return True
    return inner.endswith("," + outer) and not inner.endswith("\\," + outer)


def parent(dn: str) -> str:
    """The DN above; empty for one of a single RDN."""
    match = _RDN_AND_REST.match(dn)
    return match[1].lstrip() if match else ""
