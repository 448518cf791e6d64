"""Entries as LDIF: the bytes are pinned, any range is the same alone, and names and values are encoded."""

from __future__ import annotations

import dataclasses
import hashlib
import io
from itertools import pairwise

import ldif
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader.errors import UsageProblem
from seeders.synthetic import template
from seeders.synthetic.blocks import Blocks, Range
from seeders.synthetic.entries import Maker, Recipe, check_suffix

SUFFIX = "dc=example,dc=com"
PEOPLE = template.load("people")
# Of `generate people -n 2000`: a change here changes every data set that was ever published.
GOLDEN = "0003d5c91d847d1812c44b41cb939cf8b935d8ad2daf5111bf4e6357f60301b9"
GOLDEN_OPERATIONAL = "a6cbfdb26eb6e0895d19af0bef2f090b00a6fe31d355e3a3e54aefc8a0250043"


def text_of(recipe: Recipe, asked: Range, jobs: int = 1) -> bytes:
    with Blocks(recipe, jobs) as blocks:
        return b"".join(block.data for block in blocks.of(asked))


def parsed(text: bytes) -> list[tuple[str, dict[str, list[bytes]]]]:
    records = ldif.LDIFRecordList(io.BytesIO(text))
    records.parse()
    return list(records.all_records)


@pytest.mark.parametrize(("operational", "expected"), [(False, GOLDEN), (True, GOLDEN_OPERATIONAL)])
def test_the_bytes_stay_the_same_for_ever(operational: bool, expected: str) -> None:
    made = text_of(Recipe(PEOPLE, 1, SUFFIX, operational), Range(0, 2000))
    assert hashlib.sha256(made).hexdigest() == expected


WHOLE = text_of(Recipe(PEOPLE, 5, SUFFIX, True), Range(0, 300))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 299), max_size=6))
def test_pieces_join_to_the_whole(cuts: list[int]) -> None:
    ends = sorted({0, *cuts, 300})
    recipe = Recipe(PEOPLE, 5, SUFFIX, True)
    pieces = [text_of(recipe, Range(*pair)) for pair in pairwise(ends)]
    assert b"".join(pieces) == WHOLE


def test_processes_make_the_same_bytes() -> None:
    recipe, asked = Recipe(PEOPLE, 2, SUFFIX), Range(7, 17_011)
    assert text_of(recipe, asked, jobs=3) == text_of(recipe, asked)


@given(st.integers(0, 10**6), st.integers(1, 10**5), st.integers(1, 10**5))
def test_a_range_is_cut_without_gaps(first: int, length: int, size: int) -> None:
    asked = Range(first, first + length)
    pieces = list(asked.cut(max(size, length // 50)))
    assert pieces[0].first == asked.first
    assert pieces[-1].end == asked.end
    assert all(a.end == b.first for a, b in pairwise(pieces))
    assert all(piece.entries > 0 for piece in pieces)


def test_an_entry_reads_as_meant() -> None:
    [(name, entry)] = parsed(Maker(Recipe(PEOPLE, 1, SUFFIX)).entry(17))
    assert name == f"uid=u000000017,ou=people,{SUFFIX}"
    assert entry["uid"] == [b"u000000017"]
    assert entry["cn"] == [entry["givenName"][0] + b" " + entry["sn"][0]]
    assert entry["mail"][0].isascii()
    assert entry["mail"][0].endswith(b".17@mail.example.com")


def test_other_seeds_make_other_people() -> None:
    names = {
        parsed(Maker(Recipe(PEOPLE, seed, SUFFIX)).entry(17))[0][1]["cn"][0] for seed in range(9)
    }
    assert len(names) > 5


def test_the_mean_entry_is_of_the_promised_size() -> None:
    made = text_of(Recipe(PEOPLE, 1, SUFFIX), Range(1, 5001))
    assert 540 < len(made) / 5000 < 580


@pytest.mark.parametrize(
    ("suffix", "object_class"),
    [
        ("dc=example,dc=com", b"dcObject"),
        ("o=Example Ltd,c=GB", b"organization"),
        ("ou=test,o=example", b"organizationalUnit"),
        ("l=Zürich,c=CH", b"locality"),
        ("c=CH", b"country"),
    ],
)
def test_the_suffix_has_an_entry_of_its_kind(suffix: str, object_class: bytes) -> None:
    containers = parsed(b"".join(Maker(Recipe(PEOPLE, 1, suffix)).containers()))
    assert [name for name, _ in containers] == [suffix, f"ou=people,{suffix}"]
    assert object_class in containers[0][1]["objectClass"]


@pytest.mark.parametrize(
    "suffix", ["", "example.com", "cn=x", "dc=a+o=b", "dc=", 'o="a,b"', "dc=a,,dc=b"]
)
def test_a_suffix_that_cannot_be_made(suffix: str) -> None:
    with pytest.raises(UsageProblem, match="suffix"):
        check_suffix(suffix)


@pytest.mark.parametrize(
    ("pattern", "dn"),
    [
        ("a, b {number}", r"cn=a\2C b 3"),
        ("#{number}", r"cn=\233"),
        (' "{number}" ', r"cn=\20\223\22\20"),
        ("x\\{number}", r"cn=x\5C3"),
        ("né{number}", "cn=né3"),
        ("a+b;{number}<", r"cn=a\2Bb\3B3\3C"),
    ],
)
def test_names_are_escaped(pattern: str, dn: str) -> None:
    attributes = {"objectClass": ("device",), "cn": (pattern,)}
    odd = dataclasses.replace(PEOPLE, rdn="cn", attributes=attributes)
    [(name, entry)] = parsed(Maker(Recipe(odd, 1, SUFFIX)).entry(3))
    assert name == f"{dn},ou=people,{SUFFIX}"
    assert entry["cn"] == [pattern.replace("{number}", "3").encode()]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_every_value_comes_back(value: str) -> None:
    text = value.replace("{", "{{").replace("}", "}}")
    attributes = {"objectClass": ("device",), "cn": ("c{number}",), "description": (text,)}
    odd = dataclasses.replace(PEOPLE, rdn="cn", attributes=attributes)
    [(_, entry)] = parsed(Maker(Recipe(odd, 1, SUFFIX)).entry(3))
    assert entry["description"] == [value.encode()]


def test_operational_attributes_are_each_entrys_own() -> None:
    records = parsed(text_of(Recipe(PEOPLE, 1, SUFFIX, True), Range(0, 500)))
    for name in ("entryUUID", "entryCSN"):
        assert len({entry[name][0] for _, entry in records}) == len(records) == 502
    csns = [entry["entryCSN"][0] for _, entry in records]
    assert csns == sorted(csns)
    assert all(entry["structuralObjectClass"][0] in entry["objectClass"] for _, entry in records)
