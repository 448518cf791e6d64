"""Each tag of the template language, and what is said of a wrong one."""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seeders.synthetic.randomness import below, stream
from seeders.synthetic.tags import Scope, TagError, compile_text

SCOPE = Scope(
    seed=1,
    suffix="dc=example,dc=com",
    lists={"colour": ("red", "green", "blue")},
    names=frozenset({"name"}),
)


def written(text: str, number: int = 0, known: dict[str, str] | None = None) -> str:
    return compile_text(text, "test", SCOPE)(number, known or {})


def test_the_stream_is_what_every_implementation_must_make() -> None:
    """Pinned: a native generator has to repeat them, and published data sets rest on them."""
    draw = stream(1, "value:first#0")
    assert [f"{draw(number):016x}" for number in (0, 1, 10**9)] == PINNED


def test_streams_of_other_names_and_seeds_differ() -> None:
    draws = {stream(seed, name)(7) for seed in range(20) for name in ("a", "b", "a#1")}
    assert len(draws) == 60


def test_below_is_even() -> None:
    draw = stream(3, "even")
    counts = Counter(below(draw(number), 10) for number in range(100_000))
    assert sorted(counts) == list(range(10))
    assert all(9_500 < count < 10_500 for count in counts.values())


@given(st.integers(0, 2**64 - 1), st.integers(1, 10**18))
def test_below_stays_below(bits: int, count: int) -> None:
    assert 0 <= below(bits, count) < count


def test_text_without_tags_stands_as_it_is() -> None:
    assert written("100 % {{plain}}") == "100 % {plain}"


def test_text_around_tags_stays() -> None:
    assert written("50 % of {number} {{x}}", 3) == "50 % of 3 {x}"


@pytest.mark.parametrize(
    ("text", "number", "expected"),
    [("{number}", 12, "12"), ("{number:6}", 12, "000012"), ("{number:2}", 12345, "12345")],
)
def test_number(text: str, number: int, expected: str) -> None:
    assert written(text, number) == expected


@pytest.mark.parametrize(("text", "length", "base"), [("{digits:8}", 8, 10), ("{hex:16}", 16, 16)])
def test_digits_and_hex_have_their_width(text: str, length: int, base: int) -> None:
    found = {written(text, number) for number in range(200)}
    assert len(found) == 200
    assert {len(one) for one in found} == {length}
    assert all(int(one, base) >= 0 for one in found)


def test_between_includes_both_ends() -> None:
    render = compile_text("{between:3:5}", "test", SCOPE)
    assert {render(number, {}) for number in range(100)} == {"3", "4", "5"}


def test_pick_takes_all_of_the_list() -> None:
    render = compile_text("{pick:colour}", "test", SCOPE)
    assert {render(number, {}) for number in range(100)} == {"red", "green", "blue"}


def test_two_tags_in_one_text_are_drawn_apart() -> None:
    render = compile_text("{digits:9} {digits:9}", "test", SCOPE)
    assert all(len(set(render(number, {}).split())) == 2 for number in range(100))


def test_values_and_suffix_are_put_in() -> None:
    assert written("{name}@{suffix}", 0, {"name": "anna"}) == "anna@dc=example,dc=com"


@pytest.mark.parametrize(
    ("name", "expected"), [("Zoë", "zoe"), ("O'Brien", "obrien"), ("Smith", "smith"), ("Łuk", "uk")]
)
def test_ascii_is_fit_for_a_mail_address(name: str, expected: str) -> None:
    assert written("{ascii:name}", 0, {"name": name}) == expected


def test_ssha_is_the_password_salted() -> None:
    value = written("{ssha:name}", 9, {"name": "sécret"})
    assert value.startswith("{SSHA}")
    raw = base64.b64decode(value.removeprefix("{SSHA}"))
    assert hashlib.sha1("sécret".encode() + raw[20:]).digest() == raw[:20]
    assert value != written("{ssha:name}", 10, {"name": "sécret"})


def test_uuid_is_one() -> None:
    found = {written("{uuid}", number) for number in range(100)}
    assert len(found) == 100
    assert {uuid.UUID(text).version for text in found} == {4}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{nothing}", "unknown tag {nothing} (there are: number, digits,"),
        ("{name:3}", "unknown tag {name}"),
        ("{digits}", "{digits:}: write a width from 1 to 18"),
        ("{digits:19}", "from 1 to 18"),
        ("{number:x}", "{number:x}: write a width"),
        ("{between:5:3}", "write {between:1:100}"),
        ("{between:a:b}", "write {between:1:100}"),
        ("{pick:shape}", "no such list (there are: colour)"),
        ("{ascii:other}", "no such value before it (there are: name)"),
        ("{ssha:}", "no such value"),
        ("{digits:3", "braces do not match (write {{ for a brace)"),
        ("digits:3}", "braces do not match"),
    ],
)
def test_a_wrong_tag_is_named(text: str, reason: str) -> None:
    with pytest.raises(TagError) as caught:
        written(text)
    assert reason in str(caught.value)


PINNED = ["fc4d920017166f6b", "c77213de1d493baa", "9d8616f123088f93"]
