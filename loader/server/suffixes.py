"""What a server says of the trees that it holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import ldap
import ldap.filter
import msgspec

from loader import csn, dn
from loader.errors import LimitTooLow, NoContextCSN, NoSuchBase, ServerRefused
from loader.server import shell_commands
from loader.server.options import Connection
from loader.server.search import SUBENTRIES
from loader.server.searches import Searches

_ENTRIES, _MOST, _USED = "olmMDBEntries", "olmMDBPagesMax", "olmMDBPagesUsed"


class MapPages(msgspec.Struct, frozen=True):
    """Of a database, as slapd's monitor counts them. `most`: pages of its map. `used`: up to the last page ever used,
    free ones among them."""

    most: int
    used: int


def _add_syncprov(uri: str, suffix: str) -> Iterator[str]:
    modify = f"ldapmodify {shell_commands.external(uri)}"
    yield shell_commands.find_database(uri, suffix)
    yield "# This is refused, which does no harm, where slapd has loaded syncprov already:"
    yield f"{modify} <<'EOF' || true"
    yield from ("dn: cn=module{0},cn=config", "changetype: modify", "add: olcModuleLoad")
    yield from ("olcModuleLoad: syncprov", "EOF")
    classes = (
        "objectClass: olcOverlayConfig\\nobjectClass: olcSyncProvConfig\\nolcOverlay: syncprov\\n"
    )
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
        told = [
            (name, entry[name.lower()])
            for _, entry in found
            for name in names
            if name.lower() in entry
        ]
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
