"""tree: do two trees hold the same entries? tree/tests/properties.rs: order and spelling of names do not matter."""

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
    assert facts(tree(one).diff(tree(two), 9)) == (0, 0, 1)
    assert tree(one).checksum != tree(two).checksum


def test_differences_are_counted_and_named_in_order(put, tree):
    """Twice the same: a comparison changes nothing."""
    one = tree(put("1", *(f"dn: cn={n},dc=x\nl: {n}" for n in "abcdef")))
    two = tree(put("2", *(f"dn: cn={n},dc=x\nl: {n.upper() if n in 'cd' else n}" for n in "cdefgh")))
    left, changed = [("only-left", f"cn={n},dc=x") for n in "ab"], [("changed", f"cn={n},dc=x") for n in "cd"]
    for _ in range(2):
        found = one.diff(two, 5)
        assert facts(found) == (2, 2, 2)
        assert found.samples == [*left, *changed, ("only-right", "cn=g,dc=x")]
    assert one.diff(two, 0).samples == []


def test_ignored_attributes_do_not_count(put, tree):
    one = put("1", "dn: dc=x\ncn: a\nmodifyTimestamp: 1\ncn;lang-en: b")
    two = put("2", "dn: dc=x\nMODIFYTIMESTAMP: 2")
    ignore = ["modifytimestamp", "CN"]
    assert tree(one, ignore=ignore).checksum == tree(two, ignore=ignore).checksum


def test_the_empty_tree_and_an_entry_twice(put, tree):
    once, twice = tree(put("1", "dn: dc=x\ndc: x")), tree(put("2", "dn: dc=x\ndc: x", "dn: dc=x\ndc: x"))
    assert (tree().entries, tree().checksum) == (0, "0" * 32)
    assert facts(tree().diff(tree(), 9)) == facts(once.diff(once, 9)) == (0, 0, 0)
    assert facts(tree().diff(once, 9)) == (0, 1, 0)
    assert facts(twice.diff(once, 9)) == (1, 0, 0)
