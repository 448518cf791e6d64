"""What a server says of the trees that it holds."""

from __future__ import annotations

import ldap
import ldap.filter

from loader import csn, dn
from loader.errors import LimitTooLow, NoContextCSN, NoSuchBase, ServerRefused
from loader.server.options import Connection
from loader.server.search import SUBENTRIES
from loader.server.searches import Searches


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
            advice = "Check that the provider has the syncprov overlay, and that the bind DN may read contextCSN."
            raise NoContextCSN(where=self.uri, suffix=suffix, advice=advice)
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
        """Entries in the database whose suffix is `base`, as slapd's monitor counts them (olmMDBEntries, 2.5 and
        later); None when it does not tell us."""
        database = "(&(objectClass=olmMDBDatabase)(namingContexts=%s))"
        where = ldap.filter.filter_format(database, [base])
        try:
            found = self.find("cn=Databases,cn=Monitor", where, ["olmMDBEntries"])
        except (NoSuchBase, ServerRefused, LimitTooLow):
            return None
        values = [value for _, entry in found for value in entry.get("olmmdbentries", [])]
        return int(values[0]) if values else None

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
