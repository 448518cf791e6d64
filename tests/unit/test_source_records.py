"""A few records by DN out of much LDIF, however it is written and wherever the reads end."""

from __future__ import annotations

import base64
import gzip
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from loader.sources import Entry, location

LDIF = (
    "version: 1\n\n# a comment\n\n# dn: cn=no,dc=x\n\n"
    "dn: cn=one,dc=x\nobjectClass: device\ncn: one\ndescription: a\n  b\n\n\n"
    f"dn:: {base64.b64encode('cn=zwölf,dc=x'.encode()).decode()}\ncn;lang-de: zwölf\nCN: two\ncn: twice\n\n"
    "DN: CN = Three , DC=X\nuserPassword:: c2VjcmV0\n\n"
    "dn: cn=a very long name that is\n  folded,dc=x\ncn: x\n\n"
    "dn: cn=last,dc=x\ncn: last\n"
)
NAMES = ["CN=one,dc=x", "cn=zwölf,dc=x", "cn=three,dc=x", "cn=a very long name that is folded,dc=x", "cn=last,dc=x"]


def dripping(text: bytes, size: int) -> dict[str, Entry]:
    """What is found in a pipe that gives a few bytes at a time."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            for start in range(0, len(text), size):
                pipe.write(text[start : start + size])

    with os.fdopen(reading), ThreadPoolExecutor(1) as pool:
        pool.submit(write)
        return location.find(Path(f"/dev/fd/{reading}"), NAMES)


@given(st.integers(1, 200), st.booleans())
def test_records_are_found_wherever_the_reads_end(size: int, windows: bool) -> None:
    text = LDIF.replace("\n", "\r\n") if windows else LDIF
    found = dripping(text.encode(), size)
    assert found == {
        "cn=one,dc=x": {
            "objectclass": frozenset([b"device"]),
            "cn": frozenset([b"one"]),
            "description": frozenset([b"a b"]),
        },
        "cn=zwölf,dc=x": {"cn;lang-de": frozenset(["zwölf".encode()]), "cn": frozenset([b"two", b"twice"])},
        "cn=three,dc=x": {"userpassword": frozenset([b"secret"])},
        "cn=a very long name that is folded,dc=x": {"cn": frozenset([b"x"])},
        "cn=last,dc=x": {"cn": frozenset([b"last"])},
    }


def test_what_is_not_there_is_not_found() -> None:
    assert location.find(LDIF.encode(), ["cn=no,dc=x", "dc=x", "cn=on,dc=x"]) == {}


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_compressed_files_are_known_by_their_bytes(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    text = LDIF.encode()
    half = text.index(b"DN:")
    path = tmp_path / "any.name"
    path.write_bytes(pack(text[:half]) + pack(text[half:]))
    assert len(location.find(path, NAMES)) == len(NAMES)


def test_the_first_ones_in_order() -> None:
    """Nothing behind them is looked at."""
    found = location.entries(LDIF.encode() + b"no colon\n", most=2)
    assert [name for name, _ in found] == ["cn=one,dc=x", "cn=zwölf,dc=x"]
    assert [name for name, _ in location.entries(LDIF.encode())][2:4] == [
        "CN = Three , DC=X",
        "cn=a very long name that is folded,dc=x",
    ]
