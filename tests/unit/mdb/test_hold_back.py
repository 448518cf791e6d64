"""Entries newer than a claimed contextCSN, held back in databases that slapadd made: in the entry and in the index."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import lmdb
import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader.backmdb import IDLEXP
from loader.mdb.edits import cap_entry_csns, time_key
from loader.mdb.verify import verify
from loader.progress import Meter

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
CLAIM = "20261121070500.000000Z#000000#001#000000"
OLDER = "20261121070459.000000Z#000000#001#000000"
SAME_SECOND = "20261121070500.000001Z#000000#001#000000"
NEWER = "20261121080000.500000Z#000000#001#000000"
OTHER_SERVER = "20261121080000.500000Z#000000#002#000000"
INDEXED = Settings(indexes=("entryCSN eq",), maxsize=256 << 20)
BARE = Settings(indexes=(), maxsize=256 << 20)


def tree(*csns: str) -> str:
    top = f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\nentryCSN: {OLDER}\n\n"
    unit = "dn: ou={0},{1}\nobjectClass: organizationalUnit\nou: {0}\nentryCSN: {2}\n\n"
    return top + "".join(unit.format(number, SUFFIX, csn) for number, csn in enumerate(csns))


def csns_of(server: Slapd) -> list[str]:
    lines = server.slapcat().splitlines()
    return [line.partition(": ")[2] for line in lines if line.startswith("entryCSN:")]


def index_of(directory: Path) -> list[tuple[bytes, bytes]]:
    """Every record of the entryCSN index."""
    with lmdb.open(str(directory), readonly=True, lock=False, max_dbs=64) as environment:
        handle = environment.open_db(b"entryCSN", create=False)
        with environment.begin(db=handle) as transaction:
            return [(bytes(key), bytes(value)) for key, value in transaction.cursor()]


@pytest.mark.parametrize("settings", [INDEXED, BARE], ids=["index", "no-index"])
def test_only_newer_entries_of_a_claimed_server_change(settings: Settings) -> None:
    server = Slapd(settings)
    try:
        server.slapadd(tree(OLDER, CLAIM, SAME_SECOND, NEWER, OTHER_SERVER))
        held = cap_entry_csns(server.database_dir, [CLAIM], IDLEXP, Meter("hold back"))
        assert held == 2
        assert csns_of(server) == [OLDER, OLDER, CLAIM, CLAIM, CLAIM, OTHER_SERVER]
        verify(server.database_dir, "pages", Meter("verify"))
        assert cap_entry_csns(server.database_dir, [CLAIM], IDLEXP, Meter("again")) == 0
    finally:
        server.close()


def test_the_index_is_as_slapindex_would_make_it(tmp_path: Path) -> None:
    server = Slapd(INDEXED)
    try:
        server.slapadd(tree(*[NEWER, OLDER, SAME_SECOND] * 50))
        assert cap_entry_csns(server.database_dir, [CLAIM], IDLEXP, Meter("hold back")) == 100
        held = index_of(server.database_dir)
        server.tool("slapindex", "-q", *server.config_arguments, "-b", SUFFIX, "entryCSN")
        assert index_of(server.database_dir) == held
    finally:
        server.close()


@pytest.mark.long
@pytest.mark.parametrize("idlexp", [IDLEXP, IDLEXP + 1])
def test_a_key_of_too_many_entries_becomes_a_range(idlexp: int) -> None:
    """65,535 IDs are a list, one more makes (0, lowest, highest), as slapindex does; unless idlexp allows for more."""
    settings = replace(INDEXED, global_lines=("backend mdb", f"idlexp {idlexp}"))
    server = Slapd(settings)
    try:
        server.slapadd(tree(*[CLAIM] * 65_535, NEWER))
        assert cap_entry_csns(server.database_dir, [CLAIM], idlexp, Meter("hold back")) == 1
        held = index_of(server.database_dir)
        ids = [int.from_bytes(value, "little") for key, value in held if key == time_key(CLAIM)]
        assert ids == ([0, 2, 65_537] if idlexp == IDLEXP else list(range(2, 65_538)))
        server.tool("slapindex", "-q", *server.config_arguments, "-b", SUFFIX, "entryCSN")
        assert index_of(server.database_dir) == held
        server.start()
        assert len(server.search(f"(entryCSN={CLAIM})")) == 65_536
    finally:
        server.close()


@pytest.mark.long
def test_nothing_claimed_changes_nothing(tmp_path: Path) -> None:
    server = Slapd(INDEXED)
    try:
        server.slapadd(tree(NEWER))
        before = shutil.copy(server.database_dir / "data.mdb", tmp_path / "before")
        assert cap_entry_csns(server.database_dir, [], IDLEXP, Meter("hold back")) == 0
        assert (server.database_dir / "data.mdb").read_bytes() == Path(before).read_bytes()
    finally:
        server.close()
