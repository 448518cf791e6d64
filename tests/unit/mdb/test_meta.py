"""What a data.mdb says of itself, in both formats, and files that are none or are damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.errors import FileUnsafe, LoaderError, MdbDamaged, MdbProtected, NoSuchPath, NotLmdb
from loader.mdb import edits, meta, snapshot

FORMATS = {1: 0, 3: 1}  # data format -> lib_version of py-lmdb


def make(directory: Path, data_format: int = 1, tables: int = 8) -> Path:
    """An environment as slapd would lay it out, with 5 records in id2e."""
    with lmdb.open(str(directory), max_dbs=200, map_size=1 << 28, lib_version=FORMATS[data_format]) as environment:
        for number in range(tables):
            environment.open_db(f"index{number:03}".encode(), dupsort=True)
        entries = environment.open_db(b"id2e", integerkey=True)
        with environment.begin(write=True) as transaction:
            for number in range(5):
                transaction.put(struct.pack("=Q", number + 1), b"x" * 300, db=entries)
    return directory


@pytest.mark.parametrize("data_format", FORMATS)
def test_facts_are_those_of_lmdb(tmp_path: Path, data_format: int) -> None:
    make(tmp_path, data_format)
    found = meta.read_meta(tmp_path)
    with lmdb.open(str(tmp_path), readonly=True) as environment:
        info, stat = environment.info(), environment.stat()
    assert found.format == data_format
    assert found.page_size == stat["psize"]
    assert found.pages == info["last_pgno"] + 1
    assert found.txnid == info["last_txnid"]
    assert found.map_size == 1 << 28
    assert (found.main.entries, found.main.depth) == (stat["entries"], stat["depth"])


@pytest.mark.parametrize(("data_format", "tables"), [(1, 8), (3, 8), (1, 120)])
def test_entries_of_a_snapshot(tmp_path: Path, data_format: int, tables: int) -> None:
    """Also where the list of tables takes more than a page."""
    place = make(tmp_path, data_format, tables)
    assert (meta.read_meta(place).main.depth == 2) == (tables == 120)
    with snapshot.image(place) as image, snapshot.protected(place) as held:
        assert image.entries() == held.entries() == 5


def test_the_newer_of_the_two_meta_pages_counts(tmp_path: Path) -> None:
    make(tmp_path)
    before = meta.read_meta(tmp_path).txnid
    with lmdb.open(str(tmp_path), max_dbs=200, map_size=1 << 28) as environment:
        for number in (1, 2):
            with environment.begin(write=True, db=environment.open_db(b"id2e")) as transaction:
                transaction.put(struct.pack("=Q", 100 + number), b"y")
            assert meta.read_meta(tmp_path).txnid == before + number


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", NotLmdb),
        (b"dn: dc=example,dc=com\n" * 1000, NotLmdb),
        (bytes(100_000), NotLmdb),
        (bytes(16) + struct.pack("=II", meta.MAGIC, 1), MdbDamaged),
        (bytes(24) + struct.pack("=II", meta.MAGIC, 3) + bytes(9000), MdbDamaged),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, error: type[LoaderError]) -> None:
    (tmp_path / "data.mdb").write_bytes(content)
    with pytest.raises(error):
        meta.read_meta(tmp_path)


def test_places_without_a_database(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(NoSuchPath):
            meta.read_meta(place)
    (tmp_path / "data.mdb").mkdir()
    with pytest.raises(FileUnsafe, match="is a directory"):
        meta.read_meta(tmp_path)


def test_a_format_of_no_release(heads: dict[int, bytes]) -> None:
    data = heads[1][:20] + struct.pack("=I", 2) + heads[1][24:]
    with pytest.raises(NotLmdb, match="format 2"):
        meta.parse(data, "stream")


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> dict[int, bytes]:
    found = {}
    for data_format in FORMATS:
        directory = make(tmp_path_factory.mktemp("format"), data_format)
        found[data_format] = (directory / "data.mdb").read_bytes()
    return found


@pytest.mark.slow
@given(data=st.data())
def test_no_damage_leads_to_a_traceback(heads: dict[int, bytes], data: st.DataObject) -> None:
    head = bytearray(heads[data.draw(st.sampled_from(list(FORMATS)))])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, 200) | st.integers(4096, 4300))
        head[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(head)))
    try:
        found = meta.parse(bytes(head[:cut]), "stream")
    except (NotLmdb, MdbDamaged, MdbProtected):
        return
    assert found.used > 0


def test_the_map_size_is_changed_in_both_meta_pages_and_nothing_else(tmp_path: Path) -> None:
    """It is never less than what is used."""
    path = make(tmp_path) / "data.mdb"
    before = path.read_bytes()
    edits.set_map_size(path, 1 << 30)
    facts, after = meta.read_meta(path), path.read_bytes()
    assert facts.map_size == 1 << 30
    changed = [at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert {at // facts.page_size for at in changed} == {0, 1}
    assert len(changed) <= 16
    edits.set_map_size(path, 1)
    assert meta.read_meta(path).map_size == facts.used
