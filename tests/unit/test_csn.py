"""Change sequence numbers: one line of them for each server ID."""

from __future__ import annotations

import pytest

from loader import csn

OLD = "20261121070501.123456Z#000000#001#000000"
NEW = "20261121070501.123457Z#000000#001#000000"
SAME_TIME = "20261121070501.123457Z#000001#001#000000"
OTHER = "20250101000000.000000Z#000000#0ff#000000"


@pytest.mark.parametrize(
    ("text", "sid"),
    [
        *((OLD, "001"), (OTHER, "0ff"), (f" {OLD}\n", "001")),
        *((text, None) for text in ("", "20070101000000Z#000000#00#000000", OLD + "x", OLD.replace("#001#", "#1#"))),
    ],
)
def test_the_server_id_is_the_third_field(text: str, sid: str | None) -> None:
    assert csn.server_id(text) == sid


def test_the_greatest_of_each_server_counts() -> None:
    """Spaces around one change nothing."""
    assert csn.by_server([NEW, OLD, OTHER, SAME_TIME, "rubbish"]) == {"001": SAME_TIME, "0ff": OTHER}
    assert csn.by_server([OLD, f" {NEW} "]) == csn.by_server([NEW, f" {OLD} "]) == {"001": NEW}


@pytest.mark.parametrize(
    ("csns", "by", "covered"),
    [
        ([OLD], [OLD], True),
        ([OLD], [NEW], True),
        ([NEW], [OLD], False),
        ([OLD, OTHER], [NEW], False),  # a server that it has never heard of
        ([OLD], [NEW, OTHER], True),
        ([], [], True),
        ([OLD], [], False),
    ],
)
def test_covered(csns: list[str], by: list[str], covered: bool) -> None:
    assert csn.is_covered_by(csn.by_server(csns), csn.by_server(by)) is covered
