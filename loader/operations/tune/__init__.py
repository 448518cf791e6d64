"""`tune`: shows, assesses and changes settings of a database. All changes go through `carry_out`, which checks a
change, makes it and reads it back. For a slapd.conf, it only returns the lines to change."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from loader import slapd_conf, units
from loader.config import Change, Config, Database
from loader.errors import ServerRunning
from loader.run.log import killpoint
from loader.server import configuration, tools
from loader.server.configuration import not_editable
from loader.server.options import Connection
from loader.storage import files, holders

if TYPE_CHECKING:
    from loader.server.session import Session

log = logging.getLogger(__name__)

EDIT = "Change these lines of the configuration, check it with `slaptest -u`, and restart slapd."


class Plan(Struct, frozen=True):
    """New settings of one database. `holds` returns whether a database has them already. `undo`: arguments of `ditseed
    tune` that revert the change, without those that name the server."""

    database: Database
    changes: tuple[Change, ...]
    holds: Callable[[Database], bool]
    undo: tuple[str, ...]
    index: tuple[str, ...] = ()  # attributes whose indexes must be built
    notes: tuple[str, ...] = ()


class State(str, Enum):
    UNCHANGED = "unchanged"  # the settings had the requested values already
    PROPOSED = "proposed"
    BY_HAND = "by_hand"  # the operator must edit the slapd.conf
    CHANGED = "changed"


class Outcome(Struct, frozen=True):
    """The result of a change. `difference`: LDIF change record of cn=config, or the lines to change in a slapd.conf.
    `undo`: command that restores the previous setting, or "" for a slapd.conf."""

    state: State
    difference: str = ""
    notes: tuple[str, ...] = ()
    undo: str = ""


class Target(Struct, frozen=True):
    """A slapd.d, a slapd.conf, or cn=config of a server. `arguments`: options of ditseed that name this target.
    `session`: None unless the target is a server. `local`: whether the databases are on this host."""

    config: Config
    arguments: tuple[str, ...]
    session: Session | None = None
    local: bool = True

    @classmethod
    def of_files(cls, config: Config) -> Target:
        return cls(config, ("--config", str(config.path.absolute())))

    def databases(self, suffix: str | None) -> Sequence[Database]:
        """Returns the database of `suffix`, or all mdb databases if `suffix` is None."""
        return [self.config.database(suffix)] if suffix is not None else self.config.mdb_databases

    def changes(self, database: Database, values: Mapping[str, tuple[str, ...]]) -> tuple[Change, ...]:
        """Returns a change for each attribute whose present values differ from `values`."""
        before = {name: self.config.values(database.entry_dn, name) for name in values}
        return tuple(Change(name, before[name], after) for name, after in values.items() if before[name] != after)

    def prepare(self, plan: Plan) -> tuple[str, Callable[[], None] | None]:
        """Checks the change on a copy of the configuration. Returns the difference as in `Outcome`, and a function that
        makes the change, or None for a slapd.conf, which only the operator edits. Raises ConfigNotEditable,
        ConfigRefused, ServerRunning, NotPermitted."""
        config, session, database = self.config, self.session, plan.database
        if session is None and not config.is_directory:
            lines = slapd_conf.lines_to_change(config.path, database.suffix, plan.changes)
            return "\n".join(lines), None
        record = configuration.change_record(database.entry_dn, plan.changes)
        if session is not None:
            if not configuration.keeps_changes(config):
                file = config.values("cn=config", "olcConfigFile")[0]
                reason = "the server runs on a slapd.conf, and would lose the change when it ends"
                advice = f"Give --config {file} instead of -H and its account, to print the lines to change."
                raise not_editable(config.where, reason, advice=advice)
            return record, lambda: configuration.modify(session, database.entry_dn, plan.changes)

        # The change replaces one file of the slapd.d, once slapd's tools have read the new file.
        require_stopped(config)
        files.require_writable(config.path)
        path, old, new, after = configuration.replacement(config, database, plan.changes)
        if not plan.holds(after):
            raise not_editable(config.path, "slapd's tools do not read the change back as it was made")
        return record, lambda: files.rewrite(path, old, new)


def require_stopped(
    config: Config,
    reason: str = "it would not notice a change of the files",
    advice: str = "Let it make the change: -H ldapi:/// -Y EXTERNAL instead of --config. Or stop it first.",
) -> None:
    """Raises ServerRunning if a slapd uses the configuration: slapd would ignore or overwrite changed files."""
    pid = tools.slapd_on(config)
    for database in config.mdb_databases if pid is None else ():
        holder = holders.holder(database.directory) if database.directory else None
        if holder is not None and (holder == 0 or tools.is_slapd(holder)):
            pid = holder
            break
    if pid is not None:
        raise ServerRunning(pid=pid or "in another container", path=config.path, reason=reason, advice=advice)


@contextmanager
def opened(where: Path | Connection) -> Iterator[Target]:
    if isinstance(where, Path):
        yield Target.of_files(configuration.read(where))
        return
    from loader.server.session import session  # python-ldap takes 40 ms to load

    with session(where) as bound:
        config = configuration.read_online(bound)
        yield Target(config, where.options(bound.uri), bound, bound.uri.lower().startswith("ldapi:"))


def carry_out(target: Target, plan: Plan, apply: bool, first: Callable[[], Sequence[str]] | None = None) -> Outcome:
    """Checks the change and, with `apply`, makes it. Before that, calls `first`, which builds new indexes and returns
    notes. Safe to kill and repeat."""
    if plan.holds(plan.database):
        return Outcome(State.UNCHANGED)
    config, suffix = target.config, plan.database.suffix
    difference, publish = target.prepare(plan)
    if publish is None:
        if not apply:
            return Outcome(State.BY_HAND, difference, plan.notes)
        lines = (*difference.split("\n"), *plan.notes)
        raise not_editable(config.where, "ditseed does not edit a slapd.conf", lines, EDIT)
    verb, *words = plan.undo
    undo = shlex.join(["ditseed", "tune", verb, *target.arguments, "-b", suffix, *words, "--apply"])
    if not apply:
        return Outcome(State.PROPOSED, difference, plan.notes, undo)
    log.info("%s: changing %s. To restore the previous setting: %s", config.where, suffix, undo)
    notes = first() if first else ()
    killpoint("tune.before-change")
    publish()
    after = configuration.read_online(target.session) if target.session else configuration.read(config.path)
    entry_dn = plan.database.entry_dn.lower()
    if not plan.holds(next(each for each in after.databases if each.entry_dn.lower() == entry_dn)):
        advice = f"Check the configuration before you repeat the command. To restore the previous setting: {undo}"
        raise not_editable(config.where, "the change is not in the configuration when read back", advice=advice)
    killpoint("tune.changed")
    return Outcome(State.CHANGED, difference, (*plan.notes, *notes), undo)


def maxsize_plan(target: Target, database: Database, size: int) -> Plan:
    return Plan(
        database=database,
        changes=target.changes(database, {"olcDbMaxSize": (str(size),)}),
        holds=lambda now: now.maxsize == size,
        undo=("maxsize", "--maxsize", str(database.maxsize)),
    )


def apply_maxsize(config: Config, database: Database, size: int) -> None:
    """Sets maxsize in a slapd.d. For a slapd.conf, logs the line to change. Raises ServerRunning, NotPermitted,
    ConfigNotEditable or ConfigRefused before it changes anything."""
    target = Target.of_files(config)
    outcome = carry_out(target, maxsize_plan(target, database, size), apply=config.is_directory)
    if outcome.state is State.BY_HAND:
        log.warning(
            "%s: maxsize of %s is %s, and the new database was made for %s. Change this before slapd starts: %s",
            *(config.path, database.suffix, units.size(database.maxsize), units.size(size)),
            " ".join(outcome.difference.split("\n")),
        )
