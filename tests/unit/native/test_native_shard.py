"""shard: what becomes of a stream of records; join: many files as one stream, for one slapadd."""

from __future__ import annotations

import hashlib
import os
import subprocess

import pytest

from loader import _native


def test_bytes_stay_as_they_are(put, shard, tmp_path):
    source = put("in", "dn: dc=x\nobjectClass: a\ndc:: eA==\nl:  b ", "dn: cn=a,dc=x\ncn: a\n folded")
    target = tmp_path / "out.ldif"
    done = shard(source, target)
    assert target.read_bytes() == source.read_bytes()
    assert (done.entries, done.bytes) == (2, source.stat().st_size)


def test_parents_first(put, counters, tmp_path):
    """Otherwise the order stays. An escaped comma ends no RDN, and a parent may be missing."""
    first = ["ou=b,ou=a,dc=x", "cn=1\\, 2,ou=a,dc=x", "ou=c,cn=gone,ou=a,dc=x", "ou=d,ou=a, dc=x"]
    source = put("in", *(f"dn: {dn}\ncn: a" for dn in (*first, "dc=x", "ou=a,dc=x")))
    target = tmp_path / "out.ldif"
    with source.open("rb") as stream:
        _native.parents_first(stream.fileno(), target, tmp_path, counters)
    found = [line[4:] for line in target.read_text().splitlines() if line.startswith("dn: ")]
    assert found == ["dc=x", "ou=a,dc=x", first[0], first[1], first[3], first[2]]
    assert (counters.entries, target.stat().st_size) == (6, source.stat().st_size)


def test_dropped_attributes_go_in_any_case_with_any_options(put, shard, tmp_path):
    source = put("in", "dn: dc=x\ndc: x\nMEMBEROF: a\n b\nmemberOf;x-y: c\nmemberOfAll: d")
    target = tmp_path / "out.ldif"
    shard(source, target, "memberof")
    assert target.read_text() == "dn: dc=x\ndc: x\nmemberOfAll: d\n\n"


def test_values_of_one_attribute_come_out_side_by_side(put, shard, tmp_path):
    source = put("in", "dn: dc=x\ncn: a\nsn: b\nCN: c\nsn;lang-de: d\n# why\nsn: e")
    target = tmp_path / "out.ldif"
    shard(source, target)
    assert target.read_text() == "dn: dc=x\ncn: a\nCN: c\nsn: b\nsn: e\nsn;lang-de: d\n\n"


def test_comments_between_records_and_change_marks_are_left_out(tmp_path, shard):
    source = tmp_path / "in"
    source.write_text("version: 1\n\n# refldap://y\n\ndn: dc=x\nchangetype: add\ndc: x\n\n\n")
    target = tmp_path / "out.ldif"
    assert shard(source, target).entries == 1
    assert target.read_text() == "dn: dc=x\ndc: x\n\n"


@pytest.mark.parametrize("fd", [-1, 9999])
def test_a_descriptor_that_is_not_open(fd, tmp_path, counters):
    with pytest.raises((OSError, ValueError)):
        _native.shard(fd, tmp_path / "out.ldif", [], counters)


def test_a_full_disk_is_told_as_such(put, counters):
    with put("in", "dn: dc=x\ndc: x").open("rb") as stream, pytest.raises(_native.NativeError) as caught:
        _native.shard(stream.fileno(), "/dev/full", [], counters)
    assert (caught.value.code, caught.value.path) == ("ldif.no_space", "/dev/full")


def test_the_callers_descriptor_stays_open(put, shard, tmp_path):
    with put("in", "dn: dc=x\ndc: x").open("rb") as stream:
        _native.shard(stream.fileno(), tmp_path / "out.ldif", [], _native.Counters())
        assert os.fstat(stream.fileno())


def join_to(command, paths, counters, **options):
    """Joins into the standard input of a child; its output, and how many records went in."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with child:
        entries = _native.join(paths, child.stdin.fileno(), counters, **options)
        output, _ = child.communicate()
    return output.decode(), entries


def test_records_are_one_blank_line_apart(tmp_path, put, counters):
    loose = tmp_path / "loose"
    loose.write_text("version: 1\n# first\n\n\ndn: dc=x\ndc: x\n\n\n\ndn: cn=a,dc=x\ncn: a\n")
    text, entries = join_to(["cat"], [loose, put("b", "dn: cn=b,dc=x\ncn: b")], counters)
    assert text == "dn: dc=x\ndc: x\n\ndn: cn=a,dc=x\ncn: a\n\ndn: cn=b,dc=x\ncn: b\n\n"
    assert entries == counters.entries == 3


def test_without_a_root_context_csns_pass(put, counters):
    path = put("a", "dn: dc=x\ncontextCSN: old\ndc: x")
    text, _ = join_to(["cat"], [path], counters)
    assert text == path.read_text()


def test_root_and_context_csns_go_together(put, counters):
    for options in ({"root": "dc=x"}, {"context_csns": ["new"]}):
        with pytest.raises(ValueError, match="go together"):
            _native.join([put("a", "dn: dc=x\ndc: x")], 1, counters, **options)


def test_a_pipe_that_its_owner_made_non_blocking(put, counters):
    path = put("a", *(f"dn: cn={n},dc=x\ncn: {n}\nl: {'a' * 500}" for n in range(5000)))
    child = subprocess.Popen(["md5sum"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with child:
        os.set_blocking(child.stdin.fileno(), False)
        assert _native.join([path], child.stdin.fileno(), counters) == 5000
        output, _ = child.communicate()
    assert output.split()[0].decode() == hashlib.md5(path.read_bytes()).hexdigest()
