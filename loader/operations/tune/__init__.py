"""`tune`: settings of a database shown, weighed and changed. A setting is changed here only: the change is checked,
written down, made, and read back.

A `Plan` says what is to become of one database. A `Target` is the configuration that has it: cn=config of a running
server, a slapd.d, or a slapd.conf. A slapd.conf is never edited: the lines to change are shown.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from loader import slapd_conf, units
from loader.config import Change, Config, Database
from loader.errors import ConfigNotEditable, ServerRunning
from loader.run import lease
from loader.run.log import killpoint
from loader.server import configuration, tools
from loader.server.options import Connection
from loader.storage import files, holders

if TYPE_CHECKING:
    from loader.server.session import MapPages, Session

log = logging.getLogger(__name__)

EDIT = "Change these lines of the configuration, check it with `slaptest -u`, and restart slapd."
BY_HAND = "Nothing was changed. Change it by hand, and tell us what this configuration looks like."


@dataclass(frozen=True)
class Plan:
    """New settings of one database. `holds` tells from a database whether they are in force.

    `words`: what `ditseed tune` is given for them, without the target; `undo`: the same for the old ones.
    """

    database: Database
    changes: tuple[Change, ...]
    holds: Callable[[Database], bool]
    words: tuple[str, ...]
    undo: tuple[str, ...]
    index: tuple[str, ...] = ()  # attributes that slapindex must go through
    notes: tuple[str, ...] = ()


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
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prepared:
    """A change that was checked beside the real configuration; `publish` makes it real. None for a slapd.conf, which
    the operator edits: `difference` has the lines to put there."""

    difference: str
    publish: Callable[[], None] | None


@dataclass(frozen=True)
class Target:
    """Where settings are read and changed: a slapd.d or slapd.conf, or cn=config of the server of `session`. `place`:
    the options of ditseed that name it. `local`: the database directories are those of this host."""

    config: Config
    place: tuple[str, ...]
    session: Session | None = None
    local: bool = True

    @classmethod
    def of_files(cls, config: Config) -> Target:
        return cls(config, ("--config", str(config.path.absolute())))

    @property
    def online(self) -> bool:
        return self.session is not None

    def read(self) -> Config:
        return configuration.read_online(self.session) if self.session else configuration.read(self.config.path)

    def map_pages(self, suffix: str) -> MapPages | None:
        """As the monitor of a running slapd counts them; None if no slapd is asked, or its monitor is hidden."""
        return self.session.map_pages(suffix) if self.session else None

    def databases(self, suffix: str | None) -> Sequence[Database]:
        """The one of `suffix`, or every mdb database."""
        return [self.config.database(suffix)] if suffix is not None else self.config.mdb_databases

    def changes(self, database: Database, wanted: Mapping[str, tuple[str, ...]]) -> tuple[Change, ...]:
        """Changes of those settings that are not as `wanted`, in its order."""
        before = {name: self.config.values(database.entry_dn, name) for name in wanted}
        return tuple(Change(name, before[name], after) for name, after in wanted.items() if before[name] != after)

    def prepare(self, plan: Plan) -> Prepared:
        """Raises ConfigNotEditable, ConfigRefused, ServerRunning, NotPermitted."""
        config, entry = self.config, plan.database.entry_dn
        if self.session is None and not config.is_directory:
            lines = slapd_conf.lines_to_change(config.path, plan.database.suffix, plan.changes, configuration.file_text)
            return Prepared("\n".join(lines), None)
        record = configuration.change_record(entry, plan.changes)
        session = self.session
        if session is None:
            return Prepared(record, _prepare_directory(config, plan))
        if not configuration.keeps_changes(config):
            file = config.values("cn=config", "olcConfigFile")[0]
            reason = "the server runs on a slapd.conf, and would forget the change when it ends"
            advice = (
                f"Give --config {file} in the place of -H and its account: that prints the lines to change in the file."
            )
            raise _by_hand(config.where, reason, advice=advice)
        return Prepared(record, lambda: configuration.modify(session, entry, plan.changes))


def _by_hand(path: Path | str, reason: str, lines: tuple[str, ...] = (), advice: str = BY_HAND) -> ConfigNotEditable:
    return ConfigNotEditable(path=path, reason=reason, advice=advice, lines=lines)


def _prepare_directory(config: Config, plan: Plan) -> Callable[[], None]:
    """In a slapd.d that no slapd runs on, one file is replaced by bytes that slapd's own tools have read: the change is
    there, and nothing else changed."""
    require_stopped(config)
    files.require_writable(config.path)
    path = configuration.entry_file(config.path, plan.database)
    if not path.is_file():
        raise _by_hand(path, "no such file in slapd.d")
    old = files.read(path)
    new = configuration.edited(old, config, plan.changes)
    after = configuration.check_directory(config, plan.database, new, plan.changes)
    if others := configuration.other_differences(config, after, plan.database):
        raise _by_hand(config.path, f"the change would alter {', '.join(others[:5])} too")
    databases = [database for database in after.databases if database.entry_dn == plan.database.entry_dn]
    if not databases or not plan.holds(databases[0]):
        raise _by_hand(config.path, "slapd's tools do not read the change back as it was made")
    return lambda: files.rewrite(path, old, new)


def slapd_on(config: Config) -> int | None:
    """Process ID of the slapd that runs on a configuration, or has one of its databases open (0: in a container)."""
    running_pid = tools.slapd_on(config)
    if running_pid is not None:
        return running_pid
    for database in config.mdb_databases:
        pid = holders.holder(database.directory) if database.directory else None
        if pid is not None and (pid == 0 or tools.is_slapd(pid)):
            return pid
    return None


def require_stopped(
    config: Config,
    reason: str = "it would not see a change of the files",
    advice: str = "Let it make the change: -H ldapi:/// -Y EXTERNAL in the place of --config. Or stop it first.",
) -> None:
    """Raises ServerRunning while a slapd runs on a slapd.d: it would not see the change, and would undo it."""
    pid = slapd_on(config)
    if pid is not None:
        raise ServerRunning(pid=pid or "in another container", path=config.path, reason=reason, advice=advice)


@contextmanager
def opened(where: Path | Connection) -> Iterator[Target]:
    """A slapd.d or slapd.conf (Path), or a server (Connection)."""
    if isinstance(where, Path):
        yield Target.of_files(configuration.read(where))
        return
    from loader.server.session import session  # python-ldap takes 40 ms to load

    with session(where) as bound:
        config = configuration.read_online(bound)
        yield Target(config, where.options(bound.uri), bound, bound.uri.lower().startswith("ldapi:"))


def carry_out(target: Target, plan: Plan, apply: bool, first: Callable[[], Sequence[str]] | None = None) -> Outcome:
    """Checks the change and, with `apply`, writes it down and makes it. `first` does what must come before (new
    indexes), and returns notes.

    What holds already is not written again. After a kill before the change is in place, the old settings hold and the
    same command goes on; after a later one it finds nothing to do.
    """
    if plan.holds(plan.database):
        return Outcome(State.UNCHANGED)
    where, prepared = target.config.where, target.prepare(plan)
    if not apply:
        return Outcome(State.PROPOSED if prepared.publish else State.BY_HAND, prepared.difference, plan.notes)
    if prepared.publish is None:
        lines = (*prepared.difference.split("\n"), *plan.notes)
        raise _by_hand(where, "ditseed does not edit a slapd.conf", lines, EDIT)
    with lease.recorded(*_records(target, plan)):
        killpoint("tune.written-down")
        notes = first() if first else ()
        killpoint("tune.before-change")
        prepared.publish()
        now = {database.entry_dn.lower(): database for database in target.read().databases}
        if not plan.holds(now[plan.database.entry_dn.lower()]):
            raise _by_hand(where, "the change was made, but is not seen")
    killpoint("tune.changed")
    return Outcome(State.CHANGED, prepared.difference, (*plan.notes, *notes))


def _records(target: Target, plan: Plan) -> Iterator[lease.Change]:
    suffix = plan.database.suffix
    command, undo = (
        shlex.join(["ditseed", "tune", words[0], *target.place, "-b", suffix, *words[1:], "--apply"])
        for words in (plan.words, plan.undo)
    )
    for one in plan.changes:
        yield lease.Change(target.config.where, suffix, one.attribute, one.before, one.after, command, undo)


def maxsize_plan(target: Target, database: Database, size: int) -> Plan:
    """maxsize of `database` set to `size` bytes."""
    return Plan(
        database=database,
        changes=target.changes(database, {"olcDbMaxSize": (str(size),)}),
        holds=lambda now: now.maxsize == size,
        words=("maxsize", "--maxsize", str(size)),
        undo=("maxsize", "--maxsize", str(database.maxsize)),
    )


def apply_maxsize(config: Config, database: Database, size: int) -> None:
    """Sets maxsize in the slapd.d that `config` was read from, unless it is so already. For a slapd.conf the line to
    change is logged. Raises ServerRunning, NotPermitted, ConfigNotEditable, ConfigRefused; then nothing was changed."""
    target = Target.of_files(config)
    outcome = carry_out(target, maxsize_plan(target, database, size), apply=config.is_directory)
    if outcome.state is State.BY_HAND:
        log.warning(
            "%s: maxsize of %s is %s, and the new database was made for %s. Change this before slapd starts: %s",
            *(config.path, database.suffix, units.size(database.maxsize), units.size(size)),
            " ".join(outcome.difference.split("\n")),
        )
