"""`ditseed storage bench`: in two directories, and on nine volumes of the storage VM."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fixtures import storage_vm
from fixtures.bench import storage as in_vm
from fixtures.waiting import until
from loader.operations.storage import bench
from loader.storage import files
from tests.support.command import ditseed, start
from tests.support.require import require

pytestmark = pytest.mark.slapd
FEW = ("-n", "300", "--sync-entries", "20", "--searches", "40", "--fio-size", "0")


def two(place: Path) -> list[Path]:
    made = [place / "a", place / "b"]
    for one in made:
        one.mkdir(mode=0o700)
    return made


def test_two_directories(tmp_path: Path) -> None:
    places = two(tmp_path)
    rows = ditseed("storage", "bench", *places, *FEW, "--json").ok().facts["rows"]
    assert [row["directory"] for row in rows] == list(map(str, places))
    for row in rows:
        assert row["nosync"]["entries"] == row["native"]["entries"] == 302
        assert row["sync"]["entries"] == 22
        assert row["searches"] > 0
        assert 64 << 20 > row["nosync"]["allocated"] > 302 * 200  # slapadd -q leaves a file of maxsize with holes
        assert row["native"]["seconds"] > 0
    assert [*places[0].iterdir(), *places[1].iterdir()] == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "missing argument"),
        (("{a}", "{a}"), "a directory is given twice"),
        (("{a}/none",), "no such file or directory"),
        (("{open}",), "can be written to by others"),
        (("{a}", "-n", "1000000000"), "needed"),
    ],
)
def test_what_is_refused(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    two(tmp_path)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    named = {name: tmp_path / name for name in ("a", "b", "open")}
    done = ditseed("storage", "bench", *(word.format(**named) for word in words))
    assert done.status not in (0, 70), done.out
    assert reason in done.err


def test_without_fio_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bench.disk_speed(tmp_path, 1 << 20) == "fio is not installed"


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_what_a_stop_leaves(tmp_path: Path, sent: signal.Signals) -> None:
    place, _ = two(tmp_path)
    words = ("storage", "bench", place, *FEW)
    running = start(*words, "--searches", "1000000")
    # With this name, the directory is locked; a run that was killed before leaves an empty one, with another name.
    until(lambda: any(place.glob(f"{files.PREFIX}*")) or running.poll() is not None)
    assert running.poll() is None
    os.kill(running.pid, sent)
    _, told = running.communicate()
    if sent is signal.SIGKILL:  # then the next run removes what is left
        assert [*place.iterdir()]
        ditseed(*words).ok()
    assert [*place.iterdir()] == [], told


@pytest.mark.heavy
@pytest.mark.timeout(7200)
def test_seven_file_systems_in_the_storage_vm(tmp_path: Path) -> None:
    require(storage_vm.missing_storage_vm(*in_vm.PROGRAMS))
    words = ("--entries=2000", "--sync-entries=200", "--searches=500", "--fio-size=8M")
    report = in_vm.run(words, tmp_path)
    names = [row.name for row in report.rows]
    assert names == [*in_vm.KINDS, "xfs, linear", "xfs, striped"]
    for row in report.rows:
        assert row.sync is not None
        assert row.nosync.entries / row.nosync.seconds > 3 * row.sync.entries / row.sync.seconds
