"""Small questions to a server through python-ldap: single entries, the first of many, and the trees that it holds.
Entries by the million go through wire.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import ldap
import ldap.filter
import msgspec
from ldap.controls import RequestControl, SimplePagedResultsControl
from ldap.controls.simple import ManageDSAITControl

from loader import csn, dn
from loader.errors import LimitTooLow, NoContextCSN, NoSuchBase, ServerRefused
from loader.server import limits
from loader.server.options import SUBENTRIES, Connection, Search

Attributes = dict[str, list[bytes]]  # names in lower case
Result = TypeVar("Result")

LIMITS_MET = (ldap.SIZELIMIT_EXCEEDED, ldap.TIMELIMIT_EXCEEDED, ldap.ADMINLIMIT_EXCEEDED)
_PAGE = 1000  # entries
_OVER = 2  # times the size limit that was asked for: a server that sends so many minds none
# slapo-valsort(5): values as they are stored. A server without the overlay ignores it.
_UNSORTED = RequestControl("1.3.6.1.4.1.4203.666.5.14", False, b"\x30\x03\x01\x01\xff")
_AS_STORED = [ManageDSAITControl(), _UNSORTED]
_VISIBLE = RequestControl(SUBENTRIES, True, b"\x01\x01\xff")  # BOOLEAN TRUE in BER
_SCOPES = {
    "base": ldap.SCOPE_BASE,
    "one": ldap.SCOPE_ONELEVEL,
    "sub": ldap.SCOPE_SUBTREE,
    "children": ldap.SCOPE_SUBORDINATE,
}


class Searches(ABC):
    """What may be asked on libldap's connection. Every error of libldap leaves `_asking` as one of ours."""

    _ldap: Any

    @abstractmethod
    def _asking(self, operation: str, ask: Callable[[], Result], base: str = "", limit: float | None = None) -> Result:
        """Raises LoaderError."""

    def read(self, dn: str, attributes: Sequence[str] = ("*", "+"), where: str = "(objectClass=*)") -> Attributes:
        """One entry, a referral object too. Raises NoSuchBase."""
        found = self._asking(
            f"read {dn}",
            lambda: self._ldap.search_ext_s(dn, ldap.SCOPE_BASE, where, list(attributes), serverctrls=_AS_STORED),
            dn,
        )
        return {name.lower(): values for name, values in found[0][1].items()} if found else {}

    def spelt(self, dn: str) -> str:
        """The name of an entry, a referral object too, as the server writes it. Raises NoSuchBase."""
        asked = (dn, ldap.SCOPE_BASE, "(objectClass=*)", ["1.1"])
        controls = [ManageDSAITControl()]
        found = self._asking(f"read {dn}", lambda: self._ldap.search_ext_s(*asked, serverctrls=controls), dn)
        return str(found[0][0]) if found else dn

    def find(
        self,
        base: str,
        where: str,
        attributes: Sequence[str] = ("1.1",),
        scope: int = ldap.SCOPE_SUBTREE,
        subentries: bool = False,
    ) -> list[tuple[str, Attributes]]:
        """The few entries (or subentries) that match; not for bulk."""
        controls = [*_AS_STORED, *([_VISIBLE] if subentries else [])]
        found = self._asking(
            f"search {base}",
            lambda: self._ldap.search_ext_s(base, scope, where, list(attributes), serverctrls=controls),
            base,
        )
        return [_lowered(dn, entry) for dn, entry in found if dn]

    def each_name(self, base: str, subentries: bool = False) -> Iterator[str]:
        """The DNs of a subtree, page after page; of its subentries alone, if they are wanted. Raises NoSuchBase."""
        paging = SimplePagedResultsControl(True, size=_PAGE, cookie="")
        controls = [*_AS_STORED, *([_VISIBLE] if subentries else []), paging]
        asked = (base, ldap.SCOPE_SUBTREE, "(objectClass=*)", ["1.1"])
        while True:
            found, answer = self._asking(f"search {base}", lambda: self._page(asked, controls), base)
            yield from found
            told = [one for one in answer if one.controlType == paging.controlType]
            if not told or not told[0].cookie:
                return
            paging.cookie = told[0].cookie

    def _page(self, asked: tuple[Any, ...], controls: list[Any]) -> tuple[list[str], list[Any]]:
        message = self._ldap.search_ext(*asked, serverctrls=controls)
        _, entries, _, answer = self._ldap.result3(message)
        return [dn for dn, _ in entries if dn], answer

    def first(
        self, base: str, limit: int, attributes: Sequence[str], where: str = "(objectClass=*)", seconds: int = -1
    ) -> tuple[list[tuple[str, Attributes]], bool]:
        """The first `limit` entries of a subtree that match, and whether these are all. `seconds`: that the server may
        look for them. Raises NoSuchBase, LimitTooLow (when not even one is shown)."""
        found: list[tuple[str, Attributes]] = []

        def collect() -> bool:
            asked = (base, ldap.SCOPE_SUBTREE, where, list(attributes))
            message = self._ldap.search_ext(*asked, serverctrls=_AS_STORED, timeout=seconds, sizelimit=limit)
            try:
                while True:
                    kind, entries = self._ldap.result(message, all=0)[:2]
                    if kind == ldap.RES_SEARCH_RESULT:
                        return True
                    found.extend(_lowered(dn, entry) for dn, entry in entries if dn)
                    if len(found) >= _OVER * limit:
                        # It minds no size limit, and would send all that it has.
                        self._ldap.abandon_ext(message)
                        del found[limit:]
                        return False
            except LIMITS_MET:
                if not found:
                    raise
                return False

        return found, self._asking(f"search {base}", collect, base)

    def require_shown(self, asked: Search, entries: int) -> None:
        """Begin the search and see whether the server goes on to show `entries` of them, or all that there are. Their
        attributes are not asked for, and whatever limits the server has apply. Raises LimitTooLow."""
        base = asked.base
        self._asking(f"search {base}", lambda: _looked_through(self._ldap, asked, entries), base)

    def matches(self, dn: str, where: str) -> bool:
        """Is the filter true of this entry?"""
        found = self._asking(
            f"read {dn}",
            lambda: self._ldap.search_ext_s(dn, ldap.SCOPE_BASE, where, ["1.1"], serverctrls=_AS_STORED),
            dn,
        )
        return any(name is not None for name, _ in found)

    def exists(self, dn: str) -> bool:
        """Is there such an entry, as far as we are allowed to know?"""
        try:
            self.read(dn, ["1.1"])
        except NoSuchBase:
            return False
        return True

    def children_with_children(self, base: str) -> list[str]:
        """DNs one level below `base` that have entries below them."""
        found = self.find(base, "(hasSubordinates=TRUE)", scope=ldap.SCOPE_ONELEVEL)
        return [dn for dn, _ in found]


def _looked_through(handle: Any, asked: Search, entries: int) -> None:
    """Page after page, if it is to be read in pages; given up once enough was shown."""
    paging = SimplePagedResultsControl(True, size=asked.page, cookie="")
    controls = [*_AS_STORED, *([paging] if asked.page else [])]
    seen = 0
    while seen < entries:
        message = handle.search_ext(asked.base, _SCOPES[asked.scope], asked.where, ["1.1"], serverctrls=controls)
        kind, answer = None, []
        while kind != ldap.RES_SEARCH_RESULT and seen < entries:
            kind, found, _, answer = handle.result3(message, all=0)
            seen += len(found)
        if kind != ldap.RES_SEARCH_RESULT:
            handle.abandon(message)
        told = [one for one in answer if one.controlType == paging.controlType]
        if not told or not told[0].cookie:
            return
        paging.cookie = told[0].cookie


def first_value(entry: Mapping[str, Collection[bytes]], name: str) -> str:
    """The only value of an attribute, or its first; "" without any."""
    return next(iter(entry.get(name, ())), b"").decode("utf-8", "replace")


def _lowered(dn: str, entry: dict[str, list[bytes]]) -> tuple[str, Attributes]:
    return dn, {name.lower(): values for name, values in entry.items()}


# --- suffixes --------------------------------------------------------------------------------------------------------
#
# What a server says of the trees that it holds.


_ENTRIES, _MOST, _USED = "olmMDBEntries", "olmMDBPagesMax", "olmMDBPagesUsed"


class MapPages(msgspec.Struct, frozen=True):
    """Of a database, as slapd's monitor counts them. `most`: pages of its map. `used`: up to the last page ever used,
    free ones among them."""

    most: int
    used: int


def _add_syncprov(uri: str, suffix: str) -> Iterator[str]:
    modify = f"ldapmodify {limits.external(uri)}"
    yield limits.find_database(uri, suffix)
    yield "# This is refused, which does no harm, where slapd has loaded syncprov already:"
    yield f"{modify} <<'EOF' || true"
    yield from ("dn: cn=module{0},cn=config", "changetype: modify", "add: olcModuleLoad")
    yield from ("olcModuleLoad: syncprov", "EOF")
    classes = "objectClass: olcOverlayConfig\\nobjectClass: olcSyncProvConfig\\nolcOverlay: syncprov\\n"
    yield f"printf 'dn: olcOverlay=syncprov,%s\\nchangetype: add\\n{classes}' \"$DB\" | {modify}"
    yield "# Where it runs on a slapd.conf: `moduleload syncprov`, and `overlay syncprov` in that database; restart it."


class Suffixes(Searches):
    connection: Connection
    uri: str

    def naming_contexts(self) -> list[str]:
        found = self.read("", ["namingContexts"]).get("namingcontexts", [])
        return [value.decode() for value in found]

    def context_of(self, base: str) -> str:
        """The naming context that holds `base`; `base` itself where none is shown."""
        found = (one for one in self.naming_contexts() if dn.is_below(base, one))
        return next(found, base)

    def context_csns(self, suffix: str) -> list[str]:
        """contextCSN of a suffix, one value for each server ID. Raises NoContextCSN."""
        values = self.shown_csns(suffix)
        if not values:
            advice = (
                "Let the account read contextCSN (olcAccess). If the database lacks the syncprov overlay, add that: "
                "paste this into a shell of root on the server's host."
            )
            lines = tuple(_add_syncprov(self.uri, suffix))
            raise NoContextCSN(where=self.uri, suffix=suffix, advice=advice, commands=lines)
        return values

    def shown_csns(self, suffix: str) -> list[str]:
        """The same; empty where there is none, or none that the account may read."""
        values = self.read(suffix, ["contextCSN"]).get("contextcsn", [])
        return sorted(csn.by_server(value.decode() for value in values).values())

    def base(self) -> str:
        """The base to search: -b, else BASE of ldap.conf, else the server's only suffix."""
        chosen = self.connection.base
        if chosen is None:
            chosen = ldap.get_option(ldap.OPT_DEFBASE)
        if chosen is not None:
            return str(chosen)
        contexts = self.naming_contexts()
        if len(contexts) == 1:
            return contexts[0]
        base, who = "(none given; use -b)", self.connection.who
        raise NoSuchBase(uri=self.uri, base=base, who=who, known=", ".join(contexts))

    def counted(self, base: str) -> int | None:
        """Entries in the database whose suffix is `base`, as slapd's monitor counts them (2.5 and later); None when it
        does not tell us."""
        return self._monitored(base, [_ENTRIES]).get(_ENTRIES)

    def map_pages(self, base: str) -> MapPages | None:
        """Of the database whose suffix is `base` (2.5 and later); None when the server does not tell us."""
        found = self._monitored(base, [_MOST, _USED])
        return MapPages(found[_MOST], found[_USED]) if len(found) == 2 else None

    def _monitored(self, base: str, names: Sequence[str]) -> dict[str, int]:
        """What slapd's monitor counts of the mdb database whose suffix is `base`; without what it does not tell."""
        database = "(&(objectClass=olmMDBDatabase)(namingContexts=%s))"
        where = ldap.filter.filter_format(database, [base])
        try:
            found = self.find("cn=Databases,cn=Monitor", where, names)
        except (NoSuchBase, ServerRefused, LimitTooLow):
            return {}
        told = [(name, entry[name.lower()]) for _, entry in found for name in names if name.lower() in entry]
        return {name: int(values[0]) for name, values in told}

    def offers_subentries(self, base: str) -> bool:
        """Does it know the control that shows subentries (RFC 3672), and take it from us? OpenDJ does from few."""
        known = self.read("", ["supportedControl"]).get("supportedcontrol", [])
        if SUBENTRIES.encode() not in known:
            return False
        try:
            self.find(base, "(objectClass=*)", scope=ldap.SCOPE_BASE, subentries=True)
        except ServerRefused:
            return False
        return True
