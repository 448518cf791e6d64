"""Finds out with one small search how a provider answers a consumer's cookie (RFC 4533).

slapo-syncprov chooses the kind of its answer before it evaluates the search, and then sends only matching entries. So a
search for a single entry with a consumer's cookie shows how the provider will answer that consumer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import Any

import ldap
from ldap.syncrepl import SyncDoneControl, SyncInfoMessage, SyncRequestControl
from msgspec import Struct
from pyasn1.error import PyAsn1Error

from loader import csn
from loader.errors import ServerRefused
from loader.server.session import Session, facts_of, words_of

LIMIT = 60.0  # seconds; without an index on entryCSN slapd searches all entries for the cookie's CSN
_RID = 999  # the replica ID in probes, which no real consumer should have; slapd only logs it
_RELOAD = (4096, 16654)  # e-syncRefreshRequired, and its code before RFC 4533
_TRIES = 5  # attempts of `touch` while other clients change the entry


class SyncAnswer(str, Enum):
    """The kinds of answers (docs/catch-up.md)."""

    NOTHING = "nothing"
    CHANGES = "changes"  # changed entries, and the entryUUIDs of deleted ones
    PRESENT = "present"  # the entryUUIDs of all entries that did not change
    WHOLE = "whole"  # every entry
    RELOAD = "reload"
    REFUSED = "refused"
    NOT_OFFERED = "not_offered"


class Reply(Struct, frozen=True):
    """A provider's reply. `server_id`: the provider's ID, three hex digits; None if the reply has no cookie. `reason`:
    why the provider refused."""

    answer: SyncAnswer
    server_id: str | None = None
    reason: str = ""


def cookie_of(csns: Sequence[str]) -> str:
    """Returns the cookie of a consumer with this contextCSN. slapd requires the CSNs in the order of server IDs."""
    by_server = csn.by_server(csns)
    return f"rid={_RID:03},csn=" + ";".join(by_server[sid] for sid in sorted(by_server))


def probe(
    server: Session, base: str, csns: Sequence[str] | None, where: str = "(objectClass=*)", reload_hint: bool = True
) -> Reply:
    """Returns the provider's reply to a consumer with the contextCSN `csns`. If `csns` is None, the consumer has no
    cookie: only `base` is read, and the reply has the provider's server ID. `where`: a filter for one entry below
    `base`. `reload_hint`: syncrepl sends True, except when it reads an accesslog. Raises LoaderError."""
    cookie = None if csns is None else cookie_of(csns)
    control = SyncRequestControl(criticality=1, cookie=cookie, reloadHint=reload_hint and cookie is not None)
    scope = ldap.SCOPE_BASE if csns is None else ldap.SCOPE_SUBTREE

    def exchange(handle: Any) -> Reply:
        message = handle.search_ext(base, scope, where, ["1.1"], serverctrls=[control])
        try:
            return _reply(handle, message, had_cookie=cookie is not None)
        except (ldap.UNAVAILABLE_CRITICAL_EXTENSION, ldap.INAPPROPRIATE_MATCHING) as error:
            return Reply(SyncAnswer.NOT_OFFERED, reason=words_of(error))
        except PyAsn1Error as error:
            return Reply(SyncAnswer.NOT_OFFERED, reason=f"its answer is not that of RFC 4533: {error}")
        except ldap.LDAPError as error:
            if facts_of(error).get("result") in _RELOAD:
                return Reply(SyncAnswer.RELOAD, reason=words_of(error))
            if isinstance(error, ldap.UNWILLING_TO_PERFORM):
                return Reply(SyncAnswer.REFUSED, reason=words_of(error))
            raise

    return server.call(f"synchronization of {base}", exchange, base, LIMIT)


def _reply(handle: Any, message: int, had_cookie: bool) -> Reply:
    """Returns the reply. The first set of entryUUIDs (syncIdSet) shows the kind of the answer. Without any set, the
    Sync Done control at the end of the search shows it."""
    kind, whole = None, False
    while kind != ldap.RES_SEARCH_RESULT:
        kind, messages, _, controls, _, _ = handle.result4(message, all=0, add_intermediates=1, add_ctrls=1)
        whole = whole or kind == ldap.RES_SEARCH_ENTRY
        for name, value, _ in messages if kind == ldap.RES_INTERMEDIATE else ():
            if name == SyncInfoMessage.responseName and (ids := SyncInfoMessage(value).syncIdSet):
                handle.abandon_ext(message)
                return Reply(SyncAnswer.CHANGES if ids["refreshDeletes"] else SyncAnswer.PRESENT)
    done = next((control for control in controls if isinstance(control, SyncDoneControl)), None)
    if done is None:
        return Reply(SyncAnswer.NOT_OFFERED, reason="the search ends without a Sync Done control")
    # A provider that answers from a session log or accesslog sets refreshDeletes. Otherwise it ran a present phase.
    # That phase listed no entryUUID here: the only entry was sent whole, or does not match the filter.
    if done.refreshDeletes and had_cookie:
        answer = SyncAnswer.CHANGES if done.cookie else SyncAnswer.NOTHING
    else:
        answer = SyncAnswer.WHOLE if whole else SyncAnswer.PRESENT
    return Reply(answer, server_id(done.cookie))


def server_id(cookie: str | None) -> str | None:
    """Returns the provider's server ID in a cookie; "000" if the cookie has none, since slapd omits the ID 0."""
    match = re.search(r"(?:^|,)sid=([0-9a-fA-F]{3})(?:,|$)", cookie or "")
    return match[1].lower() if match else "000" if cookie else None


def touch(server: Session, dn: str) -> None:
    """Replaces an entry's object classes by the same values. This write changes only entryCSN, modifyTimestamp and
    modifiersName. slapd puts the CSN of the write into contextCSN and into syncprov's session log. Raises NoSuchBase;
    ServerRefused if the account may not write, or if the database is a consumer's."""
    for _ in range(_TRIES):
        entry = server.read(dn, ["objectClass", "entryCSN"])
        # The assertion (RFC 4528) prevents undoing a concurrent change of the object classes.
        unchanged = f"(entryCSN={entry['entrycsn'][0].decode()})"
        if server.replace_if(dn, unchanged, {"objectClass": entry["objectclass"]}):
            return
    raise ServerRefused(uri=server.uri, operation=f"modify {dn}", reason=f"{dn} is changed by others all the time")
