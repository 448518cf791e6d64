"""The schema of a configuration as the definitions it is made of, in an order in which each can be read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypedDict

from loader.config import Config, Database, Entry

ROOT = "cn=schema,cn=config"  # holds what is compiled into slapd and its modules; what is loaded stands below it

_NAMES = re.compile(r"\(\s*(?P<oid>\S+)(?:\s+NAME\s+(?P<names>'[^']*'|\([^)]*\)))?", re.IGNORECASE)
Kind = Literal["macro", "syntax", "attribute", "class", "rule"]
Definition = tuple[Kind, str, bool]  # text as in cn=config, whether it is compiled in

_KINDS: dict[str, Kind] = {
    "olcObjectIdentifier": "macro",
    "olcLdapSyntaxes": "syntax",
    "olcAttributeTypes": "attribute",
    "olcObjectClasses": "class",
    "olcDitContentRules": "rule",
}
DEFINITIONS = tuple(_KINDS)


class Effects(TypedDict):
    """What overlays change about the schema, as `loader.sinks.mdb.schema` wants it."""

    dynamic_objects: bool
    password_policy: bool


def effects(config: Config, database: Database) -> Effects:
    """slapo-dds lets its own database hold dynamic objects; slapo-ppolicy, on any database, changes pwdAttribute for
    all of them (in 2.4 when it is configured, since 2.5 when its module is loaded)."""
    overlays = [name.partition(",")[0].lower() for name, _ in config.entries]
    policy = any(re.fullmatch(r"olcoverlay=(\{-?\d+\})?ppolicy", one) for one in overlays)
    return {"dynamic_objects": "dds" in database.overlays, "password_policy": policy}


def definitions(config: Config, compiled_in: Sequence[Entry]) -> list[Definition]:
    """`compiled_in`: what cn=schema,cn=config holds in the slapd at hand.

    The entry of that name in a slapd.d is not asked: slapd does not read it either (bconfig.c, cfAddSchema), and it may
    be empty or of an earlier slapd. What a slapd.conf defines itself stands behind the files it included
    (conversion.py).
    """
    own = list(_of((one for one in config.entries if one[0].lower() == "cn=config"), False))
    loaded = _of((one for one in config.entries if one[0].lower().endswith("," + ROOT)), False)
    macros = [one for one in own if one[0] == "macro"]
    rest = [one for one in own if one[0] != "macro"]
    return [*_of(compiled_in, True), *macros, *rest, *loaded]


def synonyms(known: Iterable[Definition], used: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Of the names `used`, in lower case: those that mean the attribute type of an earlier one, and that one.

    An OID counts as a name where the definition spells it in digits.
    """
    types: dict[str, str] = {}  # name or OID -> OID, whatever its form
    for kind, text, _ in known:
        if kind == "attribute" and (found := _NAMES.match(text)):
            names = re.findall(r"'([^']*)'", found["names"] or "")
            types |= {name.lower(): found["oid"] for name in (*names, found["oid"])}
    first: dict[str, str] = {}  # OID -> the first of its names in use
    for name in used:
        main = first.setdefault(types.get(name, name), name)
        if main != name:
            yield name, main


def protected(known: Iterable[Definition]) -> Iterator[str]:
    """Names, in lower case, of attributes that a server takes from no client (NO-USER-MODIFICATION, RFC 4512)."""
    for kind, text, _ in known:
        words = re.sub(r"'[^']*'", "", text).split()
        if kind == "attribute" and "NO-USER-MODIFICATION" in words:
            found = _NAMES.match(text)
            yield from re.findall(r"'([^']*)'", ((found and found["names"]) or "").lower())


def _of(entries: Iterable[Entry], compiled_in: bool) -> Iterator[Definition]:
    for _, attributes in entries:
        found = {name.lower(): values for name, values in attributes.items()}
        for attribute, kind in _KINDS.items():
            for value in found.get(attribute.lower(), ()):
                # Only a DESC can hold what is no UTF-8.
                yield kind, re.sub(r"^\{\d+\}", "", value.decode(errors="replace")), compiled_in
