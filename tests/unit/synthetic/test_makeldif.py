"""makeldif templates without a Java: the bytes are pinned, pieces join, mistakes are told as others are."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader.errors import TemplateError, UsageProblem
from loader.sources.dit import Range, TreeSpec
from tests.support.generating import LISTS, text_of

HERE = Path(__file__).parents[3] / "fixtures" / "makeldif"
NAMES = sorted(path.stem for path in HERE.glob("*.template"))
# Other machines must make the same bytes.
GOLDEN = {
    "big-groups": "17ff36704d52ef550835420149a70de7c83c75a69097c7a3929b8c567164285f",
    "formats": "85b90180089fc93e131c0dcc5e7f07c85afaab0f7854ef065b26ba61dfd8e310",
    "mail": "a63ba6d5cd009b7757f3822488041d05e283a8fb702a0c0587e6eec0987404e5",
    "suffixes": "009e1064df12288ce661b479ba623d70f66913835362c270e5e816ff32451ad2",
    "users": "44ffe8fac177f38e4d59ccb26d33286dbf70213b129725e35cc39c6d8dfc95d8",
}


def recipe(name: str, **defines: str) -> TreeSpec:
    return TreeSpec(HERE / f"{name}.template", LISTS, 3, defines=defines)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_bytes_stay_the_same_for_ever(name: str) -> None:
    assert hashlib.sha256(text_of(recipe(name))).hexdigest() == GOLDEN[name]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(NAMES), st.lists(st.integers(1, 99), max_size=4), st.integers(1, 3))
def test_pieces_join_to_the_whole(name: str, cuts: list[int], jobs: int) -> None:
    template = recipe(name).compiled()
    ends = sorted({0, *(min(cut, template.entries) for cut in cuts), template.entries})
    pieces = [text_of(recipe(name), Range(*pair), jobs) for pair in pairwise(ends)]
    assert b"".join(pieces) == text_of(recipe(name))


def test_thirty_million_and_the_last_of_them() -> None:
    template = recipe("users", numusers="30000000").compiled()
    assert template.entries == 30_000_002
    last = template.entry(30_000_001).decode()
    assert "dn: uid=user.30000000,ou=People,dc=example,dc=com\n" in last
    assert "employeenumber: 30000000\n" in last


def test_mistakes_have_their_place(tmp_path: Path) -> None:
    path = tmp_path / "bad.template"
    path.write_text("branch: dc=x\nsubordinateTemplate: p:[count]\n")
    with pytest.raises(TemplateError, match=r"bad\.template: line 2, column 24: no define named count"):
        TreeSpec(path).compiled()
    with pytest.raises(UsageProblem, match="counts of their own"):
        TreeSpec(HERE / "users.template", LISTS, entries=5).compiled()
    with pytest.raises(UsageProblem, match="no define named suffix"):
        TreeSpec(HERE / "suffixes.template", LISTS, suffix="o=else").compiled()


def test_defines_are_for_makeldif_only(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text("")
    with pytest.raises(UsageProblem, match="only makeldif templates have defines"):
        TreeSpec(path, defines={"a": "b"}).compiled()
