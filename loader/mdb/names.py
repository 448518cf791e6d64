"""Names in a database: attribute numbers (ad2i), and suffixes (the children of dn2i's invisible root)."""

from __future__ import annotations

from pathlib import Path

from loader import dn
from loader.mdb import isolated
from loader.mdb.environment import ID, Environment, opened, require_table

ROOT = ID.pack(0)
_NO_INDEXES = {"ad2i", "dn2i", "id2e", "id2v", "ixck"}
_CHILD = 0x8000  # in the length of a child's record; unset in a node's own


@isolated.isolated
def attributes(place: Path) -> list[str]:
    """Attribute descriptions that entries in the database use, as the schema spells them."""
    with opened(place) as environment:
        names = require_table(environment, "ad2i")
        with environment.begin() as transaction:
            return [value.decode("ascii", "replace") for _, value in transaction.cursor(names)]


@isolated.isolated
def indexed(place: Path) -> list[str]:
    """Attribute types that have an index table, filled or empty."""
    with opened(place) as environment, environment.begin() as transaction:
        tables = [
            bytes(key).rstrip(b"\0").decode("ascii", "replace") for key, _ in transaction.cursor()
        ]
    return [name for name in tables if name not in _NO_INDEXES]


def attribute_number(environment: Environment, name: str) -> int | None:
    """The number that stands for an attribute description, as the schema spells it; None before its first use."""
    names = require_table(environment, "ad2i")
    with environment.begin() as transaction:
        for key, value in transaction.cursor(names):
            if value.decode("ascii", "replace").lower() == name.lower():
                return int.from_bytes(key, "little")
    return None


def suffixes(environment: Environment) -> dict[str, int]:
    """Suffix (normalised) -> entry ID. A suffix is one component in dn2i, however many RDNs it has."""
    nodes = require_table(environment, "dn2i")
    found: dict[str, int] = {}
    with environment.begin() as transaction:
        cursor = transaction.cursor(nodes)
        if not cursor.set_key(ROOT):
            return found
        for record in cursor.iternext_dup():
            length = int.from_bytes(record[:2], "big")
            if length & _CHILD:
                name = record[2 : 2 + (length & ~_CHILD)].decode("utf-8", "replace")
                found[name] = ID.unpack(record[-16:-8])[0]
    return found


def _has_root(environment: Environment) -> bool:
    """The entry of the empty DN is the root itself (`suffix ""`)."""
    entries = require_table(environment, "id2e")
    with environment.begin() as transaction:
        return transaction.get(ROOT, db=entries) is not None


def suffix_id(environment: Environment, suffix: str | None) -> int | None:
    """The entry ID of a suffix (None: of the only one); None when it is not there."""
    if (suffix is None or dn.key(suffix) == "") and _has_root(environment):
        return 0
    known = suffixes(environment)
    if suffix is None:
        return next(iter(known.values())) if len(known) == 1 else None
    return next((number for name, number in known.items() if dn.key(name) == dn.key(suffix)), None)
