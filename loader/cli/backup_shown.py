"""Facts of a backup that several commands of `ditseed backup` show."""

from __future__ import annotations

from loader import units
from loader.operations.backup import manifest
from loader.operations.backup.manifest import Backup


def kind(one: Backup) -> str:
    """mdb, ldif; with what is special about the way it is stored."""
    words = [manifest.LDIF if one.is_ldif else manifest.MDB]
    words += ["incremental"] * one.incremental + ["encrypted"] * one.is_encrypted
    return ", ".join(words)


def newest(one: Backup) -> str:
    """The time of the newest CSN; the text of a CSN is long, and `--json` has it."""
    return max((csn[:14] + "Z" for csn in one.newest_csns), default="-")


def of_a_full(one: Backup) -> dict[str, object]:
    """How much less was stored than all of it would take."""
    if not one.incremental:
        return {}
    full = one.full_bytes
    return {"stored, of a full": f"{100 * one.stored_bytes / full:.1f} % of {units.size(full)}"}
