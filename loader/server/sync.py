"""Finds out with one small search how a provider answers a consumer's cookie (RFC 4533).

slapo-syncprov chooses the kind of its answer before it evaluates the search, and then sends only matching entries. So a
search for a single entry with a consumer's cookie shows how the provider will answer that consumer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import ldap
from ldap.syncrepl import SyncDoneControl, SyncInfoMessage, SyncRequestControl
from pyasn1.error import PyAsn1Error

from loader import csn
from loader.errors import ServerRefused
from loader.server.session import Session, facts_of, words_of

LIMIT = 60.0  # seconds; without an index on entryCSN slapd searches all entries for the cookie's CSN
_RID = 999  # not a real consumer's; slapd only logs the rid
_RELOAD = (4096, 16654)  # e-syncRefreshRequired, and its code before RFC 4533
_NOT_OFFERED = (ldap.UNAVAILABLE_CRITICAL_EXTENSION, ldap.INAPPROPRIATE_MATCHING)


class SyncAnswer(str, Enum):
    """The kinds of answers; see docs/catch-up.md."""

    NOTHING = "nothing has changed"
    CHANGES = "what changed, and what was deleted"
    PRESENT = "the entryUUIDs of all that did not change"
    WHOLE = "every entry whole"
    RELOAD = "the consumer must ask for everything"
    REFUSED = "an error"
    NOT_OFFERED = "no synchronization"


@dataclass(frozen=True)
class Reply:
    """A provider's reply. `server_id`: the provider's ID, three hex digits; None without a cookie. `reason`: why the
    provider refused."""

    answer: SyncAnswer
    server_id: str | None = None
    reason: str = ""


def cookie_of(csns: Sequence[str]) -> str:
    """Returns the cookie of a consumer with this contextCSN. slapd requires the CSNs in the order of server IDs."""
    by_server = csn.by_server(csns)
    return f"rid={_RID:03},csn=" + ";".join(by_server[sid] for sid in sorted(by_server))


def probe(server: Session, base: str, csns: Sequence[str], where: str, reload_hint: bool = True) -> Reply:
    """Returns the provider's reply to a consumer with the contextCSN `csns`; `where` matches one entry below `base`.

    `reload_hint`: syncrepl sends True, except when it reads an accesslog. Raises LoaderError.
    """
    control = SyncRequestControl(criticality=1, cookie=cookie_of(csns), reloadHint=reload_hint)
    return _ask(server, (base, ldap.SCOPE_SUBTREE, where, ["1.1"]), control)


def provider_server_id(server: Session, base: str) -> Reply:
    """Returns the provider's reply, with its server ID, to a consumer without a cookie."""
    return _ask(server, (base, ldap.SCOPE_BASE, "(objectClass=*)", ["1.1"]), SyncRequestControl(criticality=1))


def _ask(server: Session, search: tuple[Any, ...], control: SyncRequestControl) -> Reply:
    def converse(handle: Any) -> Reply:
        message = handle.search_ext(*search, serverctrls=[control])
        try:
            return _reply(handle, message, had_cookie=control.cookie is not None)
        except _NOT_OFFERED as error:
            return Reply(SyncAnswer.NOT_OFFERED, reason=words_of(error))
        except PyAsn1Error as error:
            return Reply(SyncAnswer.NOT_OFFERED, reason=f"its answer is not that of RFC 4533: {error}")
        except ldap.LDAPError as error:
            if facts_of(error).get("result") in _RELOAD:
                return Reply(SyncAnswer.RELOAD, reason=words_of(error))
            if isinstance(error, ldap.UNWILLING_TO_PERFORM):
                return Reply(SyncAnswer.REFUSED, reason=words_of(error))
            raise

    return server.converse(f"synchronization of {search[0]}", converse, search[0], LIMIT)


def _reply(handle: Any, message: int, had_cookie: bool) -> Reply:
    """Returns the reply: the first set of entryUUIDs determines its kind, or the search's end if there is no set."""
    whole = False
    while True:
        kind, messages, _, controls, _, _ = handle.result4(message, all=0, add_intermediates=1, add_ctrls=1)
        if kind == ldap.RES_SEARCH_ENTRY:
            whole = True
        elif kind == ldap.RES_INTERMEDIATE:
            for name, value, _ in messages:
                if name == SyncInfoMessage.responseName and (ids := SyncInfoMessage(value).syncIdSet):
                    handle.abandon_ext(message)
                    return Reply(SyncAnswer.CHANGES if ids["refreshDeletes"] else SyncAnswer.PRESENT)
        elif kind == ldap.RES_SEARCH_RESULT:
            return _end(controls, whole, had_cookie)


def _end(controls: Sequence[Any], whole: bool, had_cookie: bool) -> Reply:
    """Returns the reply that follows from the end of the search. A provider with a session log or accesslog sends
    refreshDeletes. Without refreshDeletes it ran a present phase, here empty: the entry was sent or does not match."""
    done = next((one for one in controls if isinstance(one, SyncDoneControl)), None)
    if done is None:
        return Reply(SyncAnswer.NOT_OFFERED, reason="the search ends without a Sync Done control")
    server_id = _server_id(done.cookie)
    if done.refreshDeletes and had_cookie:
        return Reply(SyncAnswer.CHANGES if done.cookie else SyncAnswer.NOTHING, server_id)
    return Reply(SyncAnswer.WHOLE if whole else SyncAnswer.PRESENT, server_id)


def _server_id(cookie: str | None) -> str | None:
    """Returns the provider's server ID in a cookie; "000" if the cookie has none, since slapd omits the ID 0."""
    if not cookie:
        return None
    match = re.search(r"(?:^|,)sid=([0-9a-fA-F]{3})(?:,|$)", cookie)
    return match[1].lower() if match else "000"


# --- touch -----------------------------------------------------------------------------------------------------------
#
# A write without effect: it replaces an entry's object classes by the same values.
#
# slapd assigns a CSN to this write too, and puts the CSN into the contextCSN and into syncprov's session log. In the
# entry only entryCSN, modifyTimestamp and modifiersName change.


_TRIES = 5
_WHAT = "objectClass"


def touch(server: Session, dn: str) -> None:
    """Makes the write. Raises NoSuchBase; ServerRefused if the account may not write, or the database is a shadow."""
    for _ in range(_TRIES):
        entry = server.read(dn, [_WHAT, "entryCSN"])
        # The assertion (RFC 4528) prevents undoing a concurrent change of the object classes.
        where = f"(entryCSN={entry['entrycsn'][0].decode()})"
        if server.replace_if(dn, where, {_WHAT: entry[_WHAT.lower()]}):
            return
    raise ServerRefused(uri=server.uri, operation=f"modify {dn}", reason=f"{dn} is changed by others all the time")
