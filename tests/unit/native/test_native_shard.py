"""shard: what becomes of a stream of records; join: many files as one stream, for one slapadd."""

from __future__ import annotations

import hashlib
import os
import subprocess

import pytest

from loader import _native


@pytest.mark.parametrize(
    ("text", "drop", "written"),
    [
        ("dn: dc=x\ndc:: eA==\nl:  b \n\ndn: cn=a,dc=x\ncn: a\n folded\n\n", (), None),
        (
            "dn: dc=x\nMEMBEROF: a\n b\nmemberOf;x-y: c\nmemberOfAll: d\n\n",
            ("memberof",),
            "dn: dc=x\nmemberOfAll: d\n\n",
        ),
        ("version: 1\n\n# refldap://y\n\ndn: dc=x\nchangetype: add\ndc: x\n\n\n", (), "dn: dc=x\ndc: x\n\n"),
    ],
    ids=["as they are", "dropped", "comments and change marks"],
)
def test_records_as_they_are_written(tmp_path, counters, text, drop, written):
    source, target = tmp_path / "in", tmp_path / "out.ldif"
    source.write_text(text)
    with source.open("rb") as stream:
        done = _native.shard(stream.fileno(), target, drop, counters)
    assert target.read_text() == (written or text)
    assert (done.entries, done.bytes) == (text.count("dn:"), target.stat().st_size)


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


def test_descriptors(put, tmp_path, counters):
    """One that is not open is refused; the caller's own stays open."""
    for descriptor in (-1, 9999):
        with pytest.raises((OSError, ValueError)):
            _native.shard(descriptor, tmp_path / "out.ldif", [], counters)
    with put("in", "dn: dc=x\ndc: x").open("rb") as stream:
        _native.shard(stream.fileno(), tmp_path / "out.ldif", [], counters)
        assert os.fstat(stream.fileno())


def test_joined_records_are_one_blank_line_apart(tmp_path, put, counters):
    """Without a root, contextCSNs stay."""
    loose, target = tmp_path / "loose", tmp_path / "joined"
    loose.write_text("version: 1\n# first\n\n\ndn: dc=x\ncontextCSN: old\n\n\n\ndn: cn=a,dc=x\ncn: a\n")
    with target.open("wb") as file:
        entries = _native.join([loose, put("b", "dn: cn=b,dc=x\ncn: b")], file.fileno(), counters)
    assert target.read_text() == "dn: dc=x\ncontextCSN: old\n\ndn: cn=a,dc=x\ncn: a\n\ndn: cn=b,dc=x\ncn: b\n\n"
    assert entries == counters.entries == 3


def test_a_pipe_that_its_owner_made_non_blocking(put, counters):
    path = put("a", *(f"dn: cn={n},dc=x\ncn: {n}\nl: {'a' * 500}" for n in range(5000)))
    child = subprocess.Popen(["md5sum"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with child:
        os.set_blocking(child.stdin.fileno(), False)
        assert _native.join([path], child.stdin.fileno(), counters) == 5000
        output, _ = child.communicate()
    assert output.split()[0].decode() == hashlib.md5(path.read_bytes()).hexdigest()
