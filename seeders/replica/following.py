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
from seeders.replica import catchup, waiting


class Standing(Struct, frozen=True):
    """How far the consumer is. `doing`, `behind`: in words. `consumer`, `provider`: their contextCSN, if both were
    read."""

    doing: str
    behind: str = ""
    consumer: list[str] = []
    provider: list[str] = []
    caught_up: bool = False


def standings(config_path: Path | None, uri: str | None, suffix: str | None) -> Iterator[Standing]:
    """Yields how far the consumer is, until it has caught up. Yields nothing if its olcSyncrepl has no password for the
    provider, or if a running consumer (`uri`) is not reached over ldapi. `config_path`: the consumer's configuration;
    then its contextCSN is read from its database.

    Raises LoaderError if the provider refuses, but not if it cannot be reached."""
    own, logins = Connection(uri, mechanism="EXTERNAL"), deque[Connection]()
    config = None if config_path is None else configuration.read(config_path)
    if config is None and not (uri or "").startswith("ldapi:"):
        return
    has, answer, standing = dict[str, str](), None, Standing("waiting for olcSyncrepl")
    while not standing.caught_up:
        try:
            if not logins:
                found = config or _online(own)
                database = found.database(suffix)
                values = found.values(database.entry_dn, "olcSyncrepl")
                logins.extend(filter(None, (configuration.provider_of(value, found.where) for value in values)))
            if config is not None and not logins:
                return
            if config is not None and tools.slapd_on(config) is None:
                standing = Standing("waiting for slapd: it is not started")
            elif logins:
                with questions.hurried(logins[0]) as provider:
                    base = provider.base()
                    wanted, before = waiting.provided(provider, base), has
                    if config is not None:
                        directory = database.require_directory(config.path)
                        has = csn.by_server(contents.context_csns(directory, database.suffix))
                    else:
                        has = waiting.contextcsn_of(own, database.suffix)
                    is_done, context = csn.is_covered_by(wanted, has), provider.context_of(base)
                    if has and not is_done and (answer is None or has != before):
                        answer = waiting.answer_to(provider, context, has)
                    entries = provider.entry_count(context) if answer in catchup.COSTLY else None
                doing = "caught up" if is_done else waiting.doing_of(answer, entries, bool(has))
                ours, theirs = sorted(has.values()), sorted(wanted.values())
                standing = Standing(doing, waiting.behind(has, wanted), ours, theirs, is_done)
        except LoaderError as error:
            if not error.retryable:
                raise
            logins.rotate()
            standing = Standing(str(error))
        yield standing


def _online(own: Connection) -> Config:
    with session(own) as server:
        return configuration.read_online(server)
