"""Does a slapd answer, and can it read its databases? Asked anonymously, and not for long."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import ldap
import msgspec

from loader.errors import ConnectionLost, LoaderError, NotLdap, ServerDown, TlsFailed
from loader.server.options import Connection
from loader.server.session import Session, session

PATIENCE = 15.0  # seconds for one server: a plugin has a minute for all it asks
DEAD = (ServerDown, ConnectionLost, NotLdap)  # nobody answers there
_BROKEN = (ldap.OTHER, ldap.OPERATIONS_ERROR)  # what back-mdb answers if LMDB fails


class Answers(msgspec.Struct, frozen=True):
    """`silence`: why slapd answers at none of its URIs; empty if it answers. `failed`: suffixes of databases that it
    cannot read, and its words."""

    silence: str = ""
    failed: tuple[tuple[str, str], ...] = ()


def of(uris: Sequence[str], suffixes: Sequence[str]) -> Answers:
    """Raises TlsFailed if slapd has only URIs whose certificate libldap does not trust."""
    silent: list[str] = []
    untrusted: TlsFailed | None = None
    for uri in sorted(uris, key=_rank):
        try:
            with hurried(Connection(uri=uri.replace("//*", "//localhost"))) as server:
                return Answers("", tuple(_failed(server, suffixes)))
        except DEAD as error:
            silent.append(str(error))
        except TlsFailed as error:
            untrusted = error
        except LoaderError:
            return Answers()  # it answered that it takes no anonymous bind
    if untrusted is not None:
        raise untrusted
    return Answers("; ".join(silent))


def _rank(uri: str) -> int:
    """ldapi first, for slapd may demand encryption of the others; ldaps last, whose certificate may not be trusted."""
    return {"ldapi": 0, "ldaps": 2}.get(uri.partition(":")[0], 1)


@contextmanager
def hurried(connection: Connection) -> Iterator[Session]:
    """A session that is given up after PATIENCE: then it raises ServerDown or ConnectionLost."""
    late = threading.Event()
    timer = threading.Timer(PATIENCE, late.set)
    timer.daemon = True
    timer.start()
    try:
        with session(connection, late) as server:
            yield server
    finally:
        timer.cancel()


def _failed(server: Session, suffixes: Sequence[str]) -> Iterator[tuple[str, str]]:
    for suffix in suffixes:
        try:
            server.read(suffix, ["1.1"])
        except DEAD as error:
            yield suffix, str(error)
        except LoaderError as error:
            if isinstance(error.__cause__, _BROKEN):
                yield suffix, str(error)
