"""One stored entry as the native core changes it: the rest stays, and bytes that are no entry are refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader._native import NativeError, entry_with, new_entry

numbers = st.integers(1, 65_535)
values = st.lists(st.binary(max_size=40), min_size=1, max_size=5)
attributes = st.lists(st.tuples(numbers, values), max_size=6, unique_by=lambda one: one[0])


@pytest.mark.slow
@given(attributes, numbers, values)
def test_values_are_put_into_their_place_or_to_the_end(
    known: list[tuple[int, list[bytes]]], number: int, new: list[bytes]
) -> None:
    changed = entry_with(new_entry(7, known), number, new, normals=False)
    expected = dict(known) | {number: new}
    assert changed == new_entry(7, list(expected.items()))


@pytest.mark.slow
@given(attributes, st.data())
def test_an_entry_that_was_cut_is_refused_or_still_reads(
    known: list[tuple[int, list[bytes]]], data: st.DataObject
) -> None:
    blob = new_entry(0, known)
    cut = blob[: data.draw(st.integers(0, len(blob)))]
    with suppress(NativeError):  # else only padding is gone
        changed = entry_with(cut, 1, [b"x"], normals=False)
        assert changed == entry_with(blob, 1, [b"x"], normals=False)
    entry_with(blob, 1, [b"x"], normals=False)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_entry_or_refused(blob: bytes) -> None:
    with suppress(NativeError):
        entry_with(blob, 1, [b"x"], normals=True)


def test_a_header_that_promises_gigabytes_is_refused() -> None:
    with pytest.raises(NativeError):
        entry_with(b"\xff" * 16 + bytes(64), 1, [b"x"], normals=False)
