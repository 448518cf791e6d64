"""arrange: shards of an export made loadable by slapadd."""

from __future__ import annotations

import re
import shutil

import pytest
import zstandard

from loader import _native
from loader.ldif import ArrangeTask

UUID = "00000000-0000-0000-0000-{:012}"


@pytest.fixture
def arrange(tmp_path, counters):
    def run(*paths, again=(), csns=(), compress=False, drop_orphans=False, root="dc=x"):
        task = ArrangeTask(paths, again, root, csns, compress, drop_orphans)
        return _native.arrange(task, tmp_path / "out", counters)

    return run


@pytest.fixture
def written(tmp_path):
    """The DNs in each file, by the order of loading."""

    def read():
        texts = {path.name: path.read_text("utf-8") for path in sorted((tmp_path / "out").iterdir())}
        return {name: re.findall("^dn: (.*)", text, re.MULTILINE) for name, text in texts.items()}

    return read


def test_parents_come_first_and_by_depth(put, user, arrange, written):
    one = put("1", user("cn=a,ou=p,o=b,dc=x", 1), user("ou=p,o=b,dc=x", 2), user("o=empty,dc=x", 3))
    two = put("2", user("o=b,dc=x", 4), user("DC=X", 5), user("cn=b,OU=p,o=b,dc=x", 6))
    done = arrange(one, two)
    assert written() == {
        "0000-interior.ldif": ["DC=X", "o=b,dc=x", "ou=p,o=b,dc=x"],
        "0001.ldif": ["cn=a,ou=p,o=b,dc=x", "o=empty,dc=x"],
        "0002.ldif": ["cn=b,OU=p,o=b,dc=x"],
    }
    assert (done.entries, done.duplicates, done.orphans) == (6, 0, [])


def test_entries_without_uuid_are_not_each_others_duplicates(put, arrange):
    path = put("1", "dn: dc=x\ndc: x", "dn: cn=a,dc=x\ncn: a", "dn: cn=b,dc=x\ncn: b", "dn: cn=B,dc=x\ncn: b")
    done = arrange(path)
    assert (done.entries, done.duplicates) == (3, 1)


def test_what_was_read_again_counts_whatever_its_csn(put, user, arrange, written):
    """The subtree o=a moved to o=b: the entry below keeps its CSN, and only reading again shows it."""
    early = put("1", user("dc=x"), user("o=a,dc=x", 1, 1), user("cn=u,o=a,dc=x", 2, 9))
    late = put("2", user("o=b,dc=x", 1, 5), user("cn=u,o=b,dc=x", 2, 0))
    done = arrange(early, again=[late])
    assert (done.entries, done.duplicates, done.orphans) == (3, 2, [])
    assert written() == {"0000-interior.ldif": ["dc=x", "o=b,dc=x"], "0002.ldif": ["cn=u,o=b,dc=x"]}


def test_missing_parents_are_told_once_with_a_child(put, user, arrange, written):
    names = ("dc=x", r"cn=a, OU=Gone\, too ,dc=x", r"cn=b,ou=gone\2C too,dc=x", "cn=c,cn=a,ou=away,dc=x")
    done = arrange(put("1", *(user(dn, number) for number, dn in enumerate(names))))
    assert done.orphans == [
        (r"OU=Gone\, too ,dc=x", r"cn=a, OU=Gone\, too ,dc=x", UUID.format(1)),
        ("cn=a,ou=away,dc=x", "cn=c,cn=a,ou=away,dc=x", UUID.format(3)),
    ]
    assert (done.entries, done.dropped) == (4, 0)
    assert sum(map(len, written().values())) == 4


def test_dropping_orphans_drops_what_is_below_them(put, user, arrange, written):
    lost = ("cn=c,cn=b,cn=a,ou=gone,dc=x", "cn=b,cn=a,ou=gone,dc=x", "cn=a,ou=gone,dc=x")
    names = ("dc=x", *lost, "cn=stays,dc=x")
    done = arrange(put("1", *(user(dn, number) for number, dn in enumerate(names))), drop_orphans=True)
    assert (done.entries, done.dropped, done.duplicates, done.orphans) == (2, 3, 0, [])
    assert written() == {"0000-interior.ldif": ["dc=x"], "0001.ldif": ["cn=stays,dc=x"]}


@pytest.mark.parametrize("csns", [[], ["new", "newer"]])
def test_the_given_context_csns_stand_at_the_root_alone(put, user, arrange, tmp_path, csns):
    path = put("1", user("dc=x", contextCSN="old"), user("o=a,dc=x", 1, contextCSN="old"))
    arrange(path, csns=csns)
    assert (tmp_path / "out/0001.ldif").read_text().count("contextCSN") == 0
    interior = (tmp_path / "out/0000-interior.ldif").read_text()
    stamps = [line for line in interior.splitlines() if line.startswith("contextCSN")]
    assert stamps == [f"contextCSN: {one}" for one in csns]


def test_the_root_and_the_directory(put, user, arrange, tmp_path):
    """contextCSNs need the root, whose own parent is not missed; the directory must be empty."""
    path = put("1", user("ou=p,dc=x"), user("cn=a,ou=p,dc=x", 1))
    with pytest.raises(_native.NativeError) as caught:
        arrange(path, csns=["new"])
    assert caught.value.code == "tree.root_missing"
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    assert arrange(path, root="OU=p, dc=x").orphans == []
    with pytest.raises(_native.NativeError) as caught:
        arrange(path)
    assert (caught.value.code, caught.value.path) == ("tree.not_empty", str(tmp_path / "out"))


@pytest.mark.slow
def test_the_same_input_gives_the_same_bytes_and_their_checksum(put, user, arrange, tmp_path, counters):
    people = [user(f"cn={n},o={n % 7},dc=x", n + 10, l=str(n) * 50) for n in range(20000)]
    path = put("1", *people, *(user(f"o={n},dc=x", n) for n in range(7)), user("dc=x", 9, contextCSN="old"))
    arrange(path, csns=["new"], compress=True)
    first = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    (tmp_path / "out").rename(tmp_path / "before")
    done = arrange(path, csns=["new"], compress=True)
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == first
    tree = _native.EntryDigests([], counters)
    for name in first:
        tree.add_path(tmp_path / "out" / name)
    assert (tree.checksum, tree.entries) == (done.checksum, done.entries)
    with zstandard.open(tmp_path / "out/0000-interior.ldif.zst", "rt") as text:
        assert text.read().count("dn: ") == 8
