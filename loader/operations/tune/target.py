"""The one place where a setting of a server is changed: checked, written down, made, and read back.

A `Plan` says what is to become of one database. The configuration has three forms behind one face, `Target`: cn=config
of a running server, slapd.d, slapd.conf. A slapd.conf is never edited: the lines to change are shown.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from loader import slapd_conf, units
from loader.config import Change, Config, Database
from loader.errors import ConfigNotEditable, ServerRunning
from loader.run import lease
from loader.run.lease import recorded
from loader.run.log import killpoint
from loader.server import configuration, tools
from loader.server.options import Connection
from loader.storage import files, holders

if TYPE_CHECKING:
    from loader.server.session import MapPages, Session

log = logging.getLogger(__name__)

# Of a slapd.conf.
EDIT = "Change these lines of the configuration, check it with `slaptest -u`, and restart slapd."
BY_HAND = "Nothing was changed. Change it by hand, and tell us what this configuration looks like."


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
    return shlex.join(["ditseed", "tune", words[0], *place, "-b", database.suffix, *words[1:], "--apply"])


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


def changed(config: Config, database: Database, wanted: dict[str, tuple[str, ...]]) -> tuple[Change, ...]:
    """Changes of those settings that are not as `wanted`, in its order."""
    before = {name: config.values(database.entry_dn, name) for name in wanted}
    return tuple(Change(name, before[name], after) for name, after in wanted.items() if before[name] != after)


@dataclass(frozen=True)
class Prepared:
    """A change that was checked beside the real configuration; `publish` makes it real. None for a slapd.conf, which
    the operator edits: `difference` has the lines to put there."""

    difference: str
    publish: Callable[[], None] | None


def _by_hand(path: Path | str, reason: str, lines: tuple[str, ...] = (), advice: str = BY_HAND) -> ConfigNotEditable:
    return ConfigNotEditable(path=path, reason=reason, advice=advice, lines=lines)


def _prepare_directory(config: Config, plan: Plan) -> Prepared:
    """Of a slapd.d that no slapd runs on, one file is replaced by bytes that slapd's own tools have read: the change is
    there, and nothing else changed."""
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
    record = configuration.change_record(plan.database.entry_dn, plan.changes)
    return Prepared(record, lambda: files.rewrite(path, old, new))


class Target(Protocol):
    """Where settings are read and changed."""

    @property
    def config(self) -> Config: ...
    @property
    def place(self) -> tuple[str, ...]:
        """The options of ditseed that name it."""

    @property
    def local(self) -> bool:
        """Are the database directories those of this host?"""

    @property
    def online(self) -> bool: ...
    def read(self) -> Config: ...
    def map_pages(self, suffix: str) -> MapPages | None:
        """As the monitor of a running slapd counts them; None where no slapd is asked, or its monitor is hidden."""

    def prepare(self, plan: Plan) -> Prepared: ...


@dataclass(frozen=True)
class Online:
    """cn=config of a running server."""

    session: Session
    config: Config
    place: tuple[str, ...]
    local: bool
    online: bool = True

    def read(self) -> Config:
        return configuration.read_online(self.session)

    def map_pages(self, suffix: str) -> MapPages | None:
        return self.session.map_pages(suffix)

    def prepare(self, plan: Plan) -> Prepared:
        if not configuration.keeps_changes(self.config):
            file = self.config.values("cn=config", "olcConfigFile")[0]
            raise ConfigNotEditable(
                path=self.config.where,
                reason="the server runs on a slapd.conf, and would forget the change when it ends",
                advice="In the place of -H and its account, this prints the lines to change in the file: --config "
                + file,
                lines=(),
            )
        name, changes = plan.database.entry_dn, plan.changes
        record = configuration.change_record(name, changes)
        return Prepared(record, lambda: configuration.modify(self.session, name, changes))


@dataclass(frozen=True)
class Offline:
    """A slapd.d or slapd.conf."""

    config: Config
    local: bool = True
    online: bool = False

    @property
    def place(self) -> tuple[str, ...]:
        return ("--config", str(self.config.path.absolute()))

    def read(self) -> Config:
        return configuration.read(self.config.path)

    def map_pages(self, suffix: str) -> MapPages | None:
        return None

    def prepare(self, plan: Plan) -> Prepared:
        if not self.config.is_directory:
            return Prepared("\n".join(_lines_to_change(self.config, plan)), None)
        require_stopped(self.config)
        files.require_writable(self.config.path)
        return _prepare_directory(self.config, plan)


def _lines_to_change(config: Config, plan: Plan) -> list[str]:
    """The lines that the operator changes in a slapd.conf, and where they are."""
    return slapd_conf.lines_to_change(config.path, plan.database.suffix, plan.changes, configuration.file_text)


def databases_of(config: Config, suffix: str | None) -> Sequence[Database]:
    """The one of `suffix`, or every mdb database."""
    return [config.database(suffix)] if suffix is not None else config.mdb_databases


def slapd_on(config: Config) -> int | None:
    """Process ID of the slapd that runs on a configuration, or has one of its databases open (0: in a container)."""
    found = tools.slapd_on(config)
    if found is not None:
        return found
    for database in config.mdb_databases:
        pid = holders.holder(database.directory) if database.directory else None
        if pid is not None and (pid == 0 or tools.is_slapd(pid)):
            return pid
    return None


def require_stopped(config: Config) -> None:
    """Raise ServerRunning while a slapd runs on a slapd.d: it would not see the change, and would undo it."""
    pid = slapd_on(config)
    if pid is not None:
        raise ServerRunning(
            pid=pid or "in another container",
            path=config.path,
            reason="it would not see a change of the files",
            advice="Let it make the change: -H ldapi:/// -Y EXTERNAL in the place of --config. Or stop it first.",
        )


@contextmanager
def opened(where: Path | Connection) -> Iterator[Target]:
    """A slapd.d or slapd.conf (Path), or a server (Connection)."""
    if isinstance(where, Path):
        yield Offline(configuration.read(where))
        return
    from loader.server.session import session  # python-ldap takes 40 ms to load

    with session(where) as bound:
        config = configuration.read_online(bound)
        local = bound.uri.lower().startswith("ldapi:")
        yield Online(bound, config, where.options(bound.uri), local)


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
    with recorded(*plan.records(target.config, target.place)):
        killpoint("tune.written-down")
        told = first() if first else ()
        killpoint("tune.before-change")
        prepared.publish()
        now = {database.entry_dn.lower(): database for database in target.read().databases}
        if not plan.holds(now[plan.database.entry_dn.lower()]):
            raise _by_hand(where, "the change was made, but is not seen")
    killpoint("tune.changed")
    return Outcome(State.CHANGED, prepared.difference, (*plan.notes, *told))


def maxsize_plan(config: Config, database: Database, size: int) -> Plan:
    """maxsize of `database` set to `size` bytes."""
    return Plan(
        database=database,
        changes=changed(config, database, {"olcDbMaxSize": (str(size),)}),
        holds=lambda now: now.maxsize == size,
        words=("maxsize", "--maxsize", str(size)),
        undo=("maxsize", "--maxsize", str(database.maxsize)),
    )


def apply_maxsize(config: Config, database: Database, size: int) -> None:
    """Sets maxsize in the slapd.d that `config` was read from, unless it is so already. For a slapd.conf the line to
    change is logged. Raises ServerRunning, NotPermitted, ConfigNotEditable, ConfigRefused; then nothing was changed."""
    plan = maxsize_plan(config, database, size)
    if config.is_directory:
        carry_out(Offline(config), plan, apply=True)
    elif not plan.holds(database):
        log.warning(
            "%s: maxsize of %s is %s, and the new database was made for %s. Change this before slapd starts: %s",
            *(config.path, database.suffix, units.size(database.maxsize), units.size(size)),
            " ".join(_lines_to_change(config, plan)),
        )
