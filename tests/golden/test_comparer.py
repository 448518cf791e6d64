"""The comparison itself: it sees what is planted, says where, and leaves out only what nobody wrote."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import lmdb
import pytest

from fixtures.golden.blobs import used_length
from fixtures.golden.tables import GENERATED, differences
from fixtures.slapd import Slapd
from tests.golden.everything import BY_NAME
from tests.support.golden import fresh, slapadd

pytestmark = pytest.mark.slapd
CASE = BY_NAME["multival"]
Plant = Callable[[Any, Any], None]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    with closing(fresh(CASE)) as server:
        slapadd(server, CASE.write(tmp_path_factory.mktemp("comparer")))
        yield server


@pytest.fixture
def copy(made: Slapd, tmp_path: Path) -> Path:
    shutil.copy(made.database_dir / "data.mdb", tmp_path)
    return tmp_path


def _opened(place: Path) -> lmdb.Environment:
    return lmdb.open(str(place), map_size=128 << 20, max_dbs=200)


def _planted(made: Slapd, copy: Path, table: str, plant: Plant) -> list[str]:
    """The differences, once something is planted in the copy."""
    with _opened(copy) as environment:
        handle = environment.open_db(table.encode(), create=False)
        with environment.begin(write=True, db=handle) as transaction, transaction.cursor() as cursor:
            assert cursor.first()
            plant(transaction, cursor)
    return differences(made.database_dir, copy)


def _other_byte(at: int) -> Plant:
    def plant(_: Any, cursor: Any) -> None:
        key, value = cursor.item()
        changed = bytearray(value)
        changed[at] ^= 1
        cursor.delete()
        assert cursor.put(key, bytes(changed))

    return plant


def _drop(_: Any, cursor: Any) -> None:
    assert cursor.delete()


def _add_key(transaction: Any, _: Any) -> None:
    assert transaction.put(b"\1\2\3\4", (1).to_bytes(8, "little"))


@pytest.mark.parametrize(
    ("table", "plant", "said"),
    [
        ("id2e", _other_byte(8), "class_flags 0x100 != 0x101"),
        ("id2e", _other_byte(-40), "entry 1 dc=example,dc=com"),
        ("id2e", _drop, "only left"),
        ("dn2i", _other_byte(-1), "only right"),
        ("ad2i", _other_byte(0), "only left"),
        ("id2v", _drop, "only left"),
        ("cn", _drop, " IDs [3, 4, 5, 6]... != "),
        ("cn", _add_key, "key 01020304: 0 IDs [] != 1 IDs [1] (dc=example,dc=com)"),
    ],
)
def test_it_tells_what_was_planted(made: Slapd, copy: Path, table: str, plant: Plant, said: str) -> None:
    found = _planted(made, copy, table, plant)
    assert found
    assert all(line.startswith(f"{table}: ") for line in found if table != "ad2i"), found
    assert any(said in line for line in found), found


def test_the_pad_is_left_out(made: Slapd, copy: Path) -> None:
    def plant(_: Any, cursor: Any) -> None:
        while used_length(cursor.value()) == len(cursor.value()):
            assert cursor.next()
        _other_byte(-1)(_, cursor)

    assert _planted(made, copy, "id2e", plant) == []


def test_tables_and_their_flags(made: Slapd, copy: Path) -> None:
    with _opened(copy) as environment:
        environment.open_db(b"unexpected", dupsort=True)
        with environment.begin(write=True) as transaction:
            transaction.drop(environment.open_db(b"cn", txn=transaction, create=False))
        with environment.begin(write=True) as transaction:
            environment.open_db(b"cn", txn=transaction, dupsort=True)
    found = "\n".join(differences(made.database_dir, copy))
    assert "table unexpected: none != ('dupsort',)" in found
    assert "table cn: ('dupfixed', 'dupsort', 'integerdup') != ('dupsort',)" in found


def test_what_cannot_be_foreseen(tmp_path: Path) -> None:
    """Left out when it is said to be new in every run; but its absence is seen."""
    case = BY_NAME["made"]
    ldif = case.write(tmp_path)
    with closing(fresh(case)) as one, closing(fresh(case)) as other:
        slapadd(one, ldif)
        slapadd(other, ldif)
        assert differences(one.database_dir, other.database_dir)
        assert differences(one.database_dir, other.database_dir, GENERATED) == []
    with closing(fresh(case)) as one, closing(fresh(BY_NAME["made-never"])) as other:
        slapadd(one, ldif)
        slapadd(other, ldif)
        assert differences(one.database_dir, other.database_dir, GENERATED)
