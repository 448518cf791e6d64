"""What operators write."""

from __future__ import annotations

import pytest

from loader.declared import Share
from loader.errors import UsageProblem


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("0.05", 0.05), ("100%", 1.0), ("1", 1.0), ("0.5%", 0.005)])
def test_a_share(text: str, share: float) -> None:
    assert Share().parse(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["5", "101%", "0", "0%", "-1%", "nan", "inf%", "%", "", "5 %%"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(UsageProblem, match=r"write 5% or 0\.05"):
        Share().parse(text)


def test_growth_may_be_none_or_many_times() -> None:
    assert [Share(1000.0, zero=True).parse(text) for text in ("0", "1000%", "2")] == [0, 10, 2]
