"""Sink: a running server. Adds are sent over several connections, in LDAP transactions if the server supports them.

Wraps the part of loader._native that adds entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from loader import _native
from loader._native import Loaded
from loader.errors import LoaderError
from loader.ldif import with_counters
from loader.progress import Meter
from loader.server import wire
from loader.server.options import Connection
from loader.server.questions import SubschemaInfo

__all__ = ["Loaded"]

Input = Path | int  # an int is the descriptor of a stream

# Pending requests per connection. slapd logs a line for each request that it cannot begin at once: a connection gets 8
# of 16 threads, and a thread stays busy for a moment after its answer. slapd closes the connection if 100 requests wait
# (conn_max_pending; slapd.conf(5)). Of 2,000 adds slapd deferred 110 to 278 with six pending, and 3 to 14 with four.
_WINDOW_SLAPD = (4, 64)
_WINDOW = (48, 64)
_MEMORY = 64 << 20  # bytes for entries that wait for their parents or for the entries that they name


@dataclass(frozen=True)
class AddRules:
    """How entries are sent, and how existing and refused entries are treated.

    `batch`: entries per transaction; 0: chosen automatically, 1: no transactions. `leave_out`: attributes to omit, with
    any options. `relax`: send the relax control. `max_rate`: entries/s; 0: no limit. `references`: attributes whose
    values are DNs that the server looks up; an entry is sent after the entries that these values name. `singly`: send
    such entries outside of transactions.
    """

    exists: str
    leave_out: Sequence[str]
    references: Sequence[str] = ()
    singly: bool = False
    relax: bool = False
    jobs: int = 2
    batch: int = 0
    max_rejects: int = 0
    max_rate: int = 0


@dataclass(frozen=True)
class Journal:
    """The files from which an interrupted load resumes. `uncertain`: entries may have been added before the journal.

    `patience`: seconds for which an unreachable server is retried.
    """

    journal: Path
    rejects: Path
    uncertain: bool
    patience: float


def add(
    connection: Connection, inputs: Sequence[Input], offer: SubschemaInfo, rules: AddRules, notes: Journal, meter: Meter
) -> Loaded:
    """Adds every entry of `inputs` except those that the journal records as done."""
    options = {
        **vars(rules),
        "transactions": offer.transactions,
        "contexts": offer.contexts,
        "aliases": offer.aliases,
        "window": _WINDOW_SLAPD if offer.openldap else _WINDOW,
        "journal": str(notes.journal),
        "rejects": str(notes.rejects),
        "scratch": str(notes.journal.parent),
        "memory": _MEMORY,
        "all_uncertain": notes.uncertain,
        "patience": notes.patience,
    }

    def translate(error: _native.NativeError) -> LoaderError | None:
        return wire.ours(error, connection, "") if error.code.startswith("ldap.") else None

    with with_counters(meter, translate=translate) as counters, meter.following(counters):
        return _native.add(inputs, wire.link(connection), counters, cast("_native.LoadOptions", options))
