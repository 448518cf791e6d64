"""`ditseed storage bench`: in two directories, on loop devices, with other engines, and in the storage VM."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from fixtures import storage_vm
from fixtures.bench import storage as in_vm
from fixtures.chroots import chroot, missing_chroot
from fixtures.limits import missing_loop_filesystem
from fixtures.waiting import until
from loader.errors import UsageProblem
from loader.operations.storage.bench import results
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
    pytest.importorskip("matplotlib")
    places, drawn = two(tmp_path), tmp_path / "bench.svg"
    done = ditseed("storage", "bench", *places, *FEW, "--chart", drawn, "--json").ok()
    rows = done.facts["rows"]
    assert [row["directory"] for row in rows] == list(map(str, places))
    for row in rows:
        assert row["nosync"]["entries"] == row["native"]["entries"] == 302
        assert row["sync"]["entries"] == 22
        assert row["searched"]["searches"] == 40
        # slapadd -q leaves a file of maxsize with holes, ditseed one of what is used.
        assert row["nosync"]["apparent"] >= 64 << 20 > row["nosync"]["allocated"] > 302 * 200
        assert row["native"]["seconds"] > 0
    text = drawn.read_text()
    assert "slapadd -q (nosync)" in text
    assert rows[0]["name"] in text
    assert [*places[0].iterdir(), *places[1].iterdir()] == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "say what to measure"),
        (("{a}", "{a}"), "a directory is given twice"),
        (("{a}/none",), "no such file or directory"),
        (("{open}",), "can be written to by others"),
        (("{a}", "--chart", "{a}/chart.gif"), "must end in .svg or .png"),
        (("{a}", "--backend", "bdb"), "--backend is only for --slapadd"),
        (("{a}", "--slapadd", "{b}"), "it has no /tmp"),
        (("{a}", "--slapadd", "/", "--backend", "sql"), "there are mdb, bdb, hdb"),
        (("--fs", "ntfs"), "there are ext2"),
        (("--fs", "ext4,ext4"), "given twice"),
        (("--fs", "ext4", "--volume-size", "1M"), "are needed for so many entries"),
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


def test_a_chart_needs_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageProblem, match=r"pip install 'ditseed\[charts\]'"):
        results.require(Path("a.svg"))


def test_without_fio_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from loader.operations.storage.bench import measuring

    monkeypatch.setenv("PATH", str(tmp_path))
    told = measuring.measure(tmp_path, 1 << 20)
    assert getattr(told, "why", None) == "fio is not installed"


def test_loop_devices_and_other_engines(tmp_path: Path) -> None:
    require(missing_loop_filesystem("ext4") or missing_chroot())
    root = chroot("bullseye").root
    engines = ("--slapadd", root, "--backend", "mdb,bdb,hdb")
    kinds = ("--fs", "ext4,xfs", "--tmp", tmp_path)
    done = ditseed("storage", "bench", *kinds, *engines, *FEW, "--json").ok()
    rows = done.facts["rows"]
    found = [(row["kind"], row["backend"], row["version"][:3]) for row in rows]
    each = [("mdb", "2.5"), ("mdb", "2.4"), ("bdb", "2.4"), ("hdb", "2.4")]
    assert found == [(kind, *engine) for kind in ("ext4", "xfs") for engine in each]
    assert all(row["searched"]["searches"] == 40 for row in rows)
    assert [*tmp_path.iterdir(), *(root / "tmp").iterdir()] == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def attached(place: Path) -> list[str]:
    """Loop devices over files in it."""
    found = (told.read_text() for told in Path("/sys/block").glob("loop*/loop/backing_file"))
    return [told for told in found if str(place) in told]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_what_a_stop_leaves(tmp_path: Path, sent: signal.Signals) -> None:
    require(missing_loop_filesystem("ext4"))
    words = ("storage", "bench", "--fs", "ext4", "--tmp", tmp_path, *FEW)
    running = start(*words, "--searches", "1000000")
    until(lambda: attached(tmp_path) or running.poll() is not None)
    assert running.poll() is None
    os.kill(running.pid, sent)
    _, told = running.communicate()
    if sent is signal.SIGKILL:  # then the next run removes what is left
        assert [*tmp_path.iterdir()]
        ditseed(*words).ok()
    until(lambda: not attached(tmp_path))  # the kernel may still be at it
    assert [*tmp_path.rglob("*")] == [], told


def test_stopped_while_it_detaches(tmp_path: Path) -> None:
    """The signal ends losetup(8) before that has done its work."""
    require(missing_loop_filesystem("ext4"))
    tools, reached, work = (tmp_path / name for name in ("tools", "reached", "work"))
    tools.mkdir()
    work.mkdir()
    (tools / "losetup").write_text(f"""#!/bin/sh
if [ "$1" = --detach ] && [ ! -e {reached} ]; then touch {reached}; exec sleep 600; fi
exec {shutil.which("losetup")} "$@"
""")
    (tools / "losetup").chmod(0o755)
    path = {"PATH": f"{tools}:{os.environ['PATH']}"}
    running = start("storage", "bench", "--fs", "ext4", "--tmp", work, *FEW, env=path)
    until(lambda: reached.exists() or running.poll() is not None)
    assert running.poll() is None
    os.kill(running.pid, signal.SIGINT)
    running.communicate()
    until(lambda: not attached(work))
    assert [*work.iterdir()] == []


@pytest.mark.heavy
@pytest.mark.timeout(7200)
def test_seven_file_systems_in_the_storage_vm(tmp_path: Path) -> None:
    require(storage_vm.missing_storage_vm() or in_vm.missing_mkfs())
    words = ("--entries=2000", "--sync-entries=200", "--searches=500", "--fio-size=8M")
    report = in_vm.run(words, tmp_path)
    names = [row.name for row in report.rows]
    assert names == [*in_vm.KINDS, "xfs, linear", "xfs, striped"]
    assert all(row.times and row.times > 3 for row in report.rows)
