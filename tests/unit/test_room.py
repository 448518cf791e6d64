"""Whether a database fits is asked in one place, and a prediction is made only if it decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.errors import MaxsizeTooSmall, NoSpace
from loader.operations.sizing import Limits, require_room


def unneeded() -> int:
    raise AssertionError("what fits in any case needs no prediction")


def test_what_fits_in_any_case_is_not_predicted(tmp_path: Path) -> None:
    require_room(Limits("dc=example", 1 << 20, tmp_path), unneeded, at_most=1 << 20)
    require_room(Limits("dc=example", None, None), unneeded, at_most=1 << 60)


def test_a_prediction_is_held_against_the_map_and_the_disk(tmp_path: Path) -> None:
    require_room(Limits("dc=example", 1 << 20, tmp_path), lambda: 1 << 20, at_most=1 << 60)
    with pytest.raises(MaxsizeTooSmall, match=r"1\.0 MiB.*2\.0 MiB"):
        require_room(Limits("dc=example", 1 << 20, tmp_path), lambda: 2 << 20)
    with pytest.raises(NoSpace, match="needed"):
        require_room(Limits("dc=example", None, tmp_path), lambda: 1 << 60)
