"""Where the native engine is not proven to write what slapd would: refused by name, before any work."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Mapping

from loader import backmdb, units
from loader.backmdb import Settings
from loader.config import Config, Database
from loader.errors import NotProven, TooManyEntries
from loader.operations.build.options import BuildOptions
from loader.server import version
from loader.server.version import Release
from loader.settings import require
from loader.sinks.mdb import Table

OLDEST, NEWEST = (2, 4, 57), (2, 8, 0)  # proven from the one on, and before the other
MOST_ENTRIES = 2**32 - 3  # as positions.rs of the core has it
LONGEST_INTLEN = 8  # bytes of a key; longer ones were never compared
_SINCE: dict[Table, Release] = {"id2v": (2, 5, 0), "ixck": (2, 6, 0)}
_ENV_FLAGS = {"nosync", "nometasync", "writemap", "mapasync", "nordahead"}  # slapd-mdb(5)


def settings(
    config: Config, database: Database, options: BuildOptions, superior: Database | None = None
) -> Settings:
    """What the configuration says of the database, as `backmdb.settings` has it. Raises NotProven,
    SettingRefused."""
    require(config, database, superior or database)
    found = backmdb.settings(config, database, superior, is_2_7())
    for reason in (
        *_of_host(),
        *_of_settings(database, found),
        *_of_context(found, options),
    ):
        raise NotProven(reason=reason)
    return found


def require_keys(found: Settings) -> None:
    """Are the index keys of such settings known, on this host? Raises NotProven."""
    for reason in (*_of_host(), *_of_keys(found)):
        raise NotProven(reason=reason)


def require_numbers(entries: int | None, options: BuildOptions, source: str = "") -> None:
    """Before the first of so many entries is read; None: nobody knows. `source`: where they are, if that is no file.
    Raises TooManyEntries."""
    if entries is not None and entries > MOST_ENTRIES:
        inputs = source or ", ".join(map(str, options.inputs)) or "the template"
        counts = (
            f"{units.number(entries)} entries, at most {units.number(MOST_ENTRIES)} in a database"
        )
        raise TooManyEntries(path=inputs, reason=counts)


def _of_host() -> Iterator[str]:
    if sys.byteorder != "little" or struct.calcsize("P") != 8:
        yield "this host is not a 64-bit one with the low byte first"


def _of_settings(database: Database, found: Settings) -> Iterator[str]:
    yield from _of_keys(found)
    for flag in database.env_flags:
        if flag.lower() not in _ENV_FLAGS:
            yield f"envflags {flag}"


def _of_keys(found: Settings) -> Iterator[str]:
    if found.intlen > LONGEST_INTLEN:
        yield f"index_intlen is {found.intlen}, more than {LONGEST_INTLEN}"


def _of_context(found: Settings, options: BuildOptions) -> Iterator[str]:
    if found.subentry and options.write_context:
        yield "sync_use_subentry puts contextCSN into an entry of its own"


def require_rules(foreign: Mapping[str, str], unproven: Mapping[str, str]) -> None:
    """`foreign`: attribute types of the schema, with a matching rule or syntax that is not OpenLDAP's own.
    `unproven`: those that the settings name (index, multival, sortvals), with one that the core does not follow."""
    for name, rule in sorted(foreign.items()):
        raise NotProven(reason=f"{name} has {rule}, which a module brings that is not OpenLDAP's")
    for name, rule in sorted(unproven.items()):
        raise NotProven(reason=f"{name}, which the configuration indexes or sorts, has {rule}")


def tables() -> tuple[Table, ...]:
    """Which of the tables that not every slapd has are there with the installed one."""
    release = version.release()
    if release is None:
        raise NotProven(reason="slapd -VV does not say which OpenLDAP this is")
    if not OLDEST <= release < NEWEST:
        raise NotProven(reason=f"OpenLDAP {_text(release)}; it is from {_text(OLDEST)} up to 2.7")
    return tuple(name for name, since in _SINCE.items() if release >= since)


def is_2_7() -> bool:
    """Whether the installed slapd is of OpenLDAP 2.7 or later."""
    return (version.release() or OLDEST) >= (2, 7, 0)


def _text(release: Release) -> str:
    return ".".join(map(str, release))
