"""Adds entries to a running server over several connections, in LDAP transactions if the server supports them.

The part of loader._native that adds entries does the work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loader import _native
from loader._native import Loaded
from loader.errors import LoaderError
from loader.ldif import with_counters
from loader.progress import Meter
from loader.server import wire
from loader.server.options import Connection

if TYPE_CHECKING:
    from loader._native import LoadOptions

__all__ = ["MEMORY", "WINDOW", "WINDOW_SLAPD", "LoadOptions", "Loaded", "add"]

# A connection has at most this many pending requests: first on a fast network, then on any network. slapd logs a line
# for each request that it cannot begin at once. A connection gets 8 of 16 threads, and a thread stays busy for a moment
# after its answer. slapd closes the connection if 100 requests wait (conn_max_pending in slapd.conf(5)). Of 2,000 adds
# slapd deferred 3 to 14 with four pending, and 110 to 278 with six.
WINDOW_SLAPD = (4, 64)
WINDOW = (48, 64)
MEMORY = 64 << 20  # bytes for entries that wait for their parents or for the entries that they name


def add(connection: Connection, inputs: Sequence[Path | int], options: LoadOptions, meter: Meter) -> Loaded:
    """Adds every entry of `inputs` (an int is the descriptor of a stream) except those that the journal records."""

    def translate(error: _native.NativeError) -> LoaderError | None:
        return wire.as_loader_error(error, connection, "") if error.code.startswith("ldap.") else None

    with with_counters(meter, translate=translate) as counters, meter.following(counters):
        return _native.add(inputs, wire.core_options(connection), counters, options)
