"""scan: the first look at LDIF files; a file that was cut is noticed, wherever the cut leaves a trace."""

from __future__ import annotations

import pytest

from loader import _native


def test_it_tells_what_a_server_must_know(put, counters):
    first = put("a.ldif", "dn: dc=x\nobjectClass: dcObject\ndc: x\ncn;lang-en: a")
    second = put("b.ldif", "dn: cn=a,dc=x\nOBJECTCLASS: Person\nCN: a\n# inside\nsn: b")
    found = _native.scan([first, second], counters)
    places = {"objectclass": (first, 2), "dc": (first, 3), "cn": (first, 4), "sn": (second, 5)}
    assert found.attributes == {name: (str(path), line) for name, (path, line) in places.items()}
    assert found.object_classes == {"dcobject": (str(first), 2), "person": (str(second), 2)}
    assert (found.entries, found.first_dn) == (2, "dc=x")
    assert found.bytes == first.stat().st_size + second.stat().st_size
    assert (counters.entries, counters.bytes) == (2, found.bytes)


def test_it_tells_how_new_the_entries_are(put, counters):
    csn = "202601010000{}.000000Z#000000#{}#000000".format
    path = put(
        "a.ldif",
        f"dn: dc=x\nentryCSN: {csn('05', '001')}\ncontextCSN: {csn('09', '001')}\ncontextCSN: z",
        f"dn: cn=a,dc=x\nentryCSN: {csn('04', '001')}\nentryUUID: u",
        f"dn: cn=b,dc=x\nentryCSN: {csn('03', '00A')}\nentryUUID: u",
        "dn: cn=c,dc=x\nentryUUID: u\nentryCSN: none of ours",
        "dn: cn=d,dc=x\ncn: d",
    )
    found = _native.scan([path], counters)
    assert found.context_csns == [csn("09", "001"), "z"]
    assert found.max_csns == {"001": csn("05", "001"), "00a": csn("03", "00A")}


def test_no_file_and_names_and_values_that_are_not_text(tmp_path, counters):
    found = _native.scan([], counters)
    assert (found.entries, found.first_dn, found.attributes) == (0, None, {})
    path = tmp_path / "latin.ldif"
    path.write_bytes(b"dn: cn=\xe9\nobjectClass: \xe9\n\n")
    found = _native.scan([path], counters)
    assert found.first_dn == "cn=\ufffd"
    assert found.object_classes == {"\ufffd": (str(path), 2)}


def refusal(path, counters) -> _native.NativeError:
    with pytest.raises(_native.NativeError) as caught:
        _native.scan([path], counters)
    assert caught.value.path == str(path)
    return caught.value


def test_errors_tell_file_line_and_entry(put, counters):
    path = put("a.ldif", "dn: dc=x\ndc: x", "dn: cn=a,dc=x\ncn: a\nbroken", "dn: cn=b,dc=x\ncn: b")
    error = refusal(path, counters)
    assert (error.code, error.line, error.dn) == ("ldif.syntax", 6, "cn=a,dc=x")
    assert str(error) == f"{path}: line 6: {error.message} (entry cn=a,dc=x)"


# --- files that were cut; ldif/tests/files.rs has the cuts inside a line ------------------------------


def accepted(path, counters) -> bool:
    return _native.scan([path], counters).entries > 0


def cut(path, length: int):
    """Shortens the file to `length` bytes; a negative number is that of the bytes which go."""
    path.write_bytes(path.read_bytes()[:length])
    return path


def test_every_cut_before_the_stamps_of_the_last_entry(put, user, counters):
    people = [user(f"cn={n},dc=x", n, n, cn=str(n)) for n in range(1, 4)]
    whole = put("a.ldif", user("dc=x", 0, dc="x"), *people)
    text = whole.read_bytes()
    assert accepted(cut(whole, -len("3\n\n")), counters)  # of `cn: 3`: a plain file says how long it is
    assert counters.open_ends == [str(whole)]
    last = text.index(b"dn: cn=3")
    for length in range(last + 1, text.index(b"modifyTimestamp", last) + 1):
        whole.write_bytes(text[:length])
        assert refusal(whole, counters).code == "ldif.truncated", length


def test_a_last_record_of_a_dn_alone(put, counters):
    path = put("a.ldif", "dn: dc=x\ndc: x", "dn: cn=a,dc=x")
    error = refusal(path, counters)
    assert (error.code, error.line, error.dn) == ("ldif.syntax", 4, "cn=a,dc=x")
    error = refusal(cut(path, -1), counters)  # without the blank line
    assert (error.code, error.line, error.dn) == ("ldif.truncated", 4, "cn=a,dc=x")
    with pytest.raises(_native.NativeError) as caught:
        _native.EntryDigests([], counters).add_path(path)
    assert caught.value.code == "ldif.truncated"


@pytest.mark.parametrize("stamp", ["entryCSN", "modifyTimestamp"])
def test_a_last_record_that_alone_lacks_a_stamp(put, counters, stamp):
    path = put("a.ldif", f"dn: dc=x\n{stamp}: 1", f"dn: cn=a,dc=x\n{stamp}: 2", "dn: cn=b,dc=x\ncn: b")
    assert accepted(path, counters)  # closed by a blank line
    error = refusal(cut(path, -1), counters)
    assert (error.code, error.line, error.dn) == ("ldif.truncated", 7, "cn=b,dc=x")
    assert stamp in error.message


def test_stamps_are_not_missed_where_not_all_have_them_in_each_file_alone(put, counters):
    path = put("a.ldif", "dn: dc=x\nentryCSN: 1", "dn: cn=a,dc=x\ncn: a", "dn: cn=b,dc=x\ncn: b")
    assert accepted(cut(path, -1), counters)
    stamped = put("a.ldif", "dn: dc=x\nentryCSN: 1", "dn: cn=a,dc=x\nentryCSN: 2")
    bare = put("b.ldif", "dn: cn=b,dc=x\ncn: b", "dn: cn=c,dc=x\ncn: c")
    assert _native.scan([stamped, cut(bare, -1)], counters).entries == 4
