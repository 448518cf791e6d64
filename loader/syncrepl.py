"""Parses the syncrepl of a consumer's database, which selects the data of the provider to replicate (slapd.conf(5),
servers/slapd/syncrepl.c `parse_syncrepl_line`). Only `account` returns credentials."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from msgspec import Struct

from loader import config, dn
from loader.config import Config, Database
from loader.errors import SyncreplsDiffer, SyncreplUnreadable

ANYTHING = "(objectclass=*)"  # the default filter
EVERYTHING = {"*", "+"}
SCOPES = {  # libldap's names (ldap_pvt_str2scope) -> scope of a Syncrepl
    "base": "base",
    **dict.fromkeys(("one", "onelevel"), "one"),
    **dict.fromkeys(("sub", "subtree"), "sub"),
    **dict.fromkeys(("subord", "subordinate", "children"), "subordinate"),
}
_REQUIRED = ("rid", "provider", "searchbase")
_LISTS = ("attrs", "exattrs")
# slapd compares only the beginning of a word with these names, so that "attrsonlyx" means attrsonly.
_FLAGS = ("attrsonly", "strictrefresh", "lazycommit")
_OPTIONS = {
    *(*_REQUIRED, *_LISTS, *_FLAGS),
    # Options that decide which data the consumer has, and from which log it reads changes.
    *("filter", "scope", "schemachecking", "suffixmassage", "type", "syncdata", "logbase"),
    # Options of the connection, the account and the timing, which do not affect the data of the consumer.
    *("uri", "version", "managedsait", "bindmethod", "binddn", "credentials", "timeout", "network-timeout"),
    *("saslmech", "secprops", "realm", "authcid", "authzid", "keepalive", "tcp-user-timeout", "starttls"),
    *("tls_cert", "tls_key", "tls_cacert", "tls_cacertdir", "tls_reqcert", "tls_reqsan", "tls_cipher_suite"),
    *("tls_protocol_min", "tls_ecname", "tls_crlcheck", "interval", "retry", "sizelimit", "timelimit", "logfilter"),
}


class Syncrepl(Struct, frozen=True):
    """One value of olcSyncrepl, without secrets. Attribute names are spelt as configured."""

    rid: str
    provider: str
    searchbase: str
    filter: str = ANYTHING
    scope: str = "sub"  # "base", "one", "sub" or "subordinate"
    attrs: tuple[str, ...] = ()
    exattrs: tuple[str, ...] = ()
    attrsonly: bool = False
    schemachecking: bool = False
    suffixmassage: str | None = None
    type: str = "refreshonly"
    syncdata: str = "default"
    logbase: str | None = None

    @property
    def log_base(self) -> str | None:
        """Suffix of the accesslog that delta-syncrepl reads; None: no delta-syncrepl."""
        return self.logbase if self.syncdata == "accesslog" else None

    @property
    def content(self) -> tuple[object, ...]:
        """A value that is the same for all syncrepls that replicate the same entries and attributes."""
        massage = None if self.suffixmassage is None else dn.key(self.suffixmassage)
        attrs, exattrs = (tuple(sorted({name.lower() for name in names})) for names in (self.attrs, self.exattrs))
        options = (self.scope, attrs, exattrs, self.attrsonly, self.schemachecking, massage)
        return (dn.key(self.searchbase), self.filter, *options)

    @property
    def massages(self) -> bool:
        """Whether suffixmassage renames the entries."""
        return self.suffixmassage is not None and dn.key(self.suffixmassage) != dn.key(self.searchbase)

    def narrowing(self, suffix: str) -> tuple[str, ...]:
        """Returns the options that make a consumer with `suffix` omit or change data of the provider."""
        narrows = {
            "filter": self.filter.lower() != ANYTHING,
            "scope": self.scope != "sub",
            "attrs": bool(self.attrs) and not set(self.attrs) >= EVERYTHING,
            "exattrs": bool(self.exattrs),
            "attrsonly": self.attrsonly,
            "suffixmassage": self.massages,
            "searchbase": not self.massages and dn.key(self.searchbase) != dn.key(suffix),
        }
        return tuple(name for name, is_narrower in narrows.items() if is_narrower)


def of_database(config: Config, database: Database, provider: str | None) -> Syncrepl | None:
    """Returns the syncrepl of a database; None if the database is not a consumer.

    If several syncrepls replicate different data, returns the one with the URI `provider`. Raises SyncreplsDiffer if
    none has this URI, or if several with this URI differ. Raises SyncreplUnreadable if a value cannot be parsed."""
    candidates = configured = [parse(value, config.where) for value in config.values(database.entry_dn, "olcSyncrepl")]
    if len({syncrepl.content for syncrepl in configured}) > 1:
        candidates = [syncrepl for syncrepl in configured if provider and _is_same(syncrepl.provider, provider)]
        if len({syncrepl.content for syncrepl in candidates}) != 1:
            rids = ", ".join(syncrepl.rid for syncrepl in configured)
            raise SyncreplsDiffer(config=config.where, suffix=database.suffix, rids=rids)
    return candidates[0] if candidates else None


def parse(value: str, where: str) -> Syncrepl:
    """Parses a value of olcSyncrepl, with or without {n}. Raises SyncreplUnreadable, which never contains a secret."""
    options: dict[str, str] = {}
    for name, text in _words(value):
        if name not in _OPTIONS:
            raise SyncreplUnreadable(where=where, reason=f"unknown option {name!r}")
        if name in _LISTS and text.lower().startswith(":include:"):
            reason = f"{name}=:include: names a file, which only the host of slapd has"
            raise SyncreplUnreadable(where=where, reason=reason)
        # slapd joins the lists of an option that occurs twice.
        options[name] = f"{options[name]},{text}" if name in options and name in _LISTS else text
    missing = [name for name in _REQUIRED if name not in options]
    if missing:
        raise SyncreplUnreadable(where=where, reason=f"{' and '.join(missing)} missing")
    scope = SCOPES.get(options.get("scope", "sub").lower())
    if scope is None:
        raise SyncreplUnreadable(where=where, reason=f"unknown scope {options['scope']!r}")
    attrs, exattrs = (tuple(filter(None, re.split(r"[ ,\t]+", options.get(name, "")))) for name in _LISTS)
    return Syncrepl(
        rid=options["rid"],
        provider=options["provider"],
        searchbase=options["searchbase"],
        filter=options.get("filter", ANYTHING),
        scope=scope,
        attrs=attrs,
        exattrs=exattrs,
        attrsonly="attrsonly" in options,
        schemachecking=not options.get("schemachecking", "off").lower().startswith("off"),
        suffixmassage=options.get("suffixmassage"),
        type=options.get("type", "refreshOnly").lower(),
        syncdata=options.get("syncdata", "default").lower(),
        logbase=options.get("logbase"),
    )


@dataclass(frozen=True)
class Account:
    """The account with which a consumer binds to its provider. `start_tls`: whether it uses StartTLS."""

    dn: str
    password: str = field(repr=False)
    start_tls: bool


def account(value: str) -> Account | None:
    """Returns the account in a value of olcSyncrepl, or None if the bind uses no password."""
    options = dict(_words(value))
    if options.get("bindmethod", "").lower() != "simple" or not options.get("credentials"):
        return None
    return Account(options.get("binddn", ""), options["credentials"], options.get("starttls", "no").lower() != "no")


def _words(value: str) -> list[tuple[str, str]]:
    """Returns the name of each option in lower case, and its text."""
    words = []
    for word in config.words_of_value(config.unnumbered(value)):
        flag = next((flag for flag in _FLAGS if word.lower().startswith(flag)), None)
        name, equals, text = word.partition("=")
        words.append((flag, "") if flag else (name.lower() if equals else "(a word without =)", text))
    return words


def _is_same(uri: str, other: str) -> bool:
    """Returns whether two LDAP URIs have the same scheme, host and port."""
    servers = set()
    for text in (uri, other):
        scheme, _, remainder = text.strip().lower().partition("://")
        address = remainder.partition("/")[0]
        host = re.sub(r":\d*$", "", address)
        servers.add((scheme, host, address[len(host) + 1 :] or ("636" if scheme == "ldaps" else "389")))
    return len(servers) == 1
