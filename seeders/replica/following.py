"""`replica follow` after the seeding: how far the consumer is behind its provider, until it has caught up."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from loader import csn
from loader.config import Config
from loader.errors import LoaderError
from loader.mdb import contents
from loader.server import configuration, questions, tools
from loader.server.options import Connection
from loader.server.session import session
from seeders.replica import waiting
from seeders.replica.waiting import CatchUp


class Standing(Struct, frozen=True):
    """How far the consumer is. `doing`, `behind`: in words. `consumer`, `provider`: their contextCSN, if both were
    read."""

    doing: str
    behind: str = ""
    consumer: tuple[str, ...] = ()
    provider: tuple[str, ...] = ()
    caught_up: bool = False


def standings(config_path: Path | None, uri: str | None, suffix: str | None) -> Iterator[Standing]:
    """Yields how far the consumer is, until it has caught up. Yields nothing if its olcSyncrepl has no password for the
    provider, or if a running consumer (`uri`) is not reached over ldapi. `config_path`: the consumer's configuration;
    then its contextCSN is read from its database.

    Raises LoaderError if the provider refuses, but not if it cannot be reached."""
    own = Connection(uri, mechanism="EXTERNAL")
    config = None if config_path is None else configuration.read(config_path)
    if config is None and not (uri or "").startswith("ldapi:"):
        return
    logins, state, standing = deque[Connection](), CatchUp("", dict), Standing("")
    while not standing.caught_up:
        try:
            if not logins:
                logins, state = _replication(config or _online(own), own, suffix, in_files=config is not None)
            if config is not None and not logins:
                return
            if not logins:
                standing = Standing("waiting for olcSyncrepl")
            elif config is not None and tools.slapd_on(config) is None:
                standing = Standing("waiting for slapd: it is not started")
            else:
                with questions.hurried(logins[0]) as provider:
                    is_done = state.is_done(provider)
                    doing = "caught up" if is_done else state.doing(provider)
                ours, theirs = (tuple(sorted(csns.values())) for csns in (state.has, state.wanted))
                standing = Standing(doing, waiting.behind(state.has, state.wanted), ours, theirs, is_done)
        except LoaderError as error:
            if not error.retryable:
                raise
            logins.rotate()
            standing = Standing(str(error))
        yield standing


def _replication(
    config: Config, own: Connection, suffix: str | None, in_files: bool
) -> tuple[deque[Connection], CatchUp]:
    """Returns the connections to the providers of the database with `suffix`, and the state of its catch-up.
    `in_files`: read the consumer's contextCSN from its database, instead of over the connection `own`."""
    database = config.database(suffix)
    values = config.values(database.entry_dn, "olcSyncrepl")
    logins = deque(filter(None, (configuration.provider_of(value, config.where) for value in values)))

    def read() -> dict[str, str]:
        if in_files:
            return csn.by_server(contents.context_csns(database.require_directory(config.path), database.suffix))
        return waiting.contextcsn_of(own, database.suffix)

    return logins, CatchUp(logins[0].base or "" if logins else "", read)


def _online(own: Connection) -> Config:
    with session(own) as server:
        return configuration.read_online(server)
