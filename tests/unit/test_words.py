"""Lines of slapd.conf and values of cn=config, cut into words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader import config

TEXT = st.text(st.sampled_from('ab" \t\\é'))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("index cn,sn\teq", ["index", "cn,sn", "eq"]),
        ('suffix "o=a b"', ["suffix", "o=a b"]),
        ('x a"b c"d', ["x", "ab cd"]),
        (r"x a\ b \"c\\", ["x", "a b", '"c\\']),
        (r'x "a\" b"', ["x", 'a" b']),
        (r'rootpw "a\"b\\c"', ["rootpw", r'a"b\c']),
        ('index "cn" eq # x', ["index", "cn", "eq", "#", "x"]),
        ('suffix ""', ["suffix", ""]),
        ("a\\", ["a\\"]),
        ("a\vb", ["a\vb"]),
        ("  ", []),
    ],
)
def test_of_a_line(line: str, said: list[str]) -> None:
    assert config.words_of_line(line) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ('"cn,sn" eq', ["cn,sn", "eq"]),
        ('"/a b"', ["/a b"]),
        (r"a\ b", ["a\\", "b"]),
        ('384"', ["384"]),
        ('a"b c"', ["ab c"]),
        ('"a"b c" d', ["ab c", "d"]),
        ('a"b"c d" e', ['a"bc d', "e"]),
        ("a\vb", ["a", "b"]),
        ('""', [""]),
        ("", []),
    ],
)
def test_of_a_value(value: str, said: list[str]) -> None:
    assert config.words_of_value(value) == said


@given(TEXT)
def test_a_word_of_a_line_comes_back(word: str) -> None:
    assert config.words_of_line(f"x {config.line_of_word(word)} y") == ["x", word, "y"]


@given(st.text(st.sampled_from("ab \t\\é")))
def test_a_word_of_a_value_comes_back(word: str) -> None:
    """But for quotes inside, which values of cn=config cannot all tell."""
    assert config.words_of_value(f"x {config.value_of_word(word)} y") == ["x", word, "y"]
