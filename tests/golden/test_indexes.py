"""Indexes made again from a stored database: each table is the one that slapindex makes of it, either snapshot of the
file is whole, and every page is accounted for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from msgspec import structs

from fixtures.golden.case import Case
from fixtures.golden.tables import differences
from fixtures.limits import loop_filesystem, missing_loop_filesystem
from fixtures.slapd import Slapd
from loader import indexes
from loader.defaults import ENV_KILL_AT
from loader.errors import LoaderError, MapFull, NoSpace, NotProven, TargetInUse
from loader.mdb import contents, edits, environment, meta
from loader.mdb.meta import DATA
from loader.operations.verify import core_target_of
from loader.progress import Meter
from loader.server import configuration
from loader.sinks import changing as core
from loader.sinks.mdb import Resources
from tests.golden.everything import BY_NAME, PARAMETERS
from tests.support.command import ditseed
from tests.support.golden import fresh, require_fitting, slapadd

pytestmark = pytest.mark.slapd

UNKNOWN = "authzTo"  # it has no index keys


@contextmanager
def loaded(case: Case, directory: Path) -> Iterator[Slapd]:
    ldif = case.write(directory) if case.oracle is None else case.write_oracle(directory)
    with closing(fresh(case)) as server:
        slapadd(server, ldif, *case.options)
        yield server


def rebuild(
    server: Slapd,
    attributes: Sequence[str],
    scratch: Path,
    map_size: int = 0,
    directory: Path | None = None,
    memory: int = 64 << 20,
) -> None:
    config, place = configuration.read(server.config_path), server.database_dir
    target = core_target_of(config, config.database(server.suffix), place)
    target = structs.replace(target, map_size=map_size or target.map_size)
    core.rebuild(directory or place, target, tuple(attributes), Resources(memory, 2, scratch), Meter("index"))


@pytest.mark.rows(6, "suffix-root-context")
@pytest.mark.parametrize("case", PARAMETERS)
def test_equal_to_slapindex(case: Case, tmp_path: Path) -> None:
    require_fitting(case)
    with loaded(case, tmp_path) as server:
        found, ours = configuration.read(server.config_path).database(server.suffix), server.database_dir
        parsed = indexes.parse(found.indexes)
        attributes = [one.attribute for key, one in parsed.items() if key != indexes.DEFAULT]
        if not attributes:
            pytest.skip("a case without an index")
        rebuild(server, attributes, tmp_path)
        shutil.copytree(ours, tmp_path / "ours")
        edits.empty_indexes(ours, [name.partition(";")[0] for name in attributes])
        server.tool("slapindex", "-q", *server.config_arguments, "-b", server.suffix)
        found = differences(ours, tmp_path / "ours")
    assert not found, f"{case.shows}:\n" + "\n".join(found)


@pytest.mark.long
def test_only_those_that_are_asked_for(tmp_path: Path) -> None:
    """An index that was emptied is whole again, and one that was not named stays as it is, empty."""
    with loaded(BY_NAME["broad"], tmp_path) as server:
        before = contents.indexes(server.database_dir)
        edits.empty_indexes(server.database_dir, ["cn", "sn"])
        rebuild(server, ["cn"], tmp_path)
        after = contents.indexes(server.database_dir)
    assert after == {**before, "sn": 0}
    assert before["cn"] > 0


def test_what_the_core_does_not_know_is_refused_before_anything_is_changed(tmp_path: Path) -> None:
    with loaded(BY_NAME["broad"], tmp_path) as server:
        place = server.database_dir
        config = configuration.read(server.config_path)
        database = config.database(server.suffix)
        odd = structs.replace(database, indexes=(*database.indexes, f"{UNKNOWN} eq"))
        given, before = core_target_of(config, odd, place), (place / DATA).read_bytes()
        means = Resources(64 << 20, 2, tmp_path)
        for name in (UNKNOWN, "no-such-attribute"):
            with pytest.raises(NotProven):
                core.rebuild(place, given, (name,), means, Meter("index"))
        assert (place / DATA).read_bytes() == before


MADE = ["cn", "sn", "uid"]
POINTS = {"index.written": False, "index.synced": False, "index.switched": True}
HOLDER = """
import sys, lmdb
held = lmdb.open(sys.argv[1], create=False, max_dbs=64)
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Slapd]:
    with loaded(BY_NAME["broad"], tmp_path) as made:
        yield made


def require_whole(server: Slapd) -> None:
    """Each page is in one table or free, and each index is that of the entries."""
    words = ("--config", server.config_path, "-b", server.suffix, "--verify", "indexes")
    ditseed("verify", *words).ok()


@pytest.mark.long
def test_liblmdb_and_slapd_go_on_with_it(server: Slapd, tmp_path: Path) -> None:
    """Twice, so that there are pages to be freed, and lists of free pages from before; then slapd uses them."""
    place, before = server.database_dir, meta.read_meta(server.database_dir)
    for _ in range(2):
        rebuild(server, MADE, tmp_path)
        require_whole(server)
    assert meta.read_meta(place).txnid == before.txnid + 2
    for command in (["mdb_stat", "-eff"], ["mdb_dump", "-a"]):
        if shutil.which(command[0]) is None and "CI" not in os.environ:
            pytest.skip("lmdb-utils are not installed")
        subprocess.run([*command, "-n", str(place / meta.DATA)], stdout=subprocess.DEVNULL, check=True)
    server.start()
    dns = [f"cn=after {number},{server.suffix}" for number in range(1000)]
    record = "dn: {0}\nobjectClass: person\ncn: after\nsn: {1}\n\n"
    server.ldapadd("".join(record.format(dn, at) for at, dn in enumerate(dns)))
    change = "dn: {0}\nchangetype: modify\nreplace: sn\nsn: changed\n\n"
    server.ldapmodify("".join(change.format(dn) for dn in dns[::2]))
    server.ldapmodify("".join(f"dn: {dn}\nchangetype: delete\n\n" for dn in dns[:700]))
    server.stop()
    require_whole(server)
    rebuild(server, MADE, tmp_path)
    require_whole(server)


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_killed(server: Slapd, tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = server.database_dir
    edits.empty_indexes(place, ["cn"])
    old, before = (place / meta.DATA).read_bytes(), meta.read_meta(place)
    monkeypatch.setenv(ENV_KILL_AT, point)
    with pytest.raises(LoaderError):
        rebuild(server, MADE, tmp_path)
    monkeypatch.delenv(ENV_KILL_AT)
    assert (contents.indexes(place)["cn"] > 0) == POINTS[point]
    if not POINTS[point]:
        assert (place / meta.DATA).read_bytes()[: before.used] == old[: before.used]
        rebuild(server, MADE, tmp_path)
    require_whole(server)


def test_a_map_too_small_changes_nothing(server: Slapd, tmp_path: Path) -> None:
    place = server.database_dir
    before = (place / meta.DATA).read_bytes()
    size = meta.read_meta(place).used + 8192
    with pytest.raises(MapFull):
        rebuild(server, MADE, tmp_path, size)
    assert (place / meta.DATA).read_bytes() == before


def test_who_has_it_open_is_not_disturbed(server: Slapd, tmp_path: Path) -> None:
    place = server.database_dir
    command = [sys.executable, "-c", HOLDER, place]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        before = (place / meta.DATA).read_bytes()
        with pytest.raises(TargetInUse):
            rebuild(server, MADE, tmp_path)
        assert (place / meta.DATA).read_bytes() == before


@pytest.mark.long
@pytest.mark.skipif(missing_loop_filesystem() is not None, reason=str(missing_loop_filesystem()))
def test_a_full_disk_changes_nothing(server: Slapd, tmp_path: Path) -> None:
    """And what was written in vain is given back."""
    origin = server.database_dir / meta.DATA
    with loop_filesystem((origin.stat().st_size >> 20) + 24) as disk:
        copy = disk / meta.DATA
        shutil.copyfile(origin, copy)
        os.truncate(copy, meta.read_meta(copy).used)  # what it has beyond would be room
        (disk / environment.LOCK).write_bytes(bytes(16 << 10))
        with open(disk / "filler", "wb", buffering=0) as file:
            for size in (1 << 20, 4 << 10):
                with suppress(OSError):
                    while file.write(bytes(size)) == size:
                        os.fsync(file)
            file.truncate(file.tell() - (8 << 10))  # all but this room is taken
            os.fsync(file)
        before = copy.read_bytes()
        with pytest.raises(NoSpace):
            rebuild(server, MADE, tmp_path, directory=disk)
        assert copy.read_bytes() == before


def test_what_does_not_fit_into_memory_is_sorted_in_files(server: Slapd, tmp_path: Path) -> None:
    """The tables are the same, and without a place for the files it cannot be done."""
    rebuild(server, MADE, tmp_path)
    shutil.copytree(server.database_dir, tmp_path / "ample")
    rebuild(server, MADE, tmp_path, memory=16 << 10)
    assert not differences(server.database_dir, tmp_path / "ample")
    with pytest.raises(LoaderError, match="nowhere"):
        rebuild(server, MADE, tmp_path / "nowhere", memory=16 << 10)
