"""Small questions to a server: one entry, a few, or the first of many. Entries by the million never come this way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import ldap
from ldap.controls import RequestControl, SimplePagedResultsControl
from ldap.controls.simple import ManageDSAITControl

from loader.errors import NoSuchBase
from loader.server.search import SUBENTRIES, Search

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
    def _asking(
        self,
        operation: str,
        ask: Callable[[], Result],
        base: str = "",
        limit: float | None = None,
    ) -> Result:
        """Raises LoaderError."""

    def read(
        self, dn: str, attributes: Sequence[str] = ("*", "+"), where: str = "(objectClass=*)"
    ) -> Attributes:
        """One entry, a referral object too. Raises NoSuchBase."""
        found = self._asking(
            f"read {dn}",
            lambda: self._ldap.search_ext_s(
                dn, ldap.SCOPE_BASE, where, list(attributes), serverctrls=_AS_STORED
            ),
            dn,
        )
        return {name.lower(): values for name, values in found[0][1].items()} if found else {}

    def spelt(self, dn: str) -> str:
        """The name of an entry, a referral object too, as the server writes it. Raises NoSuchBase."""
        asked = (dn, ldap.SCOPE_BASE, "(objectClass=*)", ["1.1"])
        controls = [ManageDSAITControl()]
        found = self._asking(
            f"read {dn}", lambda: self._ldap.search_ext_s(*asked, serverctrls=controls), dn
        )
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
            lambda: self._ldap.search_ext_s(
                base, scope, where, list(attributes), serverctrls=controls
            ),
            base,
        )
        return [_lowered(dn, entry) for dn, entry in found if dn]

    def each_name(self, base: str, subentries: bool = False) -> Iterator[str]:
        """The DNs of a subtree, page after page; of its subentries alone, if they are wanted. Raises NoSuchBase."""
        paging = SimplePagedResultsControl(True, size=_PAGE, cookie="")
        controls = [*_AS_STORED, *([_VISIBLE] if subentries else []), paging]
        asked = (base, ldap.SCOPE_SUBTREE, "(objectClass=*)", ["1.1"])
        while True:
            found, answer = self._asking(
                f"search {base}", lambda: self._page(asked, controls), base
            )
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
        self,
        base: str,
        limit: int,
        attributes: Sequence[str],
        where: str = "(objectClass=*)",
        seconds: int = -1,
    ) -> tuple[list[tuple[str, Attributes]], bool]:
        """The first `limit` entries of a subtree that match, and whether these are all. `seconds`: that the server may
        look for them. Raises NoSuchBase, LimitTooLow (when not even one is shown)."""
        found: list[tuple[str, Attributes]] = []

        def collect() -> bool:
            asked = (base, ldap.SCOPE_SUBTREE, where, list(attributes))
            message = self._ldap.search_ext(
                *asked, serverctrls=_AS_STORED, timeout=seconds, sizelimit=limit
            )
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
            lambda: self._ldap.search_ext_s(
                dn, ldap.SCOPE_BASE, where, ["1.1"], serverctrls=_AS_STORED
            ),
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
        message = handle.search_ext(
            asked.base, _SCOPES[asked.scope], asked.where, ["1.1"], serverctrls=controls
        )
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
