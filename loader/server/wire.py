"""Bulk transfers of entries from a server: wraps the LDAP client of `loader._native`.

libldap connects and binds with ldapsearch's options; after that, no Python object is created per entry. The client's
errors are converted to LoaderErrors here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import ldap
from msgspec import Struct

from loader import _native, errors
from loader._native import Counters, EntryDigests, Feed, Part, Synced
from loader.ldif import with_counters
from loader.progress import Meter
from loader.server import refusals
from loader.server.options import Connection, Search
from loader.server.session import SILENCE, bind_limit, connect_limit, session

__all__ = ["Feed", "Part", "Reader", "Synced", "reading"]

Result = TypeVar("Result")

_OTHER = 80  # RFC 4511, appendix A
_KINDS: dict[str, type[errors.LoaderError]] = {
    "ldap.connect": errors.ServerDown,
    "ldap.lost": errors.ConnectionLost,
    "ldap.silent": errors.ServerSilent,
    "ldap.protocol": errors.NotLdap,
}


class Reader:
    """A bound connection for successive searches, created by `reading`. It is unusable after a failed search."""

    def __init__(self, connection: Connection, counters: Counters) -> None:
        self.connection = connection
        self.counters = counters
        self._channel = self._call("", lambda: _native.Channel(core_options(connection), counters))

    def part(self, search: Search, directory: Path, name: str, drop: Sequence[str], *, compress: bool) -> Part:
        """Writes the entries into files `NAME-000.ldif[.zst]`, `NAME-001...`, each of about 64 MiB of LDIF and with a
        `.rows` file. Syncs all files. Removes files of earlier attempts. `drop`: attributes to omit."""
        return self._call(search.base, lambda: self._channel.part(search, directory, name, drop, compress=compress))

    def feed(self, search: Search, target: Feed, notes: Path, drop: Sequence[str], copy: Path | None) -> int:
        """Sends the found entries to `target` and to the file `copy`; returns their number. `notes`: the file to which
        the list of entries with children is written."""
        return self._call(search.base, lambda: self._channel.feed(search, target, notes, drop, copy))

    def file(self, search: Search, path: Path, drop: Sequence[str]) -> Part:
        """Like `part`, but writes a single file without `.rows`, compressed if its name ends in .zst."""
        return self._call(search.base, lambda: self._channel.file(search, path, drop))

    def sync(self, search: Search, cookie: str, most: int, out: tuple[Path, Path, Path], drop: Sequence[str]) -> Synced:
        """Runs a content synchronization (RFC 4533, refreshOnly). `out`: files for changed entries (LDIF), and for the
        entryUUIDs of present and of deleted entries. More than `most` changed entries make the reader unusable."""
        return self._call(search.base, lambda: self._channel.sync(search, cookie.encode(), most, out, drop))

    def digest(self, search: Search, tree: EntryDigests) -> None:
        """Adds every found entry to `tree`, which is unusable after an error."""
        self._call(search.base, lambda: self._channel.digest(search, tree))

    def discard(self, search: Search) -> None:
        """Receives and counts every entry, as the baseline of `bin/bench seed`."""
        self._call(search.base, lambda: self._channel.discard(search))

    def close(self) -> None:
        self._channel.close()

    def _call(self, base: str, use: Callable[[], Result]) -> Result:
        try:
            return use()
        except _native.NativeError as error:
            if not error.code.startswith("ldap."):
                raise  # an error of an output file or a cancelled step, which with_counters() translates
            raise as_loader_error(error, self.connection, base) from error


@contextmanager
def reading(connection: Connection, meter: Meter) -> Iterator[Reader]:
    """Connects and binds, and unbinds after the body. `meter` counts the entries, except those of a failed search."""
    with with_counters(meter) as counters, closing(Reader(connection, counters)) as reader:
        yield reader


class Link(Struct, frozen=True):
    """How to reach a server, and with which identity. None leaves a setting to ldap.conf.

    `start_tls`: 1 tries it, 2 demands it. In seconds: `connect_timeout`, also for a handshake; `bind_timeout`, for
    StartTLS and each step of a bind; `silence`, how long a server that owes an answer may send nothing (0: no limit).
    """

    uri: str | None
    bind_dn: str | None
    secret: bytes | None
    mechanism: str | None
    authcid: str | None
    authzid: str | None
    realm: str | None
    secprops: str | None
    as_written: bool
    start_tls: int
    connect_timeout: float
    bind_timeout: float
    silence: float

    def __repr__(self) -> str:
        return f"Link({self.uri})"  # without the secret


def core_options(connection: Connection) -> Link:
    """Returns the core's options for the connection. Raises NoSuchPath, NotPermitted for the password file."""
    return Link(
        uri=connection.uri,
        bind_dn=None if connection.mechanism else connection.bind_dn,
        secret=connection.secret(),
        mechanism=connection.mechanism,
        authcid=(connection.authcid or connection.bind_dn) if connection.mechanism else None,
        authzid=connection.authzid,
        realm=connection.realm,
        secprops=connection.properties,
        as_written=connection.as_written,
        start_tls=connection.start_tls,
        connect_timeout=connect_limit(),
        bind_timeout=bind_limit(),
        silence=SILENCE,
    )


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
