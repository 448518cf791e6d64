"""The three forms a configuration has, behind one face: cn=config of a running server, slapd.d, slapd.conf."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from loader import slapd_conf
from loader.config import Config
from loader.errors import ConfigNotEditable, ServerRunning
from loader.operations.tune.directory import prepare_directory
from loader.operations.tune.plan import Plan
from loader.server import configuration, configuration_write, running
from loader.server.options import Connection
from loader.storage import files, holders

if TYPE_CHECKING:
    from loader.server.session import Session
    from loader.server.suffixes import MapPages


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

        yield Prepared(
            configuration_write.change_record(plan.database.entry_dn, plan.changes), publish
        )


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
