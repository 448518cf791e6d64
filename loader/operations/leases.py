"""Identifies the server of a lease, whatever URI was used to connect to it."""

from __future__ import annotations

from loader.config import Config, Database
from loader.errors import ConfigHidden
from loader.run.lease import ServerIdentity
from loader.server import configuration
from loader.server.session import Session


def mark(config: Config, database: Database) -> str:
    """Returns the entryUUID of cn=config and the directory of the database, which do not depend on the URI. Returns ""
    if cn=config shows no entryUUID."""
    uuids = config.values("cn=config", "entryUUID")
    return f"{uuids[0]} {database.directory}" if uuids and database.directory else ""


def identity(config: Config) -> ServerIdentity:
    """Returns the identity of the server that has this configuration: its URI and its databases."""
    marks = frozenset(mark(config, database) for database in config.databases)
    return ServerIdentity(config.uri or "", marks - {""})


def of_server(server: Session) -> ServerIdentity:
    """Returns the identity of a server; only its URI if the account may not read cn=config."""
    try:
        return identity(configuration.read_online(server))
    except ConfigHidden:
        return ServerIdentity(server.uri)
