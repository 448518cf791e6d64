"""Index lists: read, compared, joined, taken apart; and relisted with as few lines changed as can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader import indexes
from loader.errors import UsageProblem


def shown(found: indexes.Indexes) -> list[str]:
    return [str(one) for one in found.values()]


def test_reads_lists_defaults_and_options() -> None:
    lines = ["default pres,eq", "uid", "cn,sn  eq,sub", "telephoneNumber;lang-en eq", ""]
    assert shown(indexes.parse(lines)) == [
        *("default pres,eq", "uid pres,eq", "cn eq,sub", "sn eq,sub"),
        "telephoneNumber;lang-en eq",
    ]
    found = indexes.parse(["cn,objectClass eq", "objectclass pres,eq", "cn pres"])
    assert shown(found) == ["cn eq,pres", "objectClass eq"]  # slapd 2.7 ignores a second index of objectClass


@pytest.mark.parametrize("line", ["uid", "uid eq, sub", ", eq"])
def test_what_is_no_index_is_refused(line: str) -> None:
    with pytest.raises(UsageProblem):
        indexes.parse([line])


def test_spelling_makes_no_difference() -> None:
    one = indexes.parse(["cn sub,eq", "title subinitial,subany,subfinal", "sn nolang,eq"])
    other = indexes.parse(["SN eq,notags", "CN eq,substr", "title sub"])
    assert indexes.same(one, other)
    assert not indexes.same(one, indexes.parse(["cn sub,eq"]))


def test_adding_and_removing() -> None:
    present = indexes.parse(["uid eq", "cn eq,sub"])
    assert shown(indexes.added(present, ["UID pres", "mail eq"])) == ["uid eq,pres", "cn eq,sub", "mail eq"]
    assert shown(indexes.removed(present, ["CN sub", "nothing"])) == ["uid eq", "cn eq"]
    assert shown(indexes.removed(present, ["uid,cn"])) == []
    told = indexes.missing(present, ["CN sub", "nothing", "uid subany", "cn eq,pres"])
    assert told == ["nothing", "uid subany", "cn pres"]


def test_only_what_grew_must_be_indexed() -> None:
    before = indexes.parse(["uid eq", "cn eq,sub", "sn eq"])
    after = indexes.parse(["default eq", "uid eq,pres", "cn eq", "mail eq"])
    assert indexes.attributes_to_reindex(before, after) == ["uid", "mail"]


def test_relisting_leaves_lines_alone() -> None:
    lines = ["objectClass eq", "cn,sn eq,sub", "uid  eq"]
    wanted = indexes.parse(["objectClass eq", "sn eq,sub", "uid eq", "cn eq"])
    assert indexes.rewritten_lines(lines, wanted) == ("objectClass eq", "sn eq,sub", "uid  eq", "cn eq")
    assert indexes.rewritten_lines(lines, indexes.parse(lines)) == tuple(lines)
    wanted = indexes.removed(indexes.parse(["default pres", "uid"]), ["default"])  # which the other line leans on
    assert indexes.rewritten_lines(["default pres", "uid"], wanted) == ("uid pres",)


def test_what_replication_lacks() -> None:
    assert indexes.lacking_for_sync(indexes.parse(["entrycsn EQ", "entryUUID pres"])) == ["entryUUID eq"]
    assert indexes.lacking_for_sync(indexes.parse(["entryCSN,entryUUID eq"])) == []


_names = st.sampled_from(["uid", "cn", "sn", "mail", "title"])
_kinds = st.lists(st.sampled_from(["eq", "pres", "sub", "approx"]), min_size=1, max_size=3, unique=True)
_lists = st.dictionaries(_names, _kinds).map(
    lambda found: [f"{name} {','.join(kinds)}" for name, kinds in found.items()]
)


@pytest.mark.slow
@given(_lists, _lists)
def test_a_relisted_list_says_what_is_wanted(lines: list[str], wanted: list[str]) -> None:
    made = indexes.rewritten_lines(lines, indexes.parse(wanted))
    assert indexes.same(indexes.parse(made), indexes.parse(wanted))
    assert len(indexes.parse(made)) == len(indexes.parse(wanted))
