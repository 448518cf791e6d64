"""What a consumer's first refresh costs: seconds, and bytes of its memory. Measured; docs/catch-up.md has the figures.

The consumer is the slower of the two in every kind of answer, and works on one processor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from loader import units
from loader.config import Config
from loader.server.sync import SyncAnswer

_START = 0.2  # seconds: to connect, bind and ask
_BUCKETS = 65536  # AVL trees, by the first two bytes: slapd's list of entryUUIDs
_NAMED = 2.4e-6  # seconds an entryUUID while the trees have few nodes
_DEEPER = 1.1e-6  # more for twice as many nodes in the trees: one more look into cold memory
_SHALLOW = 2.2  # doublings that _NAMED pays for
_ENTRY = 28e-6  # seconds an entry that comes whole and is found unchanged
_LINES_NAMED, _LINES_ENTRY = 9.7e-6, 72e-6  # more, where the consumer's log level is `sync`
_UUID = 84  # bytes of the consumer for each entryUUID it remembers; entries that come whole are remembered too
_SYNC = 16384  # the bit of the log level
_SIZES = (1_000_000, 10_000_000, 30_000_000)  # entries, for a tree whose size nobody tells


@dataclass(frozen=True)
class CatchUpCost:
    seconds: float
    memory: int


def of(answer: SyncAnswer, entries: int, logged: bool) -> CatchUpCost:
    """Of an answer about so many entries. `logged`: the consumer's log level has `sync` in it."""
    if answer is SyncAnswer.PRESENT:
        each = _named(entries) + (_LINES_NAMED if logged else 0)
        return CatchUpCost(_START + entries * each, _UUID * entries)
    if answer is SyncAnswer.WHOLE:
        deeper = _named(entries) - _NAMED
        each = _ENTRY + deeper + (_LINES_ENTRY if logged else 0)
        return CatchUpCost(_START + entries * each, _UUID * entries)
    return CatchUpCost(_START, 0)


def told(answer: SyncAnswer, entries: int | None, logged: bool) -> str:
    """In words. entries None: nobody tells. Then for several sizes, because an entry costs more in a larger tree."""
    if entries is not None:
        return _told(of(answer, entries, logged))
    return ", ".join(f"{_told(of(answer, many, logged))} for {many:,}" for many in _SIZES)


def _told(price: CatchUpCost) -> str:
    return f"{units.duration(price.seconds)} and {units.size(price.memory)} of its memory"


def _named(entries: int) -> float:
    doublings = math.log2(max(1.0, entries / _BUCKETS))
    return _NAMED + _DEEPER * max(0.0, doublings - _SHALLOW)


def logs_sync(config: Config) -> bool:
    """Does slapd write a line for every entryUUID (olcLogLevel)?"""
    found = config.reader("cn=config").words("olcLogLevel")
    return any(_has_sync(word.lower()) for words in found for word in words)


def _has_sync(word: str) -> bool:
    try:
        return bool(int(word, 0) & _SYNC)
    except ValueError:
        return word in ("sync", "any")
