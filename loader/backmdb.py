"""The settings of slapd that decide the contents of a back-mdb database (slapd-mdb(5), slapd.conf(5)).

The data file does not record these settings: slapd assumes that its keys were written under the present configuration.
So ditseed refuses every setting whose effect on the file is unknown. `slapd_settings.txt` lists the settings of
OpenLDAP 2.4 to 2.7 with their effects; a test compares it with the schema of each installed slapd.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NoReturn, TypedDict

from msgspec import Struct

from loader import indexes
from loader.config import NOT_SETTINGS, Config, Database, Entry, Values, suffixes_below
from loader.errors import NotProven, SettingRefused

IDLEXP = 16  # default and minimum of idlexp (back-mdb/idl.h)
INTLEN, LONGEST_INTLEN = 4, 255  # index_intlen in bytes: default and minimum; maximum (slap.h, bconfig.c)
SUBSTR = {"olcIndexSubstrIfMinLen": 2, "olcIndexSubstrIfMaxLen": 4, "olcIndexSubstrAnyLen": 4}  # bytes (slap.h)
OPTIONS = ("lang-",)  # default of olcAttributeOptions (ad.c)
PAGE_SIZE = 4096  # bytes; without `dbpagesize`, LMDB uses the machine's page size
NO_LIMIT = 2**32 - 1  # the number in olcDbMultival that means no limit

FRONTEND = "olcDatabase={-1}frontend,cn=config"

Kind = Literal["pres", "eq", "approx", "sub"]

# slapd/index.c. Every kind of substring index creates all substring keys. notags and the like only affect searches.
_KINDS = {
    **{kind: kind for kind in ("pres", "eq", "approx")},
    **dict.fromkeys(("sub", "substr", "subinitial", "subany", "subfinal"), "sub"),
    **dict.fromkeys(("notags", "nolang", "nosubtypes"), ""),
}
_ORDER: tuple[Kind, ...] = ("pres", "eq", "approx", "sub")
Index = tuple[str, tuple[Kind, ...]]  # attribute description, kinds in the order of _ORDER


class Settings(Struct, frozen=True):
    """The settings of one database, with slapd's defaults for those that the configuration leaves out."""

    suffixes: tuple[str, ...]
    foreign: tuple[str, ...]  # suffixes of other databases, each below one of `suffixes`
    root_dn: str | None
    indexes: tuple[Index, ...]
    hash64: bool
    intlen: int  # bytes
    substr: tuple[int, int, int]  # bytes: if_minlen, if_maxlen, any_len
    multival: tuple[tuple[str, int], ...]  # attribute description or "default", maximum number of values in id2e
    sortvals: tuple[str, ...]
    idlexp: int
    max_entry_size: int  # bytes; 0: no limit
    last_mod: bool
    translucent: bool  # slapo-translucent(5): entries are fragments of remote entries
    subentry: bool  # contextCSN is in a separate entry (sync_use_subentry)
    attribute_options: tuple[str, ...]
    of_2_7: bool  # OpenLDAP 2.7 or later, with LMDB 1.0
    page_size: int  # bytes

    @property
    def attributes(self) -> tuple[str, ...]:
        """All attribute descriptions named by the settings, without duplicates."""
        names = [name for name, _ in (*self.indexes, *self.multival)] + list(self.sortvals)
        return tuple(name for name in dict.fromkeys(names) if name != indexes.DEFAULT)


def has_subentry(config: Config, database: Database) -> bool:
    """Returns whether slapd keeps contextCSN in a separate entry (`sync_use_subentry`), not in the suffix entry."""
    return config.reader(database.entry_dn).flag("olcSyncUseSubentry", False)


def settings(config: Config, database: Database, superior: Database | None = None, of_2_7: bool = False) -> Settings:
    """Returns the settings of `database`. `superior`: in a glued tree, the database that slapadd -b names. Its
    rootdn and lastmod apply (slapadd.c, getrec0). Raises NotProven for words that no slapd up to 2.7 accepts."""
    values, common = config.reader(database.entry_dn), config.reader("cn=config", FRONTEND)
    base = superior or database
    if_min, if_max, any_len = (common.number(name, size) for name, size in SUBSTR.items())
    # An empty value of olcAttributeOptions removes the default options.
    options = _all_words(common, "olcAttributeOptions")
    return Settings(
        suffixes=database.suffixes,
        foreign=tuple(suffixes_below(config, database)),
        root_dn=base.root_dn,
        indexes=tuple(_indexes(database, of_2_7)),
        hash64=common.flag("olcIndexHash64", of_2_7),
        intlen=min(max(common.number("olcIndexIntLen", INTLEN), INTLEN), LONGEST_INTLEN),
        substr=(if_min, if_max, any_len),
        multival=tuple(_multival(values)),
        sortvals=_all_words(common, "olcSortVals"),
        idlexp=idlexp(config),
        max_entry_size=values.number("olcDbMaxEntrySize", 0),
        last_mod=config.reader(base.entry_dn).flag("olcLastMod", True),
        translucent="translucent" in database.overlays,
        subentry=has_subentry(config, database),
        attribute_options=options if common.stored("olcAttributeOptions") else OPTIONS,
        of_2_7=of_2_7,
        page_size=values.number("olcDbPageSize", PAGE_SIZE) or PAGE_SIZE,
    )


def _indexes(database: Database, of_2_7: bool) -> Iterator[Index]:
    configured = indexes.configured(database.indexes)
    for index in configured.values():
        kinds = {kind_of(index.attribute, kind) for kind in index.kinds}
        yield index.attribute, tuple(kind for kind in _ORDER if kind in kinds)
    if of_2_7 and "objectclass" not in configured:  # slapd 2.7 adds this index (mdb_db_open)
        yield "objectClass", ("eq",)


def kind_of(attribute: str, word: str) -> str:
    """Returns the kind of index for a word of olcDbIndex, or "" if it affects only searches. Raises NotProven."""
    try:
        return _KINDS[word.lower()]
    except KeyError:
        raise NotProven(reason=f"index {attribute} {word}: an unknown kind of index") from None


def _all_words(values: Values, name: str) -> tuple[str, ...]:
    return tuple(word for value in values.words(name) for word in value)


def _multival(own: Values) -> Iterator[tuple[str, int]]:
    """Yields ("member", 100) and ("owner", 100) for "member,owner 100,50": more than 100 values are stored in id2v."""
    for names, limits in own.pairs("olcDbMultival"):
        match = re.match(r"\+?([0-9]+),", limits)
        if not match:
            raise NotProven(reason=f"multival {names} {limits}: not two numbers")
        high = int(match[1]) & NO_LIMIT  # slapd assigns the result of strtoul to an unsigned int
        yield from ((name, high) for name in names.split(",") if name and high != NO_LIMIT)


def idlexp(config: Config) -> int:
    """Returns the idlexp that applies to all databases: an index key lists up to 2^idlexp - 1 entry IDs."""
    name = next((name for name, _ in config.entries if _BACKEND.fullmatch(name)), None)
    return IDLEXP if name is None else config.reader(name).number("olcBkMdbIdlExp", IDLEXP)


# --- the settings of cn=config and their effects ---------------------------------------------------

STORED, TOOLS, ENCRYPTS = "stored", "tools", "encrypts"  # words in slapd_settings.txt for the effect of a setting
_BACKEND = re.compile(r"olcBackend=(\{-?\d+\})?mdb,cn=config", re.IGNORECASE)
_PAGE_SIZES = (0, 4096, 8192, 16384, 32768, 65536)  # bytes; 0: the machine's page size
_REMOVE_SETTING = (
    "If it does not change what slapd stores, give --config a copy of the configuration without it. Otherwise load "
    "with slapadd itself."
)
_USE_SLAPADD = "Load with slapadd of that OpenLDAP itself."


@cache
def effects() -> dict[str, dict[str, str]]:
    """Maps object classes of cn=config to their settings, and each setting to its effect (slapd_settings.txt)."""
    classes: dict[str, dict[str, str]] = {}
    for line in Path(__file__).with_name("slapd_settings.txt").read_text().splitlines():
        if not line.startswith("#"):
            object_class, name, effect, *_ = line.split()
            classes.setdefault(object_class, {})[name] = effect
    return classes


def tool_settings(*object_classes: str) -> tuple[str, ...]:
    """Of the settings of these object classes, returns those that affect what slapadd and slapindex store."""
    of_classes = (effects()[name].items() for name in object_classes)
    return tuple(name for settings in of_classes for name, effect in settings if effect in (STORED, TOOLS))


def require_supported(config: Config, *databases: Database) -> None:
    """Raises SettingRefused for an unsupported setting that may affect the contents of these databases."""
    dns = {database.entry_dn.lower() for database in databases}
    for entry_dn, attributes in config.entries:
        classes = _classes(entry_dn, dns)
        effect_of = {name.lower(): effect for kind in classes for name, effect in effects()[kind].items()}
        for name in attributes if effect_of else ():
            if effect_of.get(name.lower()) == ENCRYPTS:
                _refuse(config, entry_dn, name, "so slapd opens only data files that it has encrypted", _USE_SLAPADD)
            if name.lower() not in effect_of.keys() | NOT_SETTINGS | {"objectclass"}:
                _refuse(config, entry_dn, name, "which is not a setting of OpenLDAP 2.4 to 2.7", _REMOVE_SETTING)
    for database in databases:
        size = config.reader(database.entry_dn).number("olcDbPageSize", 0)
        if size not in _PAGE_SIZES:
            reason = f"{size} bytes; ditseed supports powers of 2 from 4096 to 65536"
            _refuse(config, database.entry_dn, "olcDbPageSize", reason, _USE_SLAPADD)


def _refuse(config: Config, entry_dn: str, name: str, reason: str, advice: str) -> NoReturn:
    raise SettingRefused(config=config.where, entry=entry_dn, attribute=name, reason=reason, advice=advice)


def _classes(entry_dn: str, databases: set[str]) -> tuple[str, ...]:
    """Returns the object classes that an entry of cn=config may have; none if the entry does not affect `databases`."""
    entry_dn = re.sub(r"(^|,)olcdatabase=frontend,", r"\1olcdatabase={-1}frontend,", entry_dn.lower())
    first, _, parent = entry_dn.partition(",")
    if entry_dn in ("cn=config", FRONTEND.lower()):
        return ("olcGlobal", "olcDatabaseConfig", "olcFrontendConfig")
    if entry_dn in databases:
        return ("olcDatabaseConfig", "olcMdbConfig")
    if first.startswith("olcoverlay=") and parent in {*databases, FRONTEND.lower()}:
        overlays = (name for name, settings in effects().items() if STORED not in settings.values())
        return tuple(name for name in overlays if name != "olcBackendConfig")
    return ("olcBackendConfig", "olcMdbBkConfig") if _BACKEND.fullmatch(entry_dn) else ()


# --- the schema of a configuration: its definitions, each after those that it uses --------------------

ROOT = "cn=schema,cn=config"  # the compiled-in schema; the entries below it are schema files

_NAMES = re.compile(r"\(\s*(?P<oid>\S+)(?:\s+NAME\s+(?P<names>'[^']*'|\([^)]*\)))?", re.IGNORECASE)
DefinitionKind = Literal["macro", "syntax", "attribute", "class", "rule"]
Definition = tuple[DefinitionKind, str, bool]  # kind, text as in cn=config, whether slapd has it compiled in

_DEFINITIONS: dict[str, DefinitionKind] = {
    "olcObjectIdentifier": "macro",
    "olcLdapSyntaxes": "syntax",
    "olcAttributeTypes": "attribute",
    "olcObjectClasses": "class",
    "olcDitContentRules": "rule",
}
DEFINITIONS = tuple(_DEFINITIONS)


class Effects(TypedDict):
    """Effects of overlays on the schema, as arguments of `loader.sinks.mdb.schema`."""

    dynamic_objects: bool
    password_policy: bool


def schema_effects(config: Config, database: Database) -> Effects:
    """Returns the effects of overlays. slapo-dds allows dynamic objects in its own database. slapo-ppolicy changes
    pwdAttribute for all databases: in 2.4 if the overlay is configured, since 2.5 if its module is loaded."""
    overlays = [name.partition(",")[0].lower() for name, _ in config.entries]
    policy = any(re.fullmatch(r"olcoverlay=(\{-?\d+\})?ppolicy", name) for name in overlays)
    return {"dynamic_objects": "dds" in database.overlays, "password_policy": policy}


def definitions(config: Config, compiled_in: Sequence[Entry]) -> list[Definition]:
    """Returns the definitions that are compiled in, then those in the entry cn=config, then those of schema files.
    `compiled_in`: cn=schema,cn=config of the installed slapd. slapd ignores this entry in a slapd.d (cfAddSchema)."""
    of_cn_config = (entry for entry in config.entries if entry[0].lower() == "cn=config")
    of_files = (entry for entry in config.entries if entry[0].lower().endswith("," + ROOT))
    return [*_parsed(compiled_in, True), *_parsed(of_cn_config, False), *_parsed(of_files, False)]


def synonyms(schema: Iterable[Definition], used: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields each name in `used` (in lower case) for whose attribute type an earlier name was used, and this earlier
    name. An OID counts as a name if the definition has it in digits."""
    types = {name: oid for _, names, oid in _attribute_types(schema) for name in (*names, oid.lower())}
    first: dict[str, str] = {}  # OID -> the first name that is used for it
    for name in used:
        earlier = first.setdefault(types.get(name, name), name)
        if earlier != name:
            yield name, earlier


def protected(schema: Iterable[Definition]) -> Iterator[str]:
    """Yields the names, in lower case, of attributes that no client may write (NO-USER-MODIFICATION, RFC 4512)."""
    for text, names, _ in _attribute_types(schema):
        if "NO-USER-MODIFICATION" in re.sub(r"'[^']*'", "", text).split():
            yield from names


def _attribute_types(schema: Iterable[Definition]) -> Iterator[tuple[str, list[str], str]]:
    """Yields, for each attribute type, its text, its names in lower case, and its OID (digits or a macro)."""
    for kind, text, _ in schema:
        if kind == "attribute" and (match := _NAMES.match(text)):
            yield text, re.findall(r"'([^']*)'", (match["names"] or "").lower()), match["oid"]


def _parsed(entries: Iterable[Entry], compiled_in: bool) -> Iterator[Definition]:
    """Yields the definitions of each entry, first its OID macros, which its other definitions may use."""
    for _, attributes in entries:
        lowered = {name.lower(): values for name, values in attributes.items()}
        for attribute, kind in _DEFINITIONS.items():
            for value in lowered.get(attribute.lower(), ()):
                # Only a DESC can contain bytes that are not UTF-8.
                yield kind, re.sub(r"^\{\d+\}", "", value.decode(errors="replace")), compiled_in
