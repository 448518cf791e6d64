"""Adds entries to a running server with native/load: over several connections, in LDAP transactions if possible."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from loader import _native
from loader._native import Loaded
from loader.errors import LoaderError
from loader.ldif import with_counters
from loader.progress import Meter
from loader.server import wire
from loader.server.options import Connection

__all__ = ["MEMORY", "WINDOW", "WINDOW_SLAPD", "LoadOptions", "Loaded", "add"]

# Limit of pending requests on a connection, to slapd and to other servers: on a fast network, and on the slowest. slapd
# logs a line for each request that it must defer: a connection gets 8 of 16 threads, and a thread stays busy for a
# moment after its answer. With 4 pending requests slapd deferred 3 to 14 of 2,000 adds, with 6 it deferred 110 to 278.
# slapd closes a connection with 100 waiting requests (conn_max_pending in slapd.conf(5)).
WINDOW_SLAPD = (4, 64)
WINDOW = (48, 64)
MEMORY = 64 << 20  # bytes for entries that wait for their parents or for the entries that they name


class LoadOptions(Struct, frozen=True):
    """The options of `add`. `batch`: entries per transaction; 0: automatic, 1: no transactions.

    `window`: as WINDOW. `exists`: what to do with an entry whose DN exists already, as --on-exists. `leave_out`: names
    of attributes that are not sent, in any case and with any attribute options. `contexts`: the server's suffixes.
    `aliases`: pairs of another name and the name that the server shows, in lower case. `rejects`: file for rejected
    entries with their reasons, created at the first rejection. `max_rate`: entries per second; 0: no limit. `journal`:
    file that is created or continued. `all_uncertain`: an earlier load may have added any of the entries. `references`:
    attributes whose values are DNs of other entries, which are sent first. `singly`: send entries with `references`
    outside of transactions. `memory`: bytes for entries that wait for other entries; further waiting entries are in
    unnamed files in `scratch`. `patience`: seconds for which an unreachable server is retried."""

    jobs: int
    batch: int
    transactions: bool
    window: tuple[int, int]
    exists: str
    leave_out: Sequence[str]
    relax: bool
    contexts: Sequence[str]
    aliases: Sequence[tuple[str, str]]
    references: Sequence[str]
    singly: bool
    max_rejects: int
    rejects: Path
    max_rate: int
    journal: Path
    all_uncertain: bool
    memory: int
    scratch: Path
    patience: float


def add(connection: Connection, inputs: Sequence[Path | int], options: LoadOptions, meter: Meter) -> Loaded:
    """Adds the entries of `inputs` (an int is the descriptor of a stream) that the journal does not record yet."""

    def translate(error: _native.NativeError) -> LoaderError | None:
        return wire.as_loader_error(error, connection, "") if error.code.startswith("ldap.") else None

    with with_counters(meter, translate=translate) as counters, meter.following(counters):
        return _native.add(inputs, wire.core_options(connection), counters, options)
