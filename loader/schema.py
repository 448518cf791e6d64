"""The schema of a configuration as a list of definitions, each after those that it depends on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypedDict

from loader.config import Config, Database, Entry

ROOT = "cn=schema,cn=config"  # has the compiled-in schema; entries below it have loaded schema files

_NAMES = re.compile(r"\(\s*(?P<oid>\S+)(?:\s+NAME\s+(?P<names>'[^']*'|\([^)]*\)))?", re.IGNORECASE)
Kind = Literal["macro", "syntax", "attribute", "class", "rule"]
Definition = tuple[Kind, str, bool]  # kind, text as in cn=config, whether it is compiled in

_KINDS: dict[str, Kind] = {
    "olcObjectIdentifier": "macro",
    "olcLdapSyntaxes": "syntax",
    "olcAttributeTypes": "attribute",
    "olcObjectClasses": "class",
    "olcDitContentRules": "rule",
}
DEFINITIONS = tuple(_KINDS)


class Effects(TypedDict):
    """Changes to the schema by overlays, as arguments for `loader.sinks.mdb.schema`."""

    dynamic_objects: bool
    password_policy: bool


def effects(config: Config, database: Database) -> Effects:
    """Returns the effects of overlays. slapo-dds allows dynamic objects in its own database. slapo-ppolicy changes
    pwdAttribute for all databases (in 2.4 if it is configured, since 2.5 as soon as its module is loaded)."""
    overlays = [name.partition(",")[0].lower() for name, _ in config.entries]
    policy = any(re.fullmatch(r"olcoverlay=(\{-?\d+\})?ppolicy", one) for one in overlays)
    return {"dynamic_objects": "dds" in database.overlays, "password_policy": policy}


def definitions(config: Config, compiled_in: Sequence[Entry]) -> list[Definition]:
    """Returns all definitions. `compiled_in`: the entry cn=schema,cn=config of the installed slapd, since slapd does
    not read that of a slapd.d (bconfig.c, cfAddSchema). Definitions in a slapd.conf itself come after included ones."""
    own = list(_of((one for one in config.entries if one[0].lower() == "cn=config"), False))
    loaded = _of((one for one in config.entries if one[0].lower().endswith("," + ROOT)), False)
    macros = [one for one in own if one[0] == "macro"]
    rest = [one for one in own if one[0] != "macro"]
    return [*_of(compiled_in, True), *macros, *rest, *loaded]


def synonyms(known: Iterable[Definition], used: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields (name, earlier name) for each name in `used` (lower case) that means the same attribute type as an earlier
    one. An OID counts as a name if the definition has it in digits."""
    types = {name: oid for _, names, oid in _attributes(known) for name in (*names, oid.lower())}
    first: dict[str, str] = {}  # OID -> the first of its names in use
    for name in used:
        main = first.setdefault(types.get(name, name), name)
        if main != name:
            yield name, main


def protected(known: Iterable[Definition]) -> Iterator[str]:
    """Yields the names, in lower case, of attributes that no client may write (NO-USER-MODIFICATION, RFC 4512)."""
    for text, names, _ in _attributes(known):
        if "NO-USER-MODIFICATION" in re.sub(r"'[^']*'", "", text).split():
            yield from names


def _attributes(known: Iterable[Definition]) -> Iterator[tuple[str, list[str], str]]:
    """Yields text, names in lower case, and OID (whatever its form) of each attribute type."""
    for kind, text, _ in known:
        if kind == "attribute" and (match := _NAMES.match(text)):
            yield text, re.findall(r"'([^']*)'", (match["names"] or "").lower()), match["oid"]


def _of(entries: Iterable[Entry], compiled_in: bool) -> Iterator[Definition]:
    for _, attributes in entries:
        found = {name.lower(): values for name, values in attributes.items()}
        for attribute, kind in _KINDS.items():
            for value in found.get(attribute.lower(), ()):
                # Only a DESC can contain bytes that are not UTF-8.
                yield kind, re.sub(r"^\{\d+\}", "", value.decode(errors="replace")), compiled_in
