"""The codec of one entry: decode and encode undo each other, and bytes that are no entry are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.mdb import entry
from loader.mdb.entry import ELSEWHERE, SORTED, Attribute, Entry, Malformed

numbers = st.integers(1, 65_535)
values = st.lists(st.binary(max_size=40), min_size=1, max_size=5).map(tuple)


@st.composite
def attributes(draw: st.DrawFn) -> Attribute:
    number, flags = draw(numbers), draw(st.sampled_from([0, SORTED]))
    if draw(st.booleans()):
        count, normalised = draw(st.integers(1, 1000)), draw(st.booleans())
        return Attribute(number, (), None, flags | ELSEWHERE, count, normalised)
    found = draw(values)
    copies = st.lists(st.binary(max_size=40), min_size=len(found), max_size=len(found)).map(tuple)
    return Attribute(number, found, draw(st.none() | copies), flags)


entries = st.builds(Entry, st.integers(0, 2**32 - 1), st.lists(attributes(), max_size=6).map(tuple))


@given(entries)
def test_decode_undoes_encode(one: Entry) -> None:
    blob = entry.encode(one)
    assert len(blob) % 8 == 0
    assert entry.decode(blob) == one


@given(entries)
def test_one_attribute_alone_has_the_same_values(one: Entry) -> None:
    blob = entry.encode(one)
    for number in {attribute.number for attribute in one.attributes}:
        found = one.attribute(number)
        assert found is not None
        assert entry.values_of(blob, number) == found.values
    assert entry.values_of(blob, 65_536) == ()


@given(entries, st.data())
def test_an_entry_that_was_cut_is_refused_or_still_reads(one: Entry, data: st.DataObject) -> None:
    blob = entry.encode(one)
    cut = blob[: data.draw(st.integers(0, len(blob)))]
    try:
        assert entry.decode(cut) == one  # only padding is gone
    except Malformed:
        assert len(cut) < len(blob)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_entry_or_malformed(blob: bytes) -> None:
    for read in (entry.decode, lambda found: entry.values_of(found, 1)):
        try:
            read(blob)
        except Malformed:
            pass


def test_a_header_that_promises_gigabytes_is_malformed() -> None:
    with pytest.raises(Malformed):
        entry.decode(b"\xff" * 16 + bytes(64))


def test_replaced_keeps_place_and_appends() -> None:
    one = Entry(0, (Attribute(1, (b"a",)), Attribute(2, (b"b",))))
    assert one.replaced(Attribute(1, (b"c",))).attributes == (
        Attribute(1, (b"c",)),
        Attribute(2, (b"b",)),
    )
    assert one.replaced(Attribute(3, (b"c",))).attributes[2].values == (b"c",)
