"""A file that was cut is noticed, wherever the cut leaves a trace."""

from __future__ import annotations

import gzip

import pytest
import zstandard

from loader import _native


def refusal(path, counters) -> _native.NativeError:
    with pytest.raises(_native.NativeError) as caught:
        _native.scan([path], counters)
    assert caught.value.path == str(path)
    return caught.value


def accepted(path, counters) -> bool:
    return _native.scan([path], counters).entries > 0


@pytest.fixture
def whole(put, user):
    people = [user(f"cn={n},dc=x", n, n, cn=str(n)) for n in range(1, 4)]
    return put("a.ldif", user("dc=x", 0, dc="x"), *people)


def cut(path, length: int):
    """The same file, shortened to `length` bytes."""
    path.write_bytes(path.read_bytes()[:length])
    return path


def test_the_whole_file_is_accepted(whole, counters):
    assert accepted(whole, counters)


def test_inside_a_line(whole, counters):
    cut(whole, whole.stat().st_size - len("1\n\n"))  # of `cn: 1`
    assert accepted(whole, counters)  # a plain file says how long it is
    assert counters.open_ends == [str(whole)]
    error = refusal(cut(whole, whole.read_bytes().rindex(b"Z")), counters)
    assert (error.code, error.line) == ("ldif.truncated", 26)


def test_every_cut_before_the_stamps_of_the_last_entry(whole, counters):
    text = whole.read_bytes()
    last = text.index(b"dn: cn=3")
    stamps = text.index(b"modifyTimestamp", last)
    for length in range(last + 1, stamps + 1):
        whole.write_bytes(text[:length])
        error = refusal(whole, counters)
        assert error.code == "ldif.truncated", length


def test_a_last_record_of_a_dn_alone(put, counters):
    path = put("a.ldif", "dn: dc=x\ndc: x", "dn: cn=a,dc=x")
    error = refusal(path, counters)
    assert (error.code, error.line, error.dn) == ("ldif.syntax", 4, "cn=a,dc=x")
    error = refusal(cut(path, path.stat().st_size - 1), counters)  # without the blank line
    assert (error.code, error.line, error.dn) == ("ldif.truncated", 4, "cn=a,dc=x")


@pytest.mark.parametrize("stamp", ["entryCSN", "modifyTimestamp"])
def test_a_last_record_that_alone_lacks_a_stamp(put, counters, stamp):
    path = put("a.ldif", f"dn: dc=x\n{stamp}: 1", f"dn: cn=a,dc=x\n{stamp}: 2", "dn: cn=b,dc=x\ncn: b")
    assert accepted(path, counters)  # closed by a blank line
    error = refusal(cut(path, path.stat().st_size - 1), counters)
    assert (error.code, error.line, error.dn) == ("ldif.truncated", 7, "cn=b,dc=x")
    assert stamp in error.message


def test_stamps_are_not_missed_where_not_all_have_them(put, counters):
    path = put("a.ldif", "dn: dc=x\nentryCSN: 1", "dn: cn=a,dc=x\ncn: a", "dn: cn=b,dc=x\ncn: b")
    assert accepted(cut(path, path.stat().st_size - 1), counters)


def test_each_file_is_judged_alone(put, counters):
    stamped = put("a.ldif", "dn: dc=x\nentryCSN: 1", "dn: cn=a,dc=x\nentryCSN: 2")
    bare = put("b.ldif", "dn: cn=b,dc=x\ncn: b", "dn: cn=c,dc=x\ncn: c")
    cut(bare, bare.stat().st_size - 1)
    assert _native.scan([stamped, bare], counters).entries == 4


def test_a_final_value_whose_base64_breaks_off(put, counters):
    folded = f"jpegPhoto:: {'YWFh' * 20}Y"
    path = put("a.ldif", f"dn: dc=x\ndc: x\n{folded}")
    assert refusal(path, counters).code == "ldif.syntax"
    assert refusal(cut(path, path.stat().st_size - 1), counters).code == "ldif.truncated"
    path = put("b.ldif", f"dn: dc=x\n{folded}\ndc: x")
    assert refusal(cut(path, path.stat().st_size - 1), counters).code == "ldif.syntax"


@pytest.mark.parametrize(("name", "compress"), [("a.gz", gzip.compress), ("a.zst", zstandard.compress)])
def test_a_compressed_stream_without_its_end(whole, counters, name, compress):
    packed = compress(whole.read_bytes())
    path = whole.with_name(name)
    for length in (0, 3, len(packed) // 2, len(packed) - 1):
        path.write_bytes(packed[:length])
        assert refusal(path, counters).code == "ldif.truncated", length


def test_a_tree_refuses_cut_files_too(put, counters):
    path = put("a.ldif", "dn: dc=x\ndc: x", "dn: cn=a,dc=x")
    cut(path, path.stat().st_size - 1)
    with pytest.raises(_native.NativeError) as caught:
        _native.tree([], counters).add_path(path)
    assert caught.value.code == "ldif.truncated"
