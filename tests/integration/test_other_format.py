"""A database of OpenLDAP 2.7, whose data files are LMDB 1.0's (format 3): copied as it is, else refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import lmdb
import pytest

from fixtures.slapd import Slapd
from loader.errors import OtherFormat
from loader.mdb import meta
from tests.support.command import ditseed
from tests.unit.mdb.test_copy import make

pytestmark = pytest.mark.slapd


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """A suffix entry, in the tables of back-mdb, in a file that LMDB 1.0 itself has written."""
    place = make(tmp_path / "newer", engine=1)
    assert meta.read_meta(place).format == 3
    return place


@pytest.fixture
def target() -> Iterator[Slapd]:
    with closing(Slapd()) as server:
        yield server


def test_it_is_refused_by_name(newer: Path, target: Slapd, tmp_path: Path) -> None:
    out = tmp_path / "out"
    where = ("--config", target.config_path)
    for words in [
        ("export", newer, "-o", out),
        ("export", newer, "-o", "-"),
        ("verify", newer),
        ("compare", newer, newer),
        ("clone", newer, out, "--compact"),
        ("clone", newer, "-", "--compact"),
        ("replica", "seed", "--strategy", "clone", "--from", newer, *where),
    ]:
        done = ditseed(*words)
        assert done.status == OtherFormat.exit_status, (words, done)
        assert "has LMDB data format 3, but" in done.err
        assert "hint: OpenLDAP 2.4-2.6 (format 1) and 2.7 (format 3)" in done.err
        assert "slapcat of the version that wrote it" in done.err
        assert done.out == ""
        assert not out.exists()
        assert not list(target.database_dir.glob("data.mdb*"))


def test_it_is_copied_as_it_is(newer: Path, tmp_path: Path) -> None:
    done = ditseed("clone", newer, tmp_path / "copy", "--json").ok()
    assert done.facts["format"] == 3
    with lmdb.open(str(tmp_path / "copy"), max_dbs=8, readonly=True) as environment:
        table = environment.open_db(b"ad2i", create=False)
        with environment.begin() as transaction:
            assert list(transaction.cursor(table).iternext(keys=False)) == [b"objectClass"]
