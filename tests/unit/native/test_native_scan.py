"""scan: the first look at LDIF files."""

from __future__ import annotations

import gzip

import pytest
import zstandard

from loader import _native


def test_it_tells_what_a_server_must_know(put, counters):
    first = put("a.ldif", "dn: dc=x\nobjectClass: dcObject\ndc: x\ncn;lang-en: a")
    second = put("b.ldif", "dn: cn=a,dc=x\nOBJECTCLASS: Person\nCN: a\n# inside\nsn: b")
    found = _native.scan([first, second], counters)
    assert found.attributes == {
        "objectclass": (str(first), 2),
        "dc": (str(first), 3),
        "cn": (str(first), 4),
        "sn": (str(second), 5),
    }
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
    assert (found.with_uuid, found.with_csn) == (3, 4)


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_compressed_files_are_read_as_they_are(put, counters, compress):
    plain = put("a.ldif", "dn: dc=x\ndc: x")
    packed = plain.with_name("packed")
    packed.write_bytes(compress(plain.read_bytes()))
    found = _native.scan([packed], counters)
    assert (found.entries, found.bytes) == (1, plain.stat().st_size)


def test_no_file_is_an_empty_scan(counters):
    found = _native.scan([], counters)
    assert (found.entries, found.first_dn, found.attributes) == (0, None, {})


def test_a_missing_file_is_named(counters):
    with pytest.raises(_native.NativeError, match="No such file") as caught:
        _native.scan(["/nowhere/a.ldif"], counters)
    assert (caught.value.code, caught.value.path) == ("ldif.io", "/nowhere/a.ldif")


def test_errors_tell_file_line_and_entry(put, counters):
    path = put("a.ldif", "dn: dc=x\ndc: x", "dn: cn=a,dc=x\ncn: a\nbroken", "dn: cn=b,dc=x\ncn: b")
    with pytest.raises(_native.NativeError) as caught:
        _native.scan([path], counters)
    error = caught.value
    assert (error.code, error.path, error.line) == ("ldif.syntax", str(path), 6)
    assert error.dn == "cn=a,dc=x"
    assert str(error) == f"{path}: line 6: {error.message} (entry cn=a,dc=x)"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("changetype: modify", "ldif.changetype"),
        ("jpegPhoto:< file:///etc/passwd", "ldif.url"),
        ("cn:: no base64", "ldif.syntax"),
    ],
)
def test_what_is_no_entry_is_refused(put, counters, line, code):
    path = put("a.ldif", f"dn: dc=x\n{line}\ncn: a", "dn: cn=a,dc=x\ncn: a")
    with pytest.raises(_native.NativeError) as caught:
        _native.scan([path], counters)
    assert (caught.value.code, caught.value.line) == (code, 2)


def test_names_and_values_need_not_be_text(tmp_path, counters):
    path = tmp_path / "latin.ldif"
    path.write_bytes(b"dn: cn=\xe9\nobjectClass: \xe9\n\n")
    found = _native.scan([path], counters)
    assert found.first_dn == "cn=\ufffd"
    assert found.object_classes == {"\ufffd": (str(path), 2)}
