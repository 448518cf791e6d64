"""join: many files as one stream, for one slapadd."""

from __future__ import annotations

import hashlib
import os
import subprocess

import pytest

from loader import _native


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


def test_the_root_gets_its_context_csns(put, counters):
    path = put("a", "dn: DC=X\ncontextCSN: old\ndc: x", "dn: cn=a,dc=x\ncn: a")
    text, _ = join_to(["cat"], [path], counters, root="dc=x", context_csns=["new"])
    assert text == "dn: DC=X\ndc: x\ncontextCSN: new\n\ndn: cn=a,dc=x\ncn: a\n\n"


def test_root_and_context_csns_go_together(put, counters):
    for options in ({"root": "dc=x"}, {"context_csns": ["new"]}):
        with pytest.raises(ValueError, match="go together"):
            _native.join([put("a", "dn: dc=x\ndc: x")], 1, counters, **options)


def test_a_child_that_stops_reading_is_told_as_such(put, counters):
    path = put("a", *(f"dn: cn={n},dc=x\ncn: {n}\nl: {'a' * 500}" for n in range(5000)))
    with pytest.raises(_native.NativeError) as caught:
        join_to(["head", "-c", "1"], [path], counters)
    assert caught.value.code == "ldif.pipe"


def test_a_pipe_that_its_owner_made_non_blocking(put, counters):
    path = put("a", *(f"dn: cn={n},dc=x\ncn: {n}\nl: {'a' * 500}" for n in range(5000)))
    child = subprocess.Popen(["md5sum"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with child:
        os.set_blocking(child.stdin.fileno(), False)
        assert _native.join([path], child.stdin.fileno(), counters) == 5000
        output, _ = child.communicate()
    assert output.split()[0].decode() == hashlib.md5(path.read_bytes()).hexdigest()
