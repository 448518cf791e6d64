"""shard: what becomes of a stream of records."""

from __future__ import annotations

import os
import stat

import pytest
import zstandard

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


def test_the_checksum_is_that_of_the_file(put, shard, tmp_path, counters):
    source = put("in", "dn: dc=x\ndc: x\nl: a", "dn: cn=a,dc=x\nl: b\ncn: a\nl: c")
    target = tmp_path / "out.ldif.zst"
    done = shard(source, target, "cn")
    tree = _native.tree([], counters)
    tree.add_path(target)
    assert (tree.checksum, tree.entries) == (done.checksum, done.entries)


def test_compression_goes_by_the_name(put, shard, tmp_path):
    source = put("in", "dn: dc=x\ndc: x")
    for name in ("a.ldif.zst", "a.ldif.zst.partial"):
        shard(source, tmp_path / name)
        with zstandard.open(tmp_path / name, "rt") as text:
            assert text.read() == source.read_text()


def test_only_the_owner_reads_it(put, shard, tmp_path):
    target = tmp_path / "out.ldif"
    shard(put("in", "dn: dc=x\ndc: x"), target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_stream_cut_in_a_line_is_refused(tmp_path, shard):
    source = tmp_path / "in"
    source.write_text("dn: dc=x\ndc: x\n\ndn: cn=a,dc")
    with pytest.raises(_native.NativeError) as caught:
        shard(source, tmp_path / "out.ldif")
    assert (caught.value.code, caught.value.path, caught.value.line) == ("ldif.truncated", None, 4)


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
