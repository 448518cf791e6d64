"""How a tree is cut: what is decided from the first entries, without a server."""

from __future__ import annotations

import datetime
import random
import uuid

import pytest

from loader.sources import planner
from loader.sources.planner import Sample


def _sample(uuids: list[uuid.UUID], seconds_apart: float = 0.0) -> Sample:
    start = datetime.datetime(2026, 1, 1)
    entries = []
    for number, one in enumerate(uuids):
        time = start + datetime.timedelta(seconds=number * seconds_apart)
        csn = f"{time:%Y%m%d%H%M%S.%f}Z#000000#000#000000"
        entries.append(
            (f"cn={number},dc=x", {"entryuuid": [str(one).encode()], "entrycsn": [csn.encode()]})
        )
    return Sample(entries, whole=False)


def _timed(seconds: float) -> uuid.UUID:
    """A version 1 UUID, as slapd makes them, of so long after its epoch."""
    ticks = int(seconds * 10_000_000)
    fields = (ticks & 0xFFFFFFFF, ticks >> 32 & 0xFFFF, ticks >> 48 | 0x1000, 0x80, 0, 1)
    return uuid.UUID(fields=fields)


@pytest.mark.parametrize("pieces", [2, 3, 16])
def test_every_uuid_is_in_one_range_and_even_ones_are_spread(pieces: int) -> None:
    chance = random.Random(pieces)
    cuts = planner._even_cuts(pieces)
    assert cuts == sorted(cuts)
    assert len(cuts) == pieces - 1
    found = [0] * pieces
    for _ in range(3000):
        value = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        found[sum(value >= cut for cut in cuts)] += 1
    assert min(found) > 3000 / pieces / 2


def test_the_filters_leave_nothing_out() -> None:
    """The first is true of entries without the attribute, too; none asks slapd's index."""
    assert list(planner.ranges("a", [])) == ["(objectClass=*)"]
    assert list(planner.ranges("a", ["3", "5"])) == [
        "(!(a>=3))",
        "(&(!(!(a>=3)))(!(a>=5)))",
        "(!(!(a>=5)))",
    ]


def _asked(looked: Sample, end: str, entries: int | None) -> str:
    def survey() -> object:
        raise LookupError

    uuids = looked.values("entryuuid")
    try:
        return planner._cut(looked, uuids, 2, [end], entries, survey).why  # type: ignore[arg-type]
    except LookupError:
        return "survey"


def test_where_to_cut() -> None:
    chance = random.Random(1)
    even = [uuid.UUID(int=chance.getrandbits(128), version=4) for _ in range(2000)]
    end = "20260101000010.000000Z#000000#000#000000"
    assert _asked(_sample(even), end, None) == "spread evenly"
    grown = [_timed(number * 10.0) for number in range(2000)]
    assert _asked(_sample(grown, 10.0), end, None) == "spread evenly"
    # 2,000 entries in 0.2 s: 100,000 in the ten until the end.
    bulk = [_timed(number / 10_000) for number in range(2000)]
    assert _asked(_sample(bulk, 0.0001), end, 100_000) == "loaded in bulk"
    assert _asked(_sample(bulk, 0.0001), end, 5000) == "survey"  # then nothing for most of the time
    assert _asked(_sample(bulk, 0.0001), end, None) == "survey"
    later = "20260301000000.000000Z#000000#000#000000"
    assert _asked(_sample(bulk, 0.0001), later, 100_000) == "survey"
