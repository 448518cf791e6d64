"""Compares DNs (suffixes, bases and names of entries) as slapd compares them.

The native core parses the DNs, without a schema; `_native.dn_key` documents the consequences.
"""

from __future__ import annotations

from loader import _native

_ERRORS = "surrogateescape"  # keeps the bytes of a command line that are not UTF-8


def key(dn: str) -> str:
    """Returns the same text for equal DNs, "" for the empty DN. Every comma in this text separates two RDNs.

    For a text that is not a DN, returns it in lower case, which differs from the key of every DN."""
    normalized = _native.dn_key(dn.encode("utf-8", _ERRORS))
    return dn.strip().lower() if normalized is None else normalized.decode("utf-8", _ERRORS)


def is_below(dn: str, base: str) -> bool:
    """Returns whether `dn` equals `base` or is below it. Every DN is below the empty DN."""
    inner, outer = key(dn), key(base)
    return inner == outer or outer == "" or inner.endswith("," + outer)


def parent(dn: str) -> str:
    """Returns the parent DN in its original spelling; empty for a DN of one RDN."""
    return _native.dn_parent(dn.encode("utf-8", _ERRORS)).decode("utf-8", _ERRORS)
