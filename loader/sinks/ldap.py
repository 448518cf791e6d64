"""Sink: a running server, which gets adds over several connections, in LDAP transactions where it has these.

The door to the part of loader._native that adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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

# Requests under way on a connection. slapd writes a line to its log for each that it cannot begin at once (8 of 16
# threads for a connection, one of them for a moment after its answer, too), and hangs up when 100 wait
# (conn_max_pending; slapd.conf(5)). Of 2,000 adds it deferred 110 to 278 with six, and 3 to 14 with four.
_WINDOW_SLAPD = (4, 64)
_WINDOW = (48, 64)
_MEMORY = 64 << 20  # bytes for entries that wait for their parents or for the entries that they name


@dataclass(frozen=True)
class AddRules:
    """What is sent, and what is done with an entry that is there or that the server does not take.

    `batch`: entries a transaction; 0 finds out, 1 makes none. `leave_out`: attributes, whatever their options.
    `relax`: adds carry the relax control. `max_rate`: entries/s, 0 is without limit. `references`: attributes whose
    values are DNs of entries that the server looks for; an entry is sent after those that it names. `singly`: outside
    of transactions.
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
    """What outlives a load, so that it can go on. `uncertain`: any entry may have been added before `journal` began.

    `patience`: seconds that a server which is gone is tried again.
    """

    journal: Path
    rejects: Path
    uncertain: bool
    patience: float


def add(
    connection: Connection, inputs: Sequence[Input], offer: SubschemaInfo, rules: AddRules, notes: Journal, meter: Meter
) -> Loaded:
    """Add every entry of `inputs`; what the journal knows as done is not sent again."""
    options: _native.LoadOptions = {
        "exists": rules.exists,
        "leave_out": rules.leave_out,
        "relax": rules.relax,
        "jobs": rules.jobs,
        "batch": rules.batch,
        "max_rejects": rules.max_rejects,
        "max_rate": rules.max_rate,
        "transactions": offer.transactions,
        "contexts": offer.contexts,
        "aliases": offer.aliases,
        "references": rules.references,
        "singly": rules.singly,
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
        return _native.add(inputs, wire.link(connection), counters, options)
