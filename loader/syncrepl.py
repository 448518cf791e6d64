"""The syncrepl of a consumer's database: which of the provider's data it replicates (slapd.conf(5) `syncrepl`,
servers/slapd/syncrepl.c `parse_syncrepl_line`). Only `account` returns credentials.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from loader import dn, values
from loader.config import Config, Database
from loader.errors import SyncreplsDiffer, SyncreplUnreadable

ANYTHING = "(objectclass=*)"  # the default filter
EVERYTHING = {"*", "+"}
SCOPES = {  # libldap's words (ldap_pvt_str2scope) -> ours
    "base": "base",
    **dict.fromkeys(("one", "onelevel"), "one"),
    **dict.fromkeys(("sub", "subtree"), "sub"),
    **dict.fromkeys(("subord", "subordinate", "children"), "subordinate"),
}

# Options for the connection, the account and the timing; they do not affect which data the consumer has.
_BIND = ("uri", "version", "bindmethod", "timeout", "network-timeout", "binddn", "credentials")
_SASL = ("saslmech", "secprops", "realm", "authcid", "authzid")
_TCP = ("keepalive", "tcp-user-timeout")
_TLS = ("starttls", "tls_cert", "tls_key", "tls_cacert", "tls_cacertdir", "tls_reqcert", "tls_reqsan")
_TLS_MORE = ("tls_cipher_suite", "tls_protocol_min", "tls_ecname", "tls_crlcheck")
_PACE = ("interval", "retry", "sizelimit", "timelimit", "strictrefresh", "lazycommit")
_LOG = ("logfilter",)
_MANNER = {"rid", "provider", "managedsait", *_BIND, *_SASL, *_TCP, *_TLS, *_TLS_MORE, *_PACE, *_LOG}
_LISTS = {"attrs", "exattrs"}
_CONTENT = {"searchbase", "filter", "scope", "attrsonly", "schemachecking", "suffixmassage", *_LISTS}
_KIND = {"type", "syncdata", "logbase"}
# slapd compares only the beginning of these words, so "attrsonly" may be followed by anything.
_FLAGS = ("attrsonly", "strictrefresh", "lazycommit")
_REQUIRED = ("rid", "provider", "searchbase")


@dataclass(frozen=True)
class Syncrepl:
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
        """A value that is the same for syncrepls that replicate the same entries and attributes."""
        massage = None if self.suffixmassage is None else dn.key(self.suffixmassage)
        attrs, exattrs = _as_set(self.attrs), _as_set(self.exattrs)
        rest = (self.scope, attrs, exattrs, self.attrsonly, self.schemachecking, massage)
        return (dn.key(self.searchbase), self.filter, *rest)

    def narrowing(self, suffix: str) -> tuple[str, ...]:
        """Returns the options by which a consumer with `suffix` lacks or changes data of the provider."""
        found = {
            "filter": self.filter.lower() != ANYTHING,
            "scope": self.scope != "sub",
            "attrs": bool(self.attrs) and not set(self.attrs) >= EVERYTHING,
            "exattrs": bool(self.exattrs),
            "attrsonly": self.attrsonly,
            "suffixmassage": self._massages(),
            "searchbase": not self._massages() and dn.key(self.searchbase) != dn.key(suffix),
        }
        return tuple(name for name, narrows in found.items() if narrows)

    def _massages(self) -> bool:
        own = self.suffixmassage
        return own is not None and dn.key(own) != dn.key(self.searchbase)


def _as_set(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the names in lower case, sorted and without duplicates, so that they are the same in every run."""
    return tuple(sorted({name.lower() for name in names}))


def of_database(config: Config, database: Database, provider: str | None) -> Syncrepl | None:
    """Returns the syncrepl of a database, or None if it is not a consumer.

    If several syncrepls replicate different data, returns the one of the `provider` (a URI). Raises SyncreplUnreadable,
    and SyncreplsDiffer if the provider does not decide.
    """
    found = [parse(value, config.where) for value in config.values(database.entry_dn, "olcSyncrepl")]
    if len({one.content for one in found}) <= 1:
        return found[0] if found else None
    asked = [one for one in found if provider and _server(one.provider) == _server(provider)]
    if len({one.content for one in asked}) != 1:
        rids = ", ".join(one.rid for one in found)
        raise SyncreplsDiffer(config=config.where, suffix=database.suffix, rids=rids)
    return asked[0]


@dataclass(frozen=True)
class Account:
    """The account with which a consumer binds to its provider. `start_tls`: it requests StartTLS, critical or not."""

    dn: str
    password: str = field(repr=False)
    start_tls: bool


def account(value: str) -> Account | None:
    """Returns the account in a value of olcSyncrepl, or None if the bind uses no password."""
    found = dict(_option(word) for word in values.of_value(values.unordered(value)))
    if found.get("bindmethod", "").lower() != "simple" or not found.get("credentials"):
        return None
    start_tls = found.get("starttls", "no").lower() != "no"
    return Account(found.get("binddn", ""), found["credentials"], start_tls)


def parse(value: str, where: str) -> Syncrepl:
    """Parses a value of olcSyncrepl, with or without {n}. Raises SyncreplUnreadable, which never contains a secret."""
    found: dict[str, str] = {}
    for word in values.of_value(values.unordered(value)):
        name, text = _option(word)
        if name not in _MANNER | _CONTENT | _KIND:
            raise SyncreplUnreadable(where=where, reason=f"the option {name!r} is not known")
        # slapd appends repeated lists to each other.
        found[name] = f"{found[name]},{text}" if name in found and name in _LISTS else text
    missing = [name for name in _REQUIRED if name not in found]
    if missing:
        raise SyncreplUnreadable(where=where, reason=f"{' and '.join(missing)} missing")
    return _made(found, where)


def _made(found: dict[str, str], where: str) -> Syncrepl:
    scope = SCOPES.get(found.get("scope", "sub").lower())
    if scope is None:
        raise SyncreplUnreadable(where=where, reason=f"unknown scope {found['scope']!r}")
    lists = {name: tuple(_names(found.get(name, ""), name, where)) for name in ("attrs", "exattrs")}
    return Syncrepl(
        rid=found["rid"],
        provider=found["provider"],
        searchbase=found["searchbase"],
        filter=found.get("filter", ANYTHING),
        scope=scope,
        attrsonly="attrsonly" in found,
        schemachecking="schemachecking" in found and not found["schemachecking"].lower().startswith("off"),
        suffixmassage=found.get("suffixmassage"),
        type=found.get("type", "refreshOnly").lower(),
        syncdata=found.get("syncdata", "default").lower(),
        logbase=found.get("logbase"),
        **lists,
    )


def _names(text: str, option: str, where: str) -> Sequence[str]:
    if text.lower().startswith(":include:"):
        reason = f"{option}=:include: names a file, which only slapd's host has"
        raise SyncreplUnreadable(where=where, reason=reason)
    return [name for name in re.split(r"[ ,\t]+", text) if name]


def _option(word: str) -> tuple[str, str]:
    """Returns the name of an option in lower case, and its value."""
    lower = word.lower()
    for flag in _FLAGS:
        if lower.startswith(flag):
            return flag, ""
    name, equals, text = word.partition("=")
    return (name.lower(), text) if equals else ("(a word without =)", "")


def _server(uri: str) -> tuple[str, str, str]:
    """Returns scheme, host and port of an LDAP URI; the port defaults to that of the scheme."""
    scheme, _, rest = uri.strip().lower().partition("://")
    host, _, port = rest.partition("/")[0].rpartition(":") if ":" in rest else (rest.rstrip("/"), "", "")
    return scheme, host.rstrip("/"), port.rstrip("/") or ("636" if scheme == "ldaps" else "389")
