"""What is to be changed, and what came of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from loader.config import Change, Config, Database
from loader.run import lease


@dataclass(frozen=True)
class Plan:
    """New settings of one database. `holds` tells from a database whether they are in force.

    `undo`: what `ditseed tune` must be given to put the old ones back, without the target.
    """

    database: Database
    changes: tuple[Change, ...]
    holds: Callable[[Database], bool]
    words: tuple[str, ...]
    undo: tuple[str, ...]
    index: tuple[str, ...] = ()  # attributes that slapindex must go through
    notes: tuple[str, ...] = ()

    def records(self, config: Config, place: tuple[str, ...]) -> list[lease.Change]:
        """For the log of changes. `place`: the options that name the target."""
        return [
            lease.Change(
                target=config.where,
                database=self.database.suffix,
                attribute=one.attribute,
                before=one.before,
                after=one.after,
                command=command(self.words, place, self.database),
                undo=command(self.undo, place, self.database),
            )
            for one in self.changes
        ]


def command(words: tuple[str, ...], place: tuple[str, ...], database: Database) -> str:
    """The command line that does it."""
    return shlex.join(
        ["ditseed", "tune", words[0], *place, "-b", database.suffix, *words[1:], "--apply"]
    )


# Of a slapd.conf.
EDIT = "Change these lines of the configuration, check it with `slaptest -u`, and restart slapd."


class State(str, Enum):
    UNCHANGED = "unchanged"  # it was so already
    PROPOSED = "proposed"
    BY_HAND = "by_hand"  # a slapd.conf: the operator edits it
    CHANGED = "changed"


@dataclass(frozen=True)
class Outcome:
    """`difference`: the LDIF change record of cn=config, or the lines to change in a slapd.conf."""

    state: State
    difference: str = ""
    notes: tuple[str, ...] = field(default_factory=tuple)


def changed(
    config: Config, database: Database, wanted: dict[str, tuple[str, ...]]
) -> tuple[Change, ...]:
    """Changes of those settings that are not as `wanted`, in its order."""
    before = {name: config.values(database.entry_dn, name) for name in wanted}
    return tuple(
        Change(name, before[name], after) for name, after in wanted.items() if before[name] != after
    )
