"""Workers that share one work: what is told is why the first of them failed, and not that the others then gave up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from loader import _native
from loader.errors import SystemFailed
from loader.operations.verify import given_to_core
from loader.progress import Meter
from loader.server import configuration
from loader.sinks import mdb
from tests.support import generating

pytestmark = pytest.mark.slapd

JOBS = 8
ROUNDS = 40
PAGE = 4096
ENTRIES = 12_000  # a dozen blocks of 512 KiB: more than one for each worker


@pytest.fixture(scope="module")
def target() -> Iterator[mdb.Target]:
    with Slapd() as server:
        config = configuration.read(server.config_path)
        yield given_to_core(config, config.database(server.suffix), server.database_dir)


@pytest.fixture(scope="module")
def database(target: mdb.Target) -> _native.Database:
    return mdb.database(target)


@pytest.fixture(scope="module")
def text() -> bytes:
    return generating.text_of(generating.people(ENTRIES))


def build(path: Path, database: _native.Database) -> _native.Built:
    return _native.build(
        [str(path)],
        str(path.with_name("data.mdb")),
        database,
        _native.Counters(),
        now="20260101000000Z",
        write_context=False,
        claimed=None,
        value_check="count",
        file_urls=False,
        memory=64 << 20,
        jobs=JOBS,
        scratch=str(path.parent),
        max_rejects=0,
        rejects_path=str(path.with_name("rejects.ldif")),
    )


@pytest.mark.long
def test_the_input_changes_its_version(database: _native.Database, text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "in.ldif"
    for number in range(ROUNDS):
        at = text.index(b"\n\n", len(text) * number // ROUNDS) + 2
        path.write_bytes(text[:at] + b"version: 2\n" + text[at:])
        with pytest.raises(_native.NativeError) as caught:
            build(path, database)
        line = text[:at].count(b"\n") + 1
        assert (caught.value.code, caught.value.line) == ("ldif.version", line)


def test_whoever_reads_goes_away() -> None:
    recipe = generating.people(ENTRIES).compiled()
    for _ in range(ROUNDS):
        reading, writing = os.pipe()
        os.close(reading)
        with pytest.raises(_native.NativeError) as caught:
            recipe.write(writing, 0, recipe.entries, JOBS, _native.Counters())
        os.close(writing)
        assert caught.value.code == "ldif.pipe"


@pytest.mark.long
def test_the_database_is_damaged(database: _native.Database, text: bytes, tmp_path: Path) -> None:
    """Pages of id2e, which comes first in the file, are none any more; workers who are ahead wait for their turns."""
    path, data = tmp_path / "in.ldif", tmp_path / "data.mdb"
    path.write_bytes(text)
    build(path, database)
    whole = data.read_bytes()
    with open(os.devnull, "wb") as nowhere:
        for number in range(ROUNDS):
            at = (len(text) // PAGE) * (number + 1) // (2 * ROUNDS) * PAGE
            data.write_bytes(whole[:at] + bytes(PAGE) + whole[at + PAGE :])
            dump = _native.Dump(str(data), txn=None, base=None, jobs=JOBS)
            with pytest.raises(_native.NativeError) as caught:
                dump.stream(nowhere.fileno(), str(tmp_path), _native.Counters(), compress=False)
            assert caught.value.code == "build.damaged"


@pytest.mark.parametrize("away", ["data.mdb", "scratch"])
def test_what_the_system_refuses_is_no_damage(
    target: mdb.Target, database: _native.Database, text: bytes, tmp_path: Path, away: str
) -> None:
    path, data = tmp_path / "in.ldif", tmp_path / "data.mdb"
    path.write_bytes(text)
    build(path, database)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (data if away == data.name else scratch).rename(tmp_path / "elsewhere")
    means = mdb.Resources(1 << 16, 2, scratch)
    with pytest.raises(SystemFailed) as caught:
        mdb.verify(target, data, True, means, Meter("verify"))
    assert caught.value.facts["path"] == tmp_path / away
    assert caught.value.facts["reason"] == "No such file or directory"
