"""tree: do two trees hold the same entries?"""

from __future__ import annotations

import pytest

from loader import _native


@pytest.fixture
def tree(counters):
    def read(*paths, ignore=()):
        found = _native.EntryDigests(ignore, counters)
        for path in paths:
            found.add_path(path)
        return found

    return read


def facts(found: _native.Difference) -> tuple[int, int, int]:
    return found.only_left, found.only_right, found.changed


@pytest.mark.parametrize("other", ["cn: A", "cn: a\ncn: b", "cn;lang-en: a", "sn: a", "cn: a ", "cn:: YQA="])
def test_values_count_to_the_byte(put, tree, other):
    one, two = put("1", "dn: dc=x\ncn: a"), put("2")
    two.write_text(f"dn: dc=x\n{other}\n\n")
    found = tree(one).diff(tree(two), 9)
    assert facts(found) == (0, 0, 1)
    assert tree(one).checksum != tree(two).checksum


def test_differences_are_counted_and_named_in_order(put, tree):
    one = put("1", *(f"dn: cn={n},dc=x\nl: {n}" for n in "abcdef"))
    two = put("2", *(f"dn: cn={n},dc=x\nl: {n.upper() if n in 'cd' else n}" for n in "cdefgh"))
    found = tree(one).diff(tree(two), 5)
    assert facts(found) == (2, 2, 2)
    assert found.samples == [
        ("only-left", "cn=a,dc=x"),
        ("only-left", "cn=b,dc=x"),
        ("changed", "cn=c,dc=x"),
        ("changed", "cn=d,dc=x"),
        ("only-right", "cn=g,dc=x"),
    ]
    assert tree(one).diff(tree(two), 0).samples == []


def test_ignored_attributes_do_not_count(put, tree):
    one = put("1", "dn: dc=x\ncn: a\nmodifyTimestamp: 1\ncn;lang-en: b")
    two = put("2", "dn: dc=x\nMODIFYTIMESTAMP: 2")
    ignore = ["modifytimestamp", "CN"]
    assert tree(one, ignore=ignore).checksum == tree(two, ignore=ignore).checksum


def test_an_entry_twice_is_not_an_entry_once(put, tree):
    one = put("1", "dn: dc=x\ndc: x", "dn: dc=x\ndc: x")
    two = put("2", "dn: dc=x\ndc: x")
    assert facts(tree(one).diff(tree(two), 9)) == (1, 0, 0)


def test_the_empty_tree(put, tree):
    path = put("1", "dn: dc=x\ndc: x")
    assert (tree().entries, tree().checksum) == (0, "0" * 32)
    assert facts(tree().diff(tree(), 9)) == (0, 0, 0)
    assert facts(tree().diff(tree(path), 9)) == (0, 1, 0)
    assert facts((one := tree(path)).diff(one, 9)) == (0, 0, 0)


def test_comparing_twice_tells_the_same(put, tree):
    one = tree(put("1", *(f"dn: cn={n},dc=x\nl: {n}" for n in range(50))))
    two = tree(put("2", *(f"dn: cn={n},dc=x\nl: {n}" for n in range(49, 99))))
    first, second = one.diff(two, 3), one.diff(two, 3)
    assert (facts(first), first.samples) == (facts(second), second.samples) == ((49, 49, 0), first.samples)
