"""What a provider answers to a consumer's cookie (RFC 4533), asked with one small search.

slapo-syncprov settles how it answers before it looks at what is searched for, and then sends only what the filter lets
through. So a search for a single entry, with the cookie of a consumer, tells how that consumer will be answered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import ldap
from ldap.syncrepl import SyncDoneControl, SyncInfoMessage, SyncRequestControl
from pyasn1.error import PyAsn1Error

from loader import csn
from loader.errors import ServerRefused
from loader.server.session import Session, facts_of, words_of

LIMIT = 60.0  # seconds: without an index on entryCSN slapd looks at every entry for that of the cookie
_RID = 999  # of no consumer: slapd only writes it to its log
_RELOAD = (4096, 16654)  # e-syncRefreshRequired, and its number before RFC 4533
_NOT_OFFERED = (ldap.UNAVAILABLE_CRITICAL_EXTENSION, ldap.INAPPROPRIATE_MATCHING)


class SyncAnswer(str, Enum):
    """What comes: see docs/catch-up.md."""

    NOTHING = "nothing has changed"
    CHANGES = "what changed, and what was deleted"
    PRESENT = "the entryUUIDs of all that did not change"
    WHOLE = "every entry whole"
    RELOAD = "the consumer must ask for everything"
    REFUSED = "an error"
    NOT_OFFERED = "no synchronization"


@dataclass(frozen=True)
class Reply:
    """`server_id`: of the provider, three hex digits, if it sends a cookie. `reason`: the words of a refusal."""

    answer: SyncAnswer
    server_id: str | None = None
    reason: str = ""


def cookie_of(csns: Sequence[str]) -> str:
    """The cookie of a consumer with this contextCSN. slapd wants it in the order of the server IDs."""
    by_server = csn.by_server(csns)
    return f"rid={_RID:03},csn=" + ";".join(by_server[sid] for sid in sorted(by_server))


def probe(server: Session, base: str, csns: Sequence[str], where: str, reload_hint: bool = True) -> Reply:
    """The answer to a consumer that claims `csns`, and would see the entry that `where` finds below `base`.

    `reload_hint`: as syncrepl sends it, but for one that reads an accesslog. Raises LoaderError.
    """
    cookie = cookie_of(csns)
    control = SyncRequestControl(criticality=1, cookie=cookie, reloadHint=reload_hint)
    return server.converse(
        f"synchronization of {base}",
        lambda handle: _asked(handle, (base, ldap.SCOPE_SUBTREE, where, ["1.1"]), control),
        base,
        LIMIT,
    )


def provider_server_id(server: Session, base: str) -> Reply:
    """Who the provider is: what it says to a consumer that has nothing."""
    control = SyncRequestControl(criticality=1)
    asked = (base, ldap.SCOPE_BASE, "(objectClass=*)", ["1.1"])
    return server.converse(f"synchronization of {base}", lambda handle: _asked(handle, asked, control), base, LIMIT)


def _asked(handle: Any, asked: tuple[Any, ...], control: SyncRequestControl) -> Reply:
    message = handle.search_ext(*asked, serverctrls=[control])
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


def _reply(handle: Any, message: int, had_cookie: bool) -> Reply:
    """The first set of entryUUIDs tells what kind it is; without any, the end does."""
    whole = False
    while True:
        kind, found, _, controls, _, _ = handle.result4(message, all=0, add_intermediates=1, add_ctrls=1)
        if kind == ldap.RES_SEARCH_ENTRY:
            whole = True
        elif kind == ldap.RES_INTERMEDIATE:
            for deletes in _sets(found):
                handle.abandon_ext(message)
                return Reply(SyncAnswer.CHANGES if deletes else SyncAnswer.PRESENT)
        elif kind == ldap.RES_SEARCH_RESULT:
            return _end(controls, whole, had_cookie)


def _sets(found: Sequence[Any]) -> Iterator[bool]:
    """Of each set of entryUUIDs: is it of what was deleted?"""
    for name, value, _ in found:
        if name == SyncInfoMessage.responseName:
            ids = SyncInfoMessage(value).syncIdSet
            if ids:
                yield bool(ids["refreshDeletes"])


def _end(controls: Sequence[Any], whole: bool, had_cookie: bool) -> Reply:
    """A session log, or an accesslog, ends with refreshDeletes. What ends without has named all that stays: here
    nothing, for the entry came whole or is not there."""
    done = next((one for one in controls if isinstance(one, SyncDoneControl)), None)
    if done is None:
        return Reply(SyncAnswer.NOT_OFFERED, reason="the search ends without a Sync Done control")
    told = _server_id(done.cookie)
    if done.refreshDeletes and had_cookie:
        return Reply(SyncAnswer.CHANGES if done.cookie else SyncAnswer.NOTHING, told)
    return Reply(SyncAnswer.WHOLE if whole else SyncAnswer.PRESENT, told)


def _server_id(cookie: str | None) -> str | None:
    """The provider's. One of 0 is left out of cookies."""
    if not cookie:
        return None
    found = re.search(r"(?:^|,)sid=([0-9a-fA-F]{3})(?:,|$)", cookie)
    return found[1].lower() if found else "000"


# --- touch -----------------------------------------------------------------------------------------------------------
#
# A write that changes nothing: an entry's object classes replaced by themselves.
#
# slapd gives it a CSN as any other, which comes into the contextCSN and into syncprov's session log. Of the entry
# only entryCSN, modifyTimestamp and modifiersName differ afterwards.


_TRIES = 5
_WHAT = "objectClass"


def touch(server: Session, dn: str) -> None:
    """Raises NoSuchBase, ServerRefused (no permission to write, a shadow)."""
    for _ in range(_TRIES):
        found = server.read(dn, [_WHAT, "entryCSN"])
        # It must be what was read still, or somebody else's change would be undone (RFC 4528).
        where = f"(entryCSN={found['entrycsn'][0].decode()})"
        if server.replace_if(dn, where, {_WHAT: found[_WHAT.lower()]}):
            return
    reason = f"{dn} is changed by others all the time"
    raise ServerRefused(uri=server.uri, operation=f"modify {dn}", reason=reason)
