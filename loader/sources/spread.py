"""How the entryUUIDs of a tree lie on their ring, told from its first entries.

Random ones are spread evenly, and so are those of version 1 (slapd's own) of a tree that grew: their first 32 bits
count 100 ns, and come round every 429 s. A tree that was loaded in bulk within less fills a part of the ring: a run
that begins with the first entries. Where it ends follows from the contextCSN when the load came last of its server ID,
else roughly from the pace of the first entries and the number of all.
"""

from __future__ import annotations

import datetime
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from loader import csn
from loader.sources.windows import RING, UuidDistribution

# UUIDs whose first bits say nothing of when or where they were made (RFC 9562).
_EVEN_VERSIONS = frozenset({3, 4, 5, 8})
_TURN = (1 << 32) / 1e7  # seconds
_GAP = 0.05  # turns; 2,000 even UUIDs leave none as large
_SAME = 5.0  # seconds from an entryUUID to the entryCSN made with it
_FEW = 1000  # entries: it matters little how they are shared out
_MANY = 3.0  # turns; a run that is longer is even
_LEAST = 2.0**-126  # turns
_PREDICTED, _GUESSED, _UNKNOWN = 2, 4, 8  # windows for each piece
_LEAST_UNKNOWN = 32  # windows in all

EVENLY = UuidDistribution("spread evenly")


@dataclass(frozen=True)
class _UuidRate:
    """Of a run: where it begins, and turns of the ring from one of its entries to the next."""

    start: int
    each: float

    @classmethod
    def of(cls, numbers: Sequence[int]) -> _UuidRate:
        """From numbers that grow from entry to entry. Outliers are left out: the suffix may be older by days."""
        ordered = sorted(numbers)
        aside = len(ordered) // 20
        core = ordered[aside : len(ordered) - aside]
        return cls(core[0] % RING, (core[-1] - core[0]) / RING / len(core))


def spread(
    found: Sequence[tuple[str, str]], now: Sequence[str], entries: int | None
) -> UuidDistribution:
    """`found`: entryUUID and entryCSN ("" without) of the first entries, in the order of the server. `now`: the
    contextCSN. `entries`: in the whole tree, if that is known. ValueError for what is no UUID or no CSN."""
    uuids = [uuid.UUID(one) for one, _ in found]
    timed = [one for one in uuids if one.version == 1]
    others = [one for one in uuids if one.version != 1]
    if {one.version for one in others} - _EVEN_VERSIONS and _gap(others) > _GAP:
        return _run_of_numbers(uuids, entries)
    if not timed or _gap(timed) <= _GAP:
        return EVENLY
    pace, share = _UuidRate.of([one.time << 96 for one in timed]), len(timed) / len(uuids)
    if pace.each * len(timed) > 1:
        return UuidDistribution("several bulk loads", each=_UNKNOWN, all=_LEAST_UNKNOWN)
    run = _run(pace, _loaded(found, now), share, entries)
    return EVENLY if run.least > _MANY else replace(run, share=share)


def _run(
    pace: _UuidRate, loaded: _BulkLoad | None, share: float, entries: int | None
) -> UuidDistribution:
    """`loaded`: by the CSNs."""
    # Twice what the pace says: too long does less harm than too short.
    paced = 2 * pace.each * share * entries if entries else None
    if loaded and (loaded.over or (paced and paced / 4 < loaded.turns < paced)):
        return UuidDistribution(
            "loaded in bulk", 1.0, pace.start, loaded.turns, loaded.turns, _PREDICTED
        )
    limit = loaded.turns if loaded else float("inf")
    if paced:
        length = min(paced, limit)
        return UuidDistribution("loaded in bulk", 1.0, pace.start, length, length, _GUESSED)
    most = min(1.0, limit)
    least = min(max(pace.each * _FEW, 1e-6), most / 2)
    return UuidDistribution(
        "loaded in bulk", 1.0, pace.start, least, most, _UNKNOWN, _LEAST_UNKNOWN
    )


@dataclass(frozen=True)
class _BulkLoad:
    """A bulk load as the CSNs tell: its length in turns, and whether its server ID has rested since."""

    turns: float
    over: bool


def _loaded(found: Sequence[tuple[str, str]], now: Sequence[str]) -> _BulkLoad | None:
    """None where entryUUIDs and entryCSNs were not made together, or the server keeps no contextCSN."""
    stamps = [(uuid.UUID(text), stamp) for text, stamp in found if csn.server_id(stamp)]
    # slapd's UUIDs count from an epoch of their own, so only what stays the same between both clocks tells.
    apart = {
        stamp: (csn.time(stamp) - datetime.datetime.min).total_seconds() - one.time / 1e7
        for one, stamp in stamps
        if one.version == 1
    }
    middle = sorted(apart.values())[len(apart) // 2] if apart else 0.0
    together = sorted(stamp for stamp, one in apart.items() if abs(one - middle) < _SAME)
    if len(together) < len(found) / 2:
        return None
    (sid, _), *_ = Counter(csn.server_id(stamp) for stamp in together).most_common(1)
    known = csn.by_server(now)
    if sid is None or sid not in known:
        return None
    lasted = csn.time(known[sid]) - csn.time(together[len(together) // 20])
    turns = lasted.total_seconds() / _TURN
    return _BulkLoad(turns, over=known[sid] < max(known.values())) if turns > 0 else None


def _run_of_numbers(uuids: Sequence[uuid.UUID], entries: int | None) -> UuidDistribution:
    """Of a counter, or of a kind of UUID that begins with the time."""
    if not entries:
        return UuidDistribution("unknown order")
    pace = _UuidRate.of([one.int for one in uuids])
    length = min(1.0, max(_LEAST, 2 * pace.each * entries))
    return UuidDistribution("in ascending order", 1.0, pace.start, length, length, _GUESSED)


def _gap(uuids: Sequence[uuid.UUID]) -> float:
    """The largest part of the ring without one of them."""
    if not uuids:
        return 1.0
    places = sorted(one.int / RING for one in uuids)
    return max(
        1 + places[0] - places[-1], *(after - before for before, after in pairwise(places)), 0.0
    )
