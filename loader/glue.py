"""Glued databases (slapd.conf(5), `subordinate`): which database holds what, as slapd decides it.

A subordinate database is glued to the first database behind it in the configuration that is none itself and whose
suffix is above its own (backglue.c, glue_sub_attach): so nested subordinates all hang on the one superior.
"""

from __future__ import annotations

from collections.abc import Iterator

from loader import dn
from loader.config import Config, Database


def is_subordinate(config: Config, database: Database) -> bool:
    """olcSubordinate is TRUE, or "advertise"."""
    return bool(config.values(database.entry_dn, "olcSubordinate"))


def superior(config: Config, database: Database) -> Database | None:
    """What a subordinate database is glued to."""
    if not is_subordinate(config, database):
        return None
    behind = config.databases[config.databases.index(database) + 1 :]
    return next(
        (
            one
            for one in behind
            if not is_subordinate(config, one) and dn.is_below(database.suffix, one.suffix)
        ),
        None,
    )


def subordinates(config: Config, database: Database) -> list[Database]:
    """The databases that are glued to this one, of whatever backend, in the order of the configuration."""
    return [one for one in config.databases if superior(config, one) == database]


def suffixes_below(config: Config, database: Database) -> list[str]:
    """Suffixes of other databases below this one's, each once, in the order of the configuration: slapd looks for their
    entries there. Hidden and disabled databases answer for none (backend.c, select_backend)."""
    return list({dn.key(suffix): suffix for suffix in _below(config, database)}.values())


def _below(config: Config, database: Database) -> Iterator[str]:
    for other in config.databases:
        if other.entry_dn == database.entry_dn or _is_out(config, other):
            continue
        inner = (suffix for suffix in other.suffixes if dn.key(suffix))
        yield from (one for one in inner if any(dn.is_below(one, own) for own in database.suffixes))


def _is_out(config: Config, database: Database) -> bool:
    found = config.reader(database.entry_dn)
    return any(found.flag(name, False) for name in ("olcHidden", "olcDisabled"))
