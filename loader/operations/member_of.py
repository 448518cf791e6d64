"""slapo-memberof and databases that were loaded offline: no overlay has written memberOf there."""

from __future__ import annotations

from pathlib import Path

from loader.config import Config, Database
from loader.mdb import contents

_OVERLAY = "memberof"
# Settings of the overlay, and their defaults (slapo-memberof(5)).
_MEMBER = ("olcMemberOfMemberAD", "member")
_MEMBER_OF = ("olcMemberOfMemberOfAD", "memberOf")


def notes(config: Config, database: Database, environment: Path) -> list[str]:
    """One for each instance of the overlay for which `environment` has members, and no memberOf."""
    found = []
    for name, _ in config.entries:
        if not _is_overlay_of(name, database):
            continue
        member, member_of = (
            next(iter(config.values(name, setting)), default) for setting, default in (_MEMBER, _MEMBER_OF)
        )
        stored = {one.lower().split(";")[0] for one in contents.attributes(environment)}
        if member.lower() in stored and member_of.lower() not in stored:
            found.append(
                f"the LDIF had {member} but no {member_of}, and slapo-memberof does not run during an offline load, "
                f"just as with slapadd: searches for {member_of} find nothing. Once slapd runs, have it write the "
                f'{member} of each group again: docs/build.md, "memberOf", has the command'
            )
    return found


def _is_overlay_of(name: str, database: Database) -> bool:
    rdn, _, above = name.lower().partition(",")
    return above == database.entry_dn.lower() and rdn.partition("}")[2] == _OVERLAY
