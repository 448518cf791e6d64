"""Identifies the server of a lease, whatever URI it was reached by when the lease was taken."""

from __future__ import annotations

from loader.config import Config, Database
from loader.errors import ConfigHidden
from loader.run.lease import ServerIdentity
from loader.server import configuration
from loader.server.session import Session


def mark(config: Config, database: Database) -> str:
    """Identifies a database of a server in the words of its cn=config, which are the same by every URI; "" if its
    cn=config shows no entryUUID."""
    own = config.values("cn=config", "entryUUID")
    return f"{own[0]} {database.directory}" if own and database.directory else ""


def identity(config: Config) -> ServerIdentity:
    """Returns the identity of a server, or of its slapd.d: its URI and its databases."""
    marks = (mark(config, one) for one in config.databases)
    return ServerIdentity(config.uri or "", frozenset(one for one in marks if one))


def of_server(server: Session) -> ServerIdentity:
    """Returns the URI alone if the account may not read cn=config."""
    try:
        return identity(configuration.read_online(server))
    except ConfigHidden:
        return ServerIdentity(server.uri)
