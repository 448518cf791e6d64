"""How the overlays of slapd change the answers of a search, and what ditseed does about each overlay.

A replica must contain the data that its provider stores, but overlays can show more, less or other data. For each row
of the table, tests/integration/test_overlays.py compared searches with slapcat on slapd 2.5.13 and 2.6.10. Rows of
modules that Debian does not ship (`debian=False`) are taken from the source of OpenLDAP.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from msgspec import Struct

from loader.defaults import DYNAMIC_ATTRIBUTES


class Shows(Enum):
    """What ditseed's searches show if an overlay is configured, and what follows from that."""

    STORED = "what is stored"
    LEFT_OUT = "computed attributes, which ditseed leaves out"
    SWITCHED_OFF = "what is stored, because ditseed sends a control that switches the overlay off"
    MOVING = "a stored attribute whose value depends on the time of the search; comparisons ignore it"
    OTHER = "data other than the stored data: a replica is not seeded from a search"


class Overlay(Struct, frozen=True):
    """One overlay. `attributes`: the computed or moving attributes, if `shows` is LEFT_OUT or MOVING. `local`:
    attributes that may differ, because each server has its own values of them. `why`: the reason for OTHER."""

    name: str
    shows: Shows = Shows.STORED
    attributes: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    why: str = ""
    debian: bool = True


_STORED = (
    *("auditlog", "autogroup", "constraint", "deref", "dyngroup", "homedir", "otp", "refint", "remoteauth"),
    *("retcode", "seqmod", "smbk5pwd", "sssvlv", "unique"),
)
_ALLOWED = ("allowedAttributes", "allowedAttributesEffective", "allowedChildClasses", "allowedChildClassesEffective")
_LOCKOUT = ("pwdFailureTime", "pwdAccountLockedTime", "pwdGraceUseTime", "pwdLastSuccess")
_CONTRIB = ("adremap", "cloak", "datamorph", "dupent", "variant")

# The writes of these overlays do not reach slapo-accesslog, and do not change entryCSN (autogroup is in contrib).
UNLOGGED = ("memberof", "refint", "autogroup")
# dds deletes all expired entries at once, with the same reqStart: slapo-accesslog logs only one of these operations.
LOSING = ("dds",)

OVERLAYS: tuple[Overlay, ...] = (
    *map(Overlay, _STORED),
    Overlay("accesslog", Shows.LEFT_OUT, ("auditContext",)),  # added to the suffix entry (accesslog_operational)
    Overlay("syncprov", Shows.LEFT_OUT, ("contextCSN",)),  # a search shows a newer value than the stored one
    Overlay("allowed", Shows.LEFT_OUT, _ALLOWED, debian=False),  # contrib/slapd-modules/allowed: aa_operational
    # ditseed's searches send two controls. With ManageDsaIT, dynlist adds neither members of dynamic groups nor
    # memberOf, and translucent shows only local entries. With the control of valsort, values keep their weights {n}.
    Overlay("dynlist", Shows.SWITCHED_OFF),
    Overlay("translucent", Shows.SWITCHED_OFF),
    Overlay("valsort", Shows.SWITCHED_OFF),
    Overlay("dds", Shows.MOVING, ("entryTtl",)),  # searches and syncrepl get the remaining time, not the stored time
    Overlay("collect", Shows.OTHER, why="values of an entry appear in all entries below it"),
    Overlay("rwm", Shows.OTHER, why="names of attributes and object classes, and DNs, are mapped"),
    Overlay("pcache", Shows.OTHER, why="entries are those of another server"),
    *(Overlay(name, Shows.OTHER, why=f"contrib/slapd-modules/{name}", debian=False) for name in _CONTRIB),
    # Each server maintains its own values of these attributes (o_dont_replicate). But a consumer with
    # ppolicy_forward_updates forwards failed binds to its provider, and a full refresh transfers memberOf.
    Overlay("memberof", local=("memberOf",)),
    Overlay("ppolicy", local=_LOCKOUT),
    Overlay("lastbind", local=("authTimestamp",)),
)
BY_NAME = {overlay.name: overlay for overlay in OVERLAYS}


def _attributes(shows: Shows) -> Iterator[str]:
    return (name for overlay in OVERLAYS if overlay.shows is shows for name in overlay.attributes)


CONTEXT_CSN = "contextCSN"
# Attributes that a server computes for an answer. No database should contain them, so ditseed never loads them.
COMPUTED = (*DYNAMIC_ATTRIBUTES, *(name for name in _attributes(Shows.LEFT_OUT) if name != CONTEXT_CSN))
MOVING = tuple(_attributes(Shows.MOVING))
# Attributes that may differ between a provider and a correct replica.
LOCAL = tuple(dict.fromkeys(name for overlay in OVERLAYS for name in overlay.local if name != "memberOf"))
# Attributes that slapd generates, so that they differ between two loads (slapd-config(5) olcLastMod, RFC 4512 3.4).
SERVER_ATTRIBUTES = (
    *("structuralObjectClass", "entryUUID", "entryCSN"),
    *("creatorsName", "createTimestamp", "modifiersName", "modifyTimestamp"),
)
_PPOLICY = ("pwdChangedTime", "pwdHistory", "pwdAccountTmpLockoutEnd")
# Attributes that no client may write (NO-USER-MODIFICATION), in lower case. Used if no schema can be read.
PROTECTED = tuple(map(str.lower, (*SERVER_ATTRIBUTES, CONTEXT_CSN, *LOCAL, *_PPOLICY)))


# When an entry is added, these overlays change the entries whose DNs are values of the new entry.
_CHANGING = ("autogroup", "memberof")
# These overlays may refuse a new entry if an entry whose DN is a value of the new entry is missing.
_REQUIRING = (*_CHANGING, "constraint")


def change_named_entries(names: Iterable[str]) -> bool:
    return any(name in _CHANGING or name not in BY_NAME for name in map(str.lower, names))


def require_named_entries(names: Iterable[str]) -> bool:
    """Returns whether one of these overlays may refuse a new entry because one of its values is the DN of no entry."""
    return any(name in _REQUIRING or name not in BY_NAME for name in map(str.lower, names))


def overlays_that_change_searches(names: Iterable[str]) -> list[Overlay]:
    """Returns the overlays among `names` with which a search does not show the stored data."""
    overlays = (BY_NAME.get(name.lower()) for name in names)
    return [overlay for overlay in overlays if overlay is not None and overlay.shows is Shows.OTHER]
