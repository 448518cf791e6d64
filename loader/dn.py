"""DNs as far as Python needs them: comparing suffixes, bases and names of entries, as slapd compares them.

The native core reads them; no schema is known here (`_native.dn_key` tells what that means).
"""

from __future__ import annotations

from loader import _native

_ERRORS = "surrogateescape"  # bytes of a command line that are no UTF-8


def key(dn: str) -> str:
    """Equal for equal DNs; "" for the empty DN. RDNs are joined by commas, and no value holds a bare one.

    What is no DN has a key as well, its text: it equals no DN's.
    """
    found = _native.dn_key(dn.encode("utf-8", _ERRORS))
    return dn.strip().lower() if found is None else found.decode("utf-8", _ERRORS)


def is_below(dn: str, base: str) -> bool:
    """Is `dn` the entry `base` or below it? Everything is within the empty DN."""
    inner, outer = key(dn), key(base)
    return inner == outer or outer == "" or inner.endswith("," + outer)


def parent(dn: str) -> str:
    """The DN above, as it is spelt; empty for one of a single RDN."""
    return _native.dn_parent(dn.encode("utf-8", _ERRORS)).decode("utf-8", _ERRORS)
