"""Does a slapd answer, and can it read its databases? Asked anonymously, and not for long."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ldap
import msgspec

from loader.errors import ConnectionLost, LoaderError, NotLdap, ServerDown, ServerRefused, TlsFailed
from loader.progress import Meter
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


# --- repeated --------------------------------------------------------------------------------------------------------
#
# Many small searches one after the other over one connection, as a simple client has them.


_STEP = 100  # searches between two signs of life
_LIMIT = 86400.0  # seconds for all of them


class Question(msgspec.Struct, frozen=True):
    """A search of a subtree, and how many entries it finds."""

    base: str
    filter: str
    entries: int


def seconds_of(server: Session, questions: Sequence[Question], meter: Meter) -> float:
    """How long they took. Raises ServerRefused if one finds another number of entries."""

    def talk(connection: Any) -> float:
        began = time.monotonic()
        for number, one in enumerate(questions, 1):
            entries = len(connection.search_ext_s(one.base, ldap.SCOPE_SUBTREE, one.filter))
            if entries != one.entries:
                reason = f"{one.filter}: {entries} entries found, {one.entries} expected"
                raise ServerRefused(uri=server.uri, operation="search", reason=reason)
            if not number % _STEP:
                meter.add(_STEP)
        return time.monotonic() - began

    return server.converse("searches", talk, limit=_LIMIT)


# --- entry count -----------------------------------------------------------------------------------------------------
#
# How many entries a provider has, where an account that may only read the tree asks.


_ENOUGH = 100  # entries in a sample
_MOST_COUNTED = 20_000
_SECONDS = 5  # for the server, which looks at every entry: enough for some five million
_STEPS = (8, 4)  # bits: samples of a 256th of the tree, and of a 16th
_EVEN = 1.5  # times that two samples beside each other may differ


def entries(server: Session, suffix: str, sampled: bool) -> int | None:
    """As slapd's monitor counts them, else by a sample (`sampled`: it is worth seconds of the server's work): about.
    None where neither tells."""
    counted = server.counted(suffix)
    return _by_sample(server, suffix) if counted is None and sampled else counted


def _by_sample(server: Session, suffix: str) -> int | None:
    """By the entries with the least entryUUIDs, if UUIDs are spread evenly: twice as many up to twice as far."""
    try:
        for bits in _STEPS:
            one, two = (_count(server, suffix, _below(bits - more)) for more in (0, 1))
            if one is None or two is None:
                return None
            if one >= _ENOUGH:
                even = one / _EVEN < two - one < one * _EVEN
                return two << (bits - 1) if even else None
    except LoaderError:
        pass
    return None


def _below(bits: int) -> str:
    """One of so many bits of the entryUUIDs: 8 for a 256th."""
    return f"(entryUUID<={(1 << 32 - bits) - 1:08x}-ffff-ffff-ffff-ffffffffffff)"


def _count(server: Session, suffix: str, where: str) -> int | None:
    found, whole = server.first(suffix, _MOST_COUNTED, ["1.1"], where, _SECONDS)
    return len(found) if whole else None
