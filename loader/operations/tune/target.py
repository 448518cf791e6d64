"""What is to be changed, and what came of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from loader import slapd_conf
from loader.config import Change, Config, Database
from loader.errors import ConfigNotEditable, ServerRunning
from loader.run import lease
from loader.run.lease import recorded
from loader.run.log import killpoint
from loader.server import configuration, configuration_write, running
from loader.server.options import Connection
from loader.storage import files, holders

if TYPE_CHECKING:
    from loader.server.searches import MapPages
    from loader.server.session import Session


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


def changed(config: Config, database: Database, wanted: dict[str, tuple[str, ...]]) -> tuple[Change, ...]:
    """Changes of those settings that are not as `wanted`, in its order."""
    before = {name: config.values(database.entry_dn, name) for name in wanted}
    return tuple(Change(name, before[name], after) for name, after in wanted.items() if before[name] != after)


# --- directory -------------------------------------------------------------------------------------------------------
#
# Changing a slapd.d that no slapd runs on: one file of it is replaced, whole and checked.


BY_HAND = "Nothing was changed. Change it by hand, and tell us what this configuration looks like."


@contextmanager
def prepare_directory(config: Config, plan: Plan) -> Iterator[tuple[str, Callable[[], None]]]:
    """The change record, and what puts the changed entry's file in place.

    slapd's tools check exactly the bytes that are put in place.
    """
    real = configuration_write.entry_file(config.path, plan.database)
    old = _content(real)
    new = configuration_write.edited(old, config, plan.changes)
    found = configuration_write.check_directory(config, plan.database, new, plan.changes)
    require_only(config, found, plan)

    def publish() -> None:
        files.rewrite(real, old, new)

    yield configuration_write.change_record(plan.database.entry_dn, plan.changes), publish


def _content(file: Path) -> bytes:
    if not file.is_file():
        raise ConfigNotEditable(path=file, reason="no such file in slapd.d", advice=BY_HAND, lines=())
    return files.read(file)


def require_only(before: Config, after: Config, plan: Plan) -> None:
    """The change is there, and nothing else changed: read back by slapd's own tools."""
    databases = [one for one in after.databases if one.entry_dn == plan.database.entry_dn]
    others = configuration_write.other_differences(before, after, plan.database)
    if others:
        reason = f"the change would alter {', '.join(others[:5])} too"
        raise ConfigNotEditable(path=before.path, reason=reason, advice=BY_HAND, lines=())
    if not databases or not plan.holds(databases[0]):
        reason = "slapd's tools do not read the change back as it was made"
        raise ConfigNotEditable(path=before.path, reason=reason, advice=BY_HAND, lines=())


# --- target ----------------------------------------------------------------------------------------------------------
#
# The three forms a configuration has, behind one face: cn=config of a running server, slapd.d, slapd.conf.


@dataclass(frozen=True)
class Prepared:
    """A change that was made and checked beside the real configuration; `publish` makes it real. None for a slapd.conf,
    which the operator edits: `difference` has the lines to put there."""

    difference: str
    publish: Callable[[], None] | None


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

    def prepared(self, plan: Plan) -> AbstractContextManager[Prepared]: ...


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

    @contextmanager
    def prepared(self, plan: Plan) -> Iterator[Prepared]:
        if not configuration_write.keeps_changes(self.config):
            raise ConfigNotEditable(
                path=self.config.where,
                reason="the server runs on a slapd.conf, and would forget the change when it ends",
                advice="In the place of -H and its account, this prints the lines to change in the file: --config "
                + self.config.values("cn=config", "olcConfigFile")[0],
                lines=(),
            )

        def publish() -> None:
            configuration_write.modify(self.session, plan.database.entry_dn, plan.changes)

        yield Prepared(configuration_write.change_record(plan.database.entry_dn, plan.changes), publish)


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

    @contextmanager
    def prepared(self, plan: Plan) -> Iterator[Prepared]:
        if not self.config.is_directory:
            lines = lines_to_change(self.config, plan)
            yield Prepared("\n".join(lines), None)
            return
        require_stopped(self.config)
        files.require_writable(self.config.path)
        with prepare_directory(self.config, plan) as (difference, publish):
            yield Prepared(difference, publish)


def lines_to_change(config: Config, plan: Plan) -> list[str]:
    """The lines that the operator changes in a slapd.conf, and where they are."""
    suffix, text_of = plan.database.suffix, configuration.file_text
    return slapd_conf.lines_to_change(config.path, suffix, plan.changes, text_of)


def slapd_on(config: Config) -> int | None:
    """Process ID of the slapd that runs on a configuration, or has one of its databases open (0: in a container)."""
    found = running.slapd_on(config)
    if found is not None:
        return found
    for database in config.mdb_databases:
        pid = holders.holder(database.directory) if database.directory else None
        if pid is not None and (pid == 0 or running.is_slapd(pid)):
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


# --- change ----------------------------------------------------------------------------------------------------------
#
# Write down, then change: the one place where a setting of a server is changed.


def carry_out(target: Target, plan: Plan, apply: bool, first: Callable[[], Sequence[str]] | None = None) -> Outcome:
    """Check the change and, with `apply`, make it. `first`: what must be done before (new indexes);
    its notes.

    What holds already is not written again. Killed before the change is in place: the old settings stand, and the same
    command does it; after: it does nothing.
    """
    if plan.holds(plan.database):
        return Outcome(State.UNCHANGED)
    with target.prepared(plan) as prepared:
        if not apply:
            state = State.PROPOSED if prepared.publish else State.BY_HAND
            return Outcome(state, prepared.difference, plan.notes)
        if prepared.publish is None:
            raise ConfigNotEditable(
                path=target.config.where,
                reason="ditseed does not edit a slapd.conf",
                advice=EDIT,
                lines=(*prepared.difference.split("\n"), *plan.notes),
            )
        with recorded(*plan.records(target.config, target.place)):
            killpoint("tune.written-down")
            told = first() if first else ()
            killpoint("tune.before-change")
            prepared.publish()
            _require_in_force(target, plan)
        killpoint("tune.changed")
    return Outcome(State.CHANGED, prepared.difference, (*plan.notes, *told))


def _require_in_force(target: Target, plan: Plan) -> None:
    now = {one.entry_dn.lower(): one for one in target.read().databases}
    if not plan.holds(now[plan.database.entry_dn.lower()]):
        raise ConfigNotEditable(
            path=target.config.where, reason="the change was made, but is not seen", advice=BY_HAND, lines=()
        )
