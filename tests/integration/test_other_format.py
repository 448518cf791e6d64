"""A database of OpenLDAP 2.7 (LMDB 1.0, data format 3): read and copied, but put before no slapd of 2.6 as it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import lmdb
import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader.errors import OtherFormat
from loader.mdb import meta
from tests.support.command import ditseed
from tests.unit.mdb.test_copy import make
from tests.unit.mdb.test_snapshot import database

pytestmark = pytest.mark.slapd


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """A suffix entry, in the tables of back-mdb, in a file that LMDB 1.0 itself has written."""
    place = make(tmp_path / "newer", engine=1)
    assert meta.read_meta(place).format == 3
    return place


@pytest.fixture
def target() -> Iterator[Slapd]:
    with closing(Slapd(Settings(suffix="dc=example"))) as server:
        yield server


def test_what_needs_the_other_format_says_so(newer: Path, target: Slapd, tmp_path: Path) -> None:
    ditseed("backup", "run", "--init", "--from", newer, "-R", tmp_path / "repo").ok()
    where = ("--config", target.config_path)
    done = ditseed("backup", "restore", "latest", "-R", tmp_path / "repo", *where)
    assert done.status == OtherFormat.exit_status, done
    assert "has LMDB data format 3, but" in done.err
    assert "hint: OpenLDAP 2.4-2.6 (format 1) and 2.7 (format 3)" in done.err
    assert "Use `ditseed migrate`" in done.err
    assert done.out == ""
    assert not list(target.database_dir.glob("data.mdb*"))


def test_doctor_says_nothing_of_its_indexes(target: Slapd) -> None:
    """slapindex of this slapd does not open it."""
    target.database_dir.mkdir(exist_ok=True)
    database(target.database_dir, 1)
    done = ditseed("doctor", "--config", target.config_path)
    assert "data.mdb has data format 3;" in done.out
    assert "slapindex" not in done.out


def test_it_is_read(tmp_path: Path) -> None:
    """As the same entries in a file of LMDB 0.9 are."""
    for engine, name in enumerate(["older", "newer"]):
        (tmp_path / name).mkdir()
        database(tmp_path / name, engine)
        ditseed("export", tmp_path / name, "-o", tmp_path / f"{name}.ldif").ok()
    exports = [
        [path.read_bytes() for path in sorted((tmp_path / f"{name}.ldif").glob("*.ldif*"))]
        for name in ("older", "newer")
    ]
    assert exports[0]
    assert exports[0] == exports[1]
    assert ditseed("compare", tmp_path / "older", tmp_path / "newer").ok()


@pytest.mark.parametrize("more", [(), ("--compact",)])
def test_its_copy_is_of_its_format(newer: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    done = ditseed("clone", newer, tmp_path / "copy", "--json", *more).ok()
    assert done.facts["format"] == 3
    with lmdb.open(str(tmp_path / "copy"), max_dbs=8, readonly=True) as environment:
        table = environment.open_db(b"ad2i", create=False)
        with environment.begin() as transaction:
            assert list(transaction.cursor(table).iternext(keys=False)) == [b"objectClass"]
