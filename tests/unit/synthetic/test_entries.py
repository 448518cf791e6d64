"""Entries as LDIF: the bytes are pinned, any range is the same alone, and names and values are encoded."""

from __future__ import annotations

import hashlib
import io
from itertools import pairwise
from pathlib import Path

import ldif
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loader.sources.dit import Range, TreeSpec
from tests.support.generating import LISTS, people, text_of

SUFFIX = "dc=example,dc=com"
EVERYTHING = Path(__file__).with_name("everything.toml")
# Other machines must make the same bytes, and a change here changes every data set that was ever published.
GOLDEN = {
    ("people", 1, False, 0, 2002): "9ad53b054fa9748552c77cca38d35db011c783b75d8fe994532ec8be8cddbeb2",
    ("people", 1, True, 0, 2002): "9d528d75bdf59b736ff7e297cae54228860d5231ecec2e2d7cb3d79d96d365ae",
    ("people", -7, True, 10**9, 10**9 + 500): "82b595df49a31df0ff368898d773422c05c825354a46d3f268beeeb8be6cf926",
    ("everything", 1, True, 0, 1769): "d3fe92d614b6d3064cd2be7c7183f244904aea5f76677e321bb61a0db2ace8a6",
    ("everything", 42, False, 1500, 1700): "6880f7f8c657e81a3d3f0d4a3495a493596df1dc2251fd0746c895f77150fb0a",
}


def recipe(template: str, seed: int, operational: bool, entries: int) -> TreeSpec:
    if template == "people":
        return people(entries, seed, operational)
    return TreeSpec(EVERYTHING, LISTS, seed, entries=1500, operational=operational)


def parsed(text: bytes) -> list[tuple[str, dict[str, list[bytes]]]]:
    records = ldif.LDIFRecordList(io.BytesIO(text))
    records.parse()
    return list(records.all_records)


@pytest.mark.parametrize("case", GOLDEN)
def test_the_bytes_stay_the_same_for_ever(case: tuple[str, int, bool, int, int]) -> None:
    template, seed, operational, first, end = case
    made = text_of(recipe(template, seed, operational, end), Range(first, end))
    assert hashlib.sha256(made).hexdigest() == GOLDEN[case]


@pytest.mark.long
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(["people", "everything"]), st.lists(st.integers(1, 1999), max_size=6), st.integers(1, 5))
def test_pieces_join_to_the_whole(template: str, cuts: list[int], jobs: int) -> None:
    tree = recipe(template, 5, True, 1998)
    end = tree.compiled().entries
    ends = sorted({0, *(min(cut, end) for cut in cuts), end})
    pieces = [text_of(tree, Range(*pair), jobs) for pair in pairwise(ends)]
    assert b"".join(pieces) == text_of(tree)


def test_threads_make_the_same_bytes() -> None:
    tree = people(20_000, 2)
    assert text_of(tree, Range(7, 17_011), jobs=3) == text_of(tree, Range(7, 17_011))


def test_one_entry_is_that_of_the_whole() -> None:
    template = people(1000).compiled()
    whole = text_of(people(1000))
    assert b"".join(template.entry(number) for number in range(template.entries)) == whole
    with pytest.raises(IndexError):
        template.entry(template.entries)


@given(st.integers(0, 10**6), st.integers(1, 10**5), st.integers(1, 10**5))
def test_a_range_is_cut_without_gaps(first: int, length: int, size: int) -> None:
    pieces = list(Range(first, first + length).cut(max(size, length // 50)))
    assert (pieces[0].first, pieces[-1].end) == (first, first + length)
    assert all(a.end == b.first for a, b in pairwise(pieces))
    assert all(piece.entries > 0 for piece in pieces)


def test_an_entry_reads_as_meant() -> None:
    """Other seeds make other people."""
    [(name, entry)] = parsed(people(100).compiled().entry(19))
    assert name == f"uid=u000000017,ou=people,{SUFFIX}"
    assert entry["uid"] == [b"u000000017"]
    assert entry["cn"] == [entry["givenName"][0] + b" " + entry["sn"][0]]
    assert entry["mail"][0].isascii()
    assert entry["mail"][0].endswith(b".17@mail.example.com")
    made = [people(100, seed).compiled().entry(19) for seed in range(9)]
    assert len({parsed(text)[0][1]["cn"][0] for text in made}) > 5


def test_the_mean_entry_is_of_the_promised_size() -> None:
    made = text_of(people(5000, operational=False), Range(2, 5002))
    assert 540 < len(made) / 5000 < 590


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_every_value_comes_back(tmp_path: Path, value: str) -> None:
    text = value.replace("{", "{{").replace("}", "}}").replace("\\", "\\\\").replace('"', '\\"')
    attributes = f'objectClass = "device"\ncn = "c{{number}}"\ndescription = "{text}"\n'
    odd = tmp_path / "odd.toml"
    odd.write_text(f'[[kinds]]\nname = "device"\nrdn = "cn"\n[kinds.attributes]\n{attributes}', "utf-8")
    [(_, entry)] = parsed(TreeSpec(odd, entries=10).compiled().entry(4))
    assert entry["description"] == [value.encode()]


@pytest.mark.slow
@pytest.mark.parametrize("template", ["people", "everything"])
def test_operational_attributes_are_each_entrys_own(template: str) -> None:
    records = parsed(text_of(recipe(template, 1, True, 500)))
    for name in ("entryUUID", "entryCSN"):
        assert len({entry[name][0] for _, entry in records}) == len(records)
    times = [(entry["createTimestamp"][0][:14], entry["entryCSN"][0][:14]) for _, entry in records]
    assert all(created <= changed for created, changed in times)
    if template == "people":
        csns = [entry["entryCSN"][0] for _, entry in records]
        assert csns == sorted(csns)
    else:
        assert len({changed[:4] for _, changed in times}) == 11
        assert [created for created, _ in times] == sorted(created for created, _ in times)


def test_parents_come_first_and_members_are_there() -> None:
    records = parsed(text_of(recipe("everything", 1, False, 0)))
    names = {SUFFIX}
    for name, _ in records[1:]:
        assert name.partition(",")[2] in names, name
        assert name not in names
        names.add(name)
    members = [entry["member"] for _, entry in records if "member" in entry]
    assert len(members) == 75
    assert max(map(len, members)) > 20
    assert all(len(set(one)) == len(one) for one in members)
    assert {member.decode() for one in members for member in one} < names
