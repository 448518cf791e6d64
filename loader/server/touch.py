"""A write that changes nothing: an entry's object classes replaced by themselves.

slapd gives it a CSN as any other, which comes into the contextCSN and into syncprov's session log. Of the entry only
entryCSN, modifyTimestamp and modifiersName differ afterwards.
"""

from __future__ import annotations

from loader.errors import ServerRefused
from loader.server.session import Session

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
