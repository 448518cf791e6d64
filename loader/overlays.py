"""How the overlays of slapd change the answers of a search, and how ditseed deals with each.

A replica must contain what its provider stores, but overlays can show more, less or other data. Each row of the table
was found by comparing search and slapcat on slapd 2.5.13 and 2.6.10 (tests/integration/test_overlays.py). Rows of
modules that Debian does not ship (`debian=False`) come from the source code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from loader.defaults import DYNAMIC_ATTRIBUTES


class Shows(Enum):
    """What ditseed's searches show if an overlay is configured, and the consequence."""

    STORED = "what is stored"
    LEFT_OUT = "computed attributes, which ditseed leaves out"
    SWITCHED_OFF = "what is stored, for ditseed sends a control that switches the overlay off"
    MOVING = "a stored attribute whose value depends on the time of the search; comparisons ignore it"
    OTHER = "something else than what is stored: no seed is made from a search"


@dataclass(frozen=True)
class Overlay:
    """One overlay. `attributes`: those that are computed (LEFT_OUT) or depend on the time (MOVING). `local`: attributes
    that each server stores for itself and does not replicate, so they may differ. `why`: the reason for `shows`."""

    name: str
    shows: Shows
    attributes: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    why: str = ""
    debian: bool = True


_LOCKOUT = ("pwdFailureTime", "pwdAccountLockedTime", "pwdGraceUseTime", "pwdLastSuccess")
_STORED = (
    *("auditlog", "autogroup", "constraint", "deref", "dyngroup", "homedir", "otp", "refint", "remoteauth"),
    *("seqmod", "smbk5pwd", "sssvlv", "unique"),
)

OVERLAYS: tuple[Overlay, ...] = (
    *(Overlay(name, Shows.STORED) for name in _STORED),
    Overlay(
        "accesslog",
        Shows.LEFT_OUT,
        ("auditContext",),
        why="accesslog_operational adds the suffix of the log to the suffix entry",
    ),
    Overlay(
        "syncprov",
        Shows.LEFT_OUT,
        ("contextCSN",),
        why="shown newer than stored; ditseed asks for it by itself and writes it last",
    ),
    Overlay(
        "dynlist", Shows.SWITCHED_OFF, why="with ManageDsaIT it adds neither members of dynamic groups nor memberOf"
    ),
    Overlay(
        "valsort",
        Shows.SWITCHED_OFF,
        why="it takes the weights {n} off values, except where its own control says not to sort",
    ),
    Overlay(
        "dds",
        Shows.MOVING,
        ("entryTtl",),
        why="the time that is left is shown, as syncrepl sees it too; the whole time is stored",
    ),
    Overlay("collect", Shows.OTHER, why="values of an entry appear in all entries below it"),
    Overlay("rwm", Shows.OTHER, why="names of attributes and object classes, and DNs, are mapped"),
    Overlay(
        "translucent",
        Shows.SWITCHED_OFF,
        why="with ManageDsaIT it shows the local entries alone, those that a build or clone holds",
    ),
    Overlay("pcache", Shows.OTHER, why="entries are those of another server"),
    Overlay("retcode", Shows.STORED, why="with retcode-indir a search fails, and that is told"),
    Overlay(
        "memberof",
        Shows.STORED,
        local=("memberOf",),
        why="each server keeps memberOf for itself (o_dont_replicate); a full refresh brings it",
    ),
    Overlay(
        "ppolicy",
        Shows.STORED,
        local=_LOCKOUT,
        why="a consumer notes failed binds for itself unless ppolicy_forward_updates is set",
    ),
    Overlay(
        "lastbind",
        Shows.STORED,
        local=("authTimestamp",),
        why="each server notes binds for itself (o_dont_replicate); the directive `lastbind` does the same with "
        "pwdLastSuccess",
    ),
    Overlay(
        "allowed",
        Shows.LEFT_OUT,
        ("allowedAttributes", "allowedAttributesEffective", "allowedChildClasses", "allowedChildClassesEffective"),
        why="contrib/slapd-modules/allowed: aa_operational",
        debian=False,
    ),
    *(
        Overlay(name, Shows.OTHER, why=f"contrib/slapd-modules/{name}", debian=False)
        for name in ("adremap", "cloak", "datamorph", "dupent", "variant")
    ),
)
BY_NAME = {one.name: one for one in OVERLAYS}


def _all(shows: Shows) -> Iterator[str]:
    return (name for one in OVERLAYS if one.shows is shows for name in one.attributes)


CONTEXT_CSN = "contextCSN"
# Attributes that a server computes for an answer. No database should contain them, and none is loaded from any source
# (slapadd 2.6.14 even damages the attributes next to them).
COMPUTED = (*DYNAMIC_ATTRIBUTES, *(name for name in _all(Shows.LEFT_OUT) if name != CONTEXT_CSN))
MOVING = tuple(_all(Shows.MOVING))
# Attributes that may differ between a provider and a correct replica.
LOCAL = tuple(dict.fromkeys(name for one in OVERLAYS for name in one.local if name != "memberOf"))


# When an entry is added, these overlays change the entries that it names, or refuse it if those are missing.
_CHANGING = ("autogroup", "memberof")
_LOOKING = (*_CHANGING, "constraint")


def change_named_entries(names: Iterable[str]) -> bool:
    return any(name in _CHANGING or name not in BY_NAME for name in map(str.lower, names))


def look_for_named_entries(names: Iterable[str]) -> bool:
    """Whether an entry must be added after the entries that it names."""
    return any(name in _LOOKING or name not in BY_NAME for name in map(str.lower, names))


def overlays_that_change_searches(names: Iterable[str]) -> list[Overlay]:
    """Returns the overlays among `names` with which a search does not show the stored data."""
    found = (BY_NAME.get(name.lower()) for name in names)
    return [one for one in found if one is not None and one.shows is Shows.OTHER]
