"""What of slapd's configuration decides what stands in a back-mdb database (slapd-mdb(5), slapd.conf(5)).

Nothing of it is noted in the file: slapd trusts that keys were made as its configuration says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from loader import config as glue
from loader import indexes
from loader.config import Config, Database
from loader.errors import NotProven
from loader.values import Values

IDLEXP = 16  # back-mdb/idl.h; the least, too
INTLEN, LONGEST_INTLEN = 4, 255  # slap.h, bconfig.c
SUBSTR = (2, 4, 4)  # slap.h: if_minlen, if_maxlen, any_len
OPTIONS = ("lang-",)  # ad.c
PAGE_SIZE = 4096  # LMDB takes the machine's, if `dbpagesize` says nothing
NO_LIMIT = 2**32 - 1  # of multival

FRONTEND = "olcDatabase={-1}frontend,cn=config"

Kind = Literal["pres", "eq", "approx", "sub"]

# slapd/index.c. Every kind of substring index makes all substring keys; the last three change searches alone.
_KINDS = {
    **{kind: kind for kind in ("pres", "eq", "approx")},
    **dict.fromkeys(("sub", "substr", "subinitial", "subany", "subfinal"), "sub"),
    **dict.fromkeys(("notags", "nolang", "nosubtypes"), ""),
}
_ORDER: tuple[Kind, ...] = ("pres", "eq", "approx", "sub")
Index = tuple[str, tuple[Kind, ...]]  # attribute description, kinds in the order of _ORDER


@dataclass(frozen=True)
class Settings:
    """Of one database, with slapd's defaults where the configuration says nothing."""

    suffixes: tuple[str, ...]
    foreign: tuple[str, ...]  # suffixes below these that other databases have
    root_dn: str | None
    indexes: tuple[Index, ...]
    hash64: bool
    intlen: int  # bytes
    substr: tuple[int, int, int]  # bytes: if_minlen, if_maxlen, any_len
    multival: tuple[tuple[str, int], ...]  # attribute description or "default", values
    sortvals: tuple[str, ...]
    idlexp: int
    max_entry_size: int  # bytes; 0: no limit
    last_mod: bool
    translucent: bool  # slapo-translucent(5): entries are parts of remote ones
    subentry: bool  # contextCSN is kept in an entry of its own (sync_use_subentry)
    attribute_options: tuple[str, ...]
    of_2_7: bool  # OpenLDAP 2.7 or later, with LMDB 1.0
    page_size: int  # bytes

    @property
    def attributes(self) -> tuple[str, ...]:
        """All attribute descriptions that are named, each once."""
        named = [name for name, _ in (*self.indexes, *self.multival)] + list(self.sortvals)
        return tuple(name for name in dict.fromkeys(named) if name != indexes.DEFAULT)


def has_subentry(config: Config, database: Database) -> bool:
    """Is contextCSN looked for in an entry of its own (`sync_use_subentry`), and not in that of the suffix?"""
    return config.reader(database.entry_dn).flag("olcSyncUseSubentry", False)


def settings(config: Config, database: Database, superior: Database | None = None, of_2_7: bool = False) -> Settings:
    """`superior`: the database by whose name the entries are loaded (slapadd -b of a glued tree): that one's rootdn and
    lastmod count (slapadd.c, getrec0). Raises NotProven for words that no slapd up to 2.7 knows."""
    own, everywhere = config.reader(database.entry_dn), config.reader("cn=config", FRONTEND)
    named = superior or database
    return Settings(
        suffixes=database.suffixes,
        foreign=tuple(glue.suffixes_below(config, database)),
        root_dn=named.root_dn,
        indexes=tuple(_with_classes(_indexes(database)) if of_2_7 else _indexes(database)),
        hash64=everywhere.flag("olcIndexHash64", of_2_7),
        intlen=min(max(everywhere.number("olcIndexIntLen", INTLEN), INTLEN), LONGEST_INTLEN),
        substr=_substr(everywhere),
        multival=tuple(_multival(own)),
        sortvals=tuple(_all_words(everywhere, "olcSortVals")),
        idlexp=idlexp(config),
        max_entry_size=own.number("olcDbMaxEntrySize", 0),
        last_mod=config.reader(named.entry_dn).flag("olcLastMod", True),
        translucent="translucent" in database.overlays,
        subentry=has_subentry(config, database),
        attribute_options=tuple(_options(everywhere)),
        of_2_7=of_2_7,
        page_size=own.number("olcDbPageSize", PAGE_SIZE) or PAGE_SIZE,
    )


def _indexes(database: Database) -> Iterator[Index]:
    for index in indexes.configured(database.indexes).values():
        meant = {kind_of(index.attribute, kind) for kind in index.kinds}
        yield index.attribute, tuple(kind for kind in _ORDER if kind in meant)


def _with_classes(configured: Iterable[Index]) -> Iterator[Index]:
    """slapd 2.7 adds an index of objectClass where none is configured (mdb_db_open)."""
    found = list(configured)
    yield from found
    if not any(name.lower() == "objectclass" for name, _ in found):
        yield "objectClass", ("eq",)


def kind_of(attribute: str, word: str) -> str:
    """Of a word; empty for one that changes searches alone. Raises NotProven."""
    try:
        return _KINDS[word.lower()]
    except KeyError:
        raise NotProven(reason=f"index {attribute} {word}: an unknown kind of index") from None


def _all_words(found: Values, name: str) -> Iterator[str]:
    return (word for value in found.words(name) for word in value)


def _options(everywhere: Values) -> Iterable[str]:
    """A setting without a word takes away the default as well."""
    given = everywhere.stored("olcAttributeOptions")
    return _all_words(everywhere, "olcAttributeOptions") if given else OPTIONS


def _substr(everywhere: Values) -> tuple[int, int, int]:
    names = ("olcIndexSubstrIfMinLen", "olcIndexSubstrIfMaxLen", "olcIndexSubstrAnyLen")
    least, most, window = map(everywhere.number, names, SUBSTR)
    return least, most, window


def _multival(own: Values) -> Iterator[tuple[str, int]]:
    """Of "member,uniqueMember 100,50": from how many values on, exclusively, they are kept apart."""
    for names, limits in own.pairs("olcDbMultival"):
        found = re.match(r"\+?([0-9]+),", limits)
        if not found:
            raise NotProven(reason=f"multival {names} {limits}: not two numbers")
        high = int(found[1]) & NO_LIMIT  # strtoul into an unsigned int
        yield from ((name, high) for name in names.split(",") if name and high != NO_LIMIT)


def idlexp(config: Config) -> int:
    """Of all databases: up to 2^idlexp - 1 entry IDs of an index key are a list."""
    for name, _ in config.entries:
        if re.match(r"olcBackend=(\{-?\d+\})?mdb,cn=config$", name, re.IGNORECASE):
            return config.reader(name).number("olcBkMdbIdlExp", IDLEXP)
    return IDLEXP
