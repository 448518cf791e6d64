"""What is asked for between two contextCSNs."""

from __future__ import annotations

import pytest

from loader.operations import live

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
