"""Entries that share their entryUUID. No server makes such entries, but slapadd takes them, and each is one of its own.

A reading that meets an entryUUID under two DNs takes it for one entry that was renamed meanwhile. Only the server can
tell: where an entry still stands at both, neither DN is a former one of the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from loader.errors import NoSuchBase, SharedUuid
from loader.server.session import Session, first_value

AT_ONCE = 200  # entryUUIDs in one search


def require_none(server: Session, base: str, uuids: Sequence[str], subentries: bool) -> None:
    """Raises SharedUuid if the server has two entries with one of these entryUUIDs. `subentries`: it shows them on
    request."""
    for at in range(0, len(uuids), AT_ONCE):
        _require_none(server, base, uuids[at : at + AT_ONCE], subentries)


def _require_none(server: Session, base: str, uuids: Sequence[str], subentries: bool) -> None:
    places: dict[str, list[str]] = {}
    where = "(|{})".format("".join(f"(entryUUID={uuid})" for uuid in uuids))
    for shown in (False, True) if subentries else (False,):
        for name, entry in server.find(base, where, ["entryUUID"], subentries=shown):
            places.setdefault(first_value(entry, "entryuuid"), []).append(name)
    for uuid, names in places.items():
        # A search that goes through the tree while an entry is renamed may have met it twice.
        still = [
            name for name in dict.fromkeys(names) if len(names) > 1 and _is(server, name, uuid)
        ]
        if len(still) > 1:
            raise SharedUuid(uuid=uuid, first=still[0], dn=still[1])


def _is(server: Session, name: str, uuid: str) -> bool:
    try:
        return server.matches(name, f"(entryUUID={uuid})")
    except NoSuchBase:
        return False
