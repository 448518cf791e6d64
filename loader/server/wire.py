"""Bulk transfers of entries from a server: wraps the LDAP client of `loader._native`.

libldap connects and binds with ldapsearch's options; after that, no Python object is created per entry. The client's
errors are converted to LoaderErrors here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import ldap
from msgspec import structs

from loader import _native, errors
from loader._native import Channel, Counters, Feed, Part
from loader.ldif import with_counters
from loader.progress import Meter
from loader.server import refusals
from loader.server.options import Connection
from loader.server.session import SILENCE, bind_limit, connect_limit, session

__all__ = ["Channel", "Counters", "Feed", "Part", "reading"]

_OTHER = 80  # RFC 4511, appendix A
_KINDS: dict[str, type[errors.LoaderError]] = {
    "ldap.connect": errors.ServerDown,
    "ldap.lost": errors.ConnectionLost,
    "ldap.silent": errors.ServerSilent,
    "ldap.protocol": errors.NotLdap,
}


@contextmanager
def reading(connection: Connection, meter: Meter, base: str) -> Iterator[tuple[Channel, Counters]]:
    """Connects and binds, and unbinds after the body, which searches below `base`. A failed search makes the channel
    unusable. `meter` counts the entries, except those of a failed body.

    `Channel.part` writes files `NAME-000.ldif[.zst]`, `NAME-001...`, each of about 64 MiB of LDIF and with a `.rows`
    file; `Channel.file` writes one file without `.rows`, compressed if its name ends in .zst. Both sync the files, and
    remove those of earlier attempts. `Channel.sync` is a content synchronization (RFC 4533, refreshOnly); its `files`
    get the changed entries (LDIF), and the entryUUIDs of present and of deleted ones. `Channel.discard` only counts."""

    def translate(error: _native.NativeError) -> errors.LoaderError | None:
        if not error.code.startswith("ldap."):
            return None
        return as_loader_error(error, connection, "" if error.code == "ldap.bind" else base)

    with (
        with_counters(meter, translate=translate) as counters,
        closing(Channel(core_options(connection), counters)) as channel,
    ):
        yield channel, counters


class Link(Connection, frozen=True):
    """A connection as the core reads it. In seconds: `connect_timeout`, also for a handshake; `bind_timeout`, for
    StartTLS and each step of a bind; `silence`, how long a server that owes an answer may send nothing (0: no limit).
    """

    secret: bytes | None = None
    connect_timeout: float = 0.0
    bind_timeout: float = 0.0
    silence: float = 0.0


def core_options(connection: Connection) -> Link:
    """Returns the core's options for the connection. Raises NoSuchPath, NotPermitted for the password file."""
    account: dict[str, str | None] = {"authcid": None}
    if connection.mechanism:
        account = {"authcid": connection.authcid or connection.bind_dn, "bind_dn": None}
    limits = {"connect_timeout": connect_limit(), "bind_timeout": bind_limit(), "silence": SILENCE}
    return Link(**{**structs.asdict(connection), **account, **limits, "secret": connection.read_secret()})


def as_loader_error(error: _native.NativeError, connection: Connection, base: str) -> errors.LoaderError:
    """Returns the LoaderError for a code ldap.*. `base`: the base of the failed search; "" if no search was running."""
    if error.code == "ldap.library":
        return errors.LibldapMissing(reason=str(error))
    uri = connection.uri or ldap.get_option(ldap.OPT_URI) or "ldap://localhost"
    reason = str(error)
    # `tls_failure` supplies the details that libldap omits.
    may_be_tls = error.code in ("ldap.connect", "ldap.tls")
    if may_be_tls and (failed := refusals.tls_failure(uri, connection.start_tls, reason)):
        return failed
    if error.code == "ldap.tls":
        return errors.TlsFailed(uri=uri, reason=reason, advice=refusals.CERTIFICATE)
    if error.code in _KINDS:
        return _KINDS[error.code](uri=uri, reason=reason)
    operation = "bind" if error.code == "ldap.bind" else f"search {base}" if base else "add"
    # The core has closed its connection, so a new session asks for the details.
    refused = refusals.refused(connection, uri, operation, base, error.result or 0, reason, lambda: session(connection))
    is_transient = error.result == _OTHER and isinstance(refused, errors.ServerRefused)
    return errors.ConnectionLost(uri=uri, reason=reason) if is_transient else refused
