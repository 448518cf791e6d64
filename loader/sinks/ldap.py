"""Adds entries to a running server over several connections, in LDAP transactions if the server supports them.

The part of loader._native that adds entries does the work."""

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

# A connection has at most this many pending requests: first on a fast network, then on any network. slapd logs a line
# for each request that it cannot begin at once. A connection gets 8 of 16 threads, and a thread stays busy for a moment
# after its answer. slapd closes the connection if 100 requests wait (conn_max_pending in slapd.conf(5)). Of 2,000 adds
# slapd deferred 3 to 14 with four pending, and 110 to 278 with six.
WINDOW_SLAPD = (4, 64)
WINDOW = (48, 64)
MEMORY = 64 << 20  # bytes for entries that wait for their parents or for the entries that they name


class LoadOptions(Struct, frozen=True):
    """The options of `add`. `batch`: entries per transaction; 0 finds the number itself, 1 uses no transactions.

    `window`: requests that may wait for their answers on a connection, for a fast link and at most. `exists`: what to
    do with an entry whose DN exists already. `leave_out`: attributes (matched in any case, with any options).
    `contexts`: the server's suffixes. `aliases`: (other name, name that the server shows) in lower case. `rejects`:
    LDIF of rejected entries with their reasons, created at the first one. `max_rate`: entries per second, 0 is
    unlimited. `journal`: created, or continued. `all_uncertain`: any entry may have been added by an earlier load.
    `references`: attributes that name other entries, which are sent first; `singly`: outside of transactions. `memory`:
    bytes for entries that wait for others; more of them go to unnamed files in `scratch`. `patience`: seconds for which
    an unreachable server is retried."""

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
    """Adds every entry of `inputs` (an int is the descriptor of a stream) except those that the journal records."""

    def translate(error: _native.NativeError) -> LoaderError | None:
        return wire.as_loader_error(error, connection, "") if error.code.startswith("ldap.") else None

    with with_counters(meter, translate=translate) as counters, meter.following(counters):
        return _native.add(inputs, wire.core_options(connection), counters, options)
