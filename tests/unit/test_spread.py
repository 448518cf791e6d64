"""Where a tree is cut: what the first entries tell, and what the filters of the pieces are true of. No server."""

from __future__ import annotations

import datetime
import random
import re
import uuid
from collections.abc import Callable, Sequence

import pytest

from loader.operations import live
from loader.sources.planner import EVENLY, RING, FirstEntries, UuidDistribution, filters, spread

ENTRIES = 50_000
SAMPLE = 2000
LOADED = datetime.datetime(2026, 1, 1, 12)
EPOCH = datetime.datetime(1582, 10, 15)

Made = Callable[[float, random.Random], uuid.UUID]  # from the seconds since the load began


def _timed(seconds: float, chance: random.Random | None = None) -> uuid.UUID:
    """Of version 1, as slapd makes them."""
    ticks = int(((LOADED - EPOCH) + datetime.timedelta(seconds=seconds)).total_seconds() * 10**7)
    fields = (ticks & 0xFFFFFFFF, ticks >> 32 & 0xFFFF, ticks >> 48 | 0x1000, 0x80, 0, 1)
    return uuid.UUID(fields=fields)


def _random(seconds: float, chance: random.Random) -> uuid.UUID:
    return uuid.UUID(int=chance.getrandbits(128), version=4)


def _some_of_each(seconds: float, chance: random.Random) -> uuid.UUID:
    return (_timed if chance.random() < 0.5 else _random)(seconds, chance)


def _few_timed(seconds: float, chance: random.Random) -> uuid.UUID:
    return (_timed if chance.random() < 0.02 else _random)(seconds, chance)


def _counted(seconds: float, chance: random.Random) -> uuid.UUID:
    return uuid.UUID(int=(0x12345678 << 96) + int(seconds * 1000))


def _tree(seconds: float, slower: float, made: Made) -> list[uuid.UUID]:
    """Loaded within `seconds`; in the end it took `slower` times as long for an entry as in the beginning."""
    chance, found = random.Random(1), []
    for number in range(ENTRIES):
        part = number / ENTRIES
        at = seconds * (part + (slower - 1) * part * part / 2) / (1 + (slower - 1) / 2)
        found.append(made(at, chance))
    return found


def _unevenness(tree: Sequence[uuid.UUID], lie: UuidDistribution, pieces: int) -> float:
    """The largest piece, in mean ones."""
    asked = [_compiled(one) for one in filters(lie, pieces)]
    counted = [sum(where(str(one)) for one in tree) for where in asked]
    assert sum(counted) == len(tree)
    return max(counted) * pieces / len(tree)


def _compiled(where: str) -> Callable[[str | None], bool]:
    """What slapd makes of a filter: a comparison with a value that is not there is false."""
    known = {"every": lambda *all_of: all(all_of), "some": lambda *all_of: any(all_of), "no": lambda one: not one}
    words = {"(objectClass=*)": "True,", "(&": "every(", "(|": "some(", "(!": "no(", ")": "),"}
    text = re.sub(
        r"\(entryUUID>=([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\)|\(objectClass=\*\)|\([&|!]|\)",
        lambda found: f"(one is not None and one >= {found[1]!r})," if found[1] else words[found[0]],
        where,
    )
    return eval(f"lambda one: {text.rstrip(',')}", known)


@pytest.mark.parametrize("pieces", [2, 3, 4, 16])
@pytest.mark.parametrize("each", [1, 2, 4, 8])
@pytest.mark.parametrize("start", [0, 1, RING // 3, RING - 1])
def test_each_entry_is_in_one_piece(pieces: int, each: int, start: int) -> None:
    """Also one on a cut, and one without entryUUID. slapd's index is never asked: every comparison is behind a NOT."""
    lie = UuidDistribution("", 0.9, start, 0.01, 1.0, each)
    texts = filters(lie, pieces)
    assert len(texts) == pieces
    assert not [text for text in texts if re.search(r"(?<!\(!)\(entryUUID", text)]
    asked = [_compiled(text) for text in texts]
    chance = random.Random(pieces)
    edges = [place + by for place, _ in lie.cuts(pieces) for by in (-1, 0, 1)]
    numbers = [one % RING for one in (0, -1, *edges)] + [chance.randrange(RING) for _ in range(50)]
    for value in (None, *(str(uuid.UUID(int=number)) for number in numbers)):
        assert sum(where(value) for where in asked) == 1, value


def test_few_comparisons() -> None:
    """Two pieces of four windows: one holds the middle, the other both ends."""
    a, b = ("40000000-0000-0000-0000-000000000000", "c0000000-0000-0000-0000-000000000000")
    assert filters(EVENLY, 1) == ["(objectClass=*)"]
    assert filters(UuidDistribution("", each=2), 2) == [
        f"(|(!(entryUUID>={a}))(!(!(entryUUID>={b}))))",
        f"(&(!(!(entryUUID>={a})))(!(entryUUID>={b})))",
    ]


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.long("10-1-_random-spread evenly-2", "100-1-_counted-in ascending order-4")
@pytest.mark.parametrize("pieces", [2, 4])
@pytest.mark.parametrize(
    ("seconds", "slower", "made", "why"),
    [
        (10, 1, _random, "spread evenly"),
        (3e7, 1, _timed, "spread evenly"),
        (10, 1, _timed, "loaded in bulk"),
        (60, 1, _timed, "loaded in bulk"),
        (90, 2, _timed, "loaded in bulk"),
        (600, 2, _timed, "loaded in bulk"),
        (60, 1, _some_of_each, "loaded in bulk"),
        (60, 1, _few_timed, "spread evenly"),
        (100, 1, _counted, "in ascending order"),
    ],
)
def test_pieces_are_even(pieces: int, seconds: float, slower: float, made: Made, why: str) -> None:
    """Where the monitor tells how many entries there are."""
    tree = _tree(seconds, slower, made)
    lie = spread(tree[:SAMPLE], ENTRIES)
    assert lie.why == why
    assert _unevenness(tree, lie, pieces) < 1.4


@pytest.mark.long
@pytest.mark.parametrize(
    ("seconds", "slower", "made"),
    [(10, 1, _timed), (60, 1, _timed), (90, 2, _timed), (300, 1, _timed), (600, 2, _timed), (100, 1, _counted)],
)
def test_less_is_known(seconds: float, slower: float, made: Made) -> None:
    tree = _tree(seconds, slower, made)
    assert _unevenness(tree, spread(tree[:SAMPLE], None), 2) < 1.6


@pytest.mark.long
def test_a_suffix_older_than_the_load() -> None:
    tree = [_timed(-86400), *_tree(60, 1, _timed)]
    lie = spread(tree[:SAMPLE], ENTRIES)
    assert lie.why == "loaded in bulk"
    assert _unevenness(tree, lie, 2) < 1.2


def test_little_to_go_by() -> None:
    """A few entries, all alike, or none that tells."""
    for uuids in ([_timed(1)], [_timed(1)] * 3, [uuid.UUID(int=7)], [uuid.UUID(int=7)] * 3):
        for entries in (None, 3):
            assert len(filters(spread(uuids, entries), 3)) == 3


@pytest.mark.parametrize(("values", "known"), [(["first"], False), ([""], False), ([str(_timed(1))], True)])
def test_what_is_no_uuid(values: list[str], known: bool) -> None:
    entries = [("", {"entryuuid": [value.encode()] if value else []}) for value in values]
    assert (FirstEntries(entries, whole=False).uuids() is not None) == known


BULK = "20260101000000.000000Z#000000#000#000000"
BEFORE = "20260601120000.000000Z#000000#001#000000"
SOON = "20260601120007.000000Z#000000#001#000000"
OTHER = "20260601115900.000000Z#000000#002#000000"
OTHERS_NEXT = "20260601115959.000000Z#000000#002#000000"
OLD = "20260301000000.000000Z#000000#003#000000"
OLD_NEXT = "20260301000001.000000Z#000000#003#000000"


@pytest.mark.parametrize(
    ("since", "now", "where"),
    [
        ([BULK, BEFORE], [BULK, SOON], f"(entryCSN>={BEFORE})"),
        ([BULK, BEFORE, OTHER], [BULK, SOON, OTHER], f"(entryCSN>={BEFORE})"),
        # What came from the other provider is older than what the first one had done before.
        ([BULK, BEFORE, OTHER], [BULK, SOON, OTHERS_NEXT], f"(entryCSN>={OTHER})"),
        ([BULK, BEFORE, OLD], [BULK, BEFORE, OLD_NEXT], f"(!(!(entryCSN>={OLD})))"),
        ([BULK], [BULK, OLD], "(objectClass=*)"),
        ([], [BULK], "(objectClass=*)"),
        ([BULK, BEFORE], [BULK, BEFORE], f"(entryCSN>={BEFORE})"),
    ],
)
def test_what_may_have_changed(since: list[str], now: list[str], where: str) -> None:
    assert live.newer(since, now) == where
