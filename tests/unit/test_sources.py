"""Whatever a build or a load reads from tells the same of itself and is read in the same way."""

from __future__ import annotations

import base64
import gzip
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from loader import ldif
from loader.errors import ManifestBroken
from loader.operations.generate import to_directory
from loader.progress import Meter, Progress
from loader.sources import Entry, Source, location, names
from loader.sources.dit import Synthetic
from loader.sources.location import LdifFiles
from tests.support import generating
from tests.support.adding import TOP, write


def checksum(source: Source) -> tuple[int, str]:
    meter = Meter("read")
    with source.reading(meter) as read, ldif.digesting((), meter) as tree:
        for path in names(read):
            tree.add_path(str(path))
    return tree.entries, tree.checksum


@pytest.fixture
def exported(tmp_path: Path) -> LdifFiles:
    made = generating.options(generating.people(2500), None, 1, 1000, "none")
    to_directory(made, tmp_path / "tree", Progress("none"))
    return LdifFiles((tmp_path / "tree",))


def test_a_tree_and_its_export_are_the_same_source(exported: LdifFiles) -> None:
    tree = Synthetic(generating.people(2500))
    assert exported.entries() == tree.entries() == 2502
    assert checksum(exported) == checksum(tree)
    assert checksum(tree)[0] == 2502


def test_ldif_without_a_manifest_does_not_tell_how_much_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "one.ldif", TOP)
    assert LdifFiles((path,)).entries() is None
    assert checksum(LdifFiles((path,)))[0] == 1


def test_standard_input_is_a_descriptor() -> None:
    with LdifFiles((Path("-"), Path("more.ldif"))).reading(Meter("read")) as read:
        assert list(read) == [0, Path("more.ldif")]
        assert names(read) == [Path("/dev/fd/0"), Path("more.ldif")]


def test_a_shard_that_was_changed_is_refused_when_it_has_been_read(exported: LdifFiles) -> None:
    shard = exported.given[0] / "00000.ldif"
    shard.write_bytes(shard.read_bytes().replace(b"person", b"nobody", 1))
    with pytest.raises(ManifestBroken, match="other checksum"):
        checksum(exported)


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
def test_compressed_files_are_known_by_their_bytes(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    text = LDIF.encode()
    half = text.index(b"DN:")
    path = tmp_path / "any.name"
    path.write_bytes(pack(text[:half]) + pack(text[half:]))
    assert len(location.find(path, NAMES)) == len(NAMES)


def test_the_first_ones_in_order() -> None:
    found = location.entries(LDIF.encode() + b"no colon\n", most=2)
    assert [name for name, _ in found] == ["cn=one,dc=x", "cn=zwölf,dc=x"]
    assert [name for name, _ in location.entries(LDIF.encode())][2:4] == [
        "CN = Three , DC=X",
        "cn=a very long name that is folded,dc=x",
    ]
