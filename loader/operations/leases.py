"""Leases that stand, of the server at hand: whatever URI it was reached by when they were taken."""

from __future__ import annotations

from loader.config import Config, Database
from loader.errors import ConfigHidden
from loader.run.lease import ServerIdentity
from loader.server import configuration
from loader.server.session import Session


def mark(config: Config, database: Database) -> str:
    """What tells a database of a server from all others, in the words of its cn=config, which its administrators see by
    every URI; "" where it says nothing."""
    own = config.values("cn=config", "entryUUID")
    return f"{own[0]} {database.directory}" if own and database.directory else ""


def known(config: Config) -> ServerIdentity:
    """A server, or the slapd.d of one, by its URI and its databases."""
    marks = (mark(config, one) for one in config.databases)
    return ServerIdentity(config.uri or "", frozenset(one for one in marks if one))


def of_server(server: Session) -> ServerIdentity:
    """By its URI alone where the account is not shown cn=config."""
    try:
        return known(configuration.read_online(server))
    except ConfigHidden:
        return ServerIdentity(server.uri)
