"""How much of the host a process may use, in containers of both kinds of control groups too; and where it keeps what
must outlive a run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from loader import defaults
from tests.support.verbs import LEAVES, options

HOST = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
PROCESSORS = len(os.sched_getaffinity(0))
SMALL = 1 << 20
NO_LIMIT = str((1 << 63) - 4096)  # as version 1 writes it


def groups(monkeypatch: pytest.MonkeyPatch, home: Path, own: str, files: Mapping[str, str]) -> None:
    """The process in the control groups `own` (as in /proc/self/cgroup), and what their files say."""
    (home / "own").write_text(own)
    for name, text in files.items():
        path = home / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    monkeypatch.setattr(defaults, "CGROUPS", home / "fs")
    monkeypatch.setattr(defaults, "_OWN", home / "own")


@pytest.mark.parametrize(
    ("own", "files", "memory"),
    [
        ("0::/\n", {}, HOST),
        ("0::/\n", {"memory.max": "max"}, HOST),
        ("0::/\n", {"memory.max": str(SMALL)}, SMALL),
        ("0::/a/b\n", {"a/memory.max": str(SMALL), "a/b/memory.max": "max"}, SMALL),
        ("0::/a\n", {"memory.max": str(2 * SMALL), "a/memory.max": str(SMALL)}, SMALL),
        ("4:memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": str(SMALL)}, SMALL),
        ("4:memory:/a\n", {"memory/memory.limit_in_bytes": str(SMALL)}, SMALL),
        ("4:memory:/a\n", {"memory/a/memory.limit_in_bytes": NO_LIMIT}, HOST),
        ("4:cpu:/a\n", {"memory/a/memory.limit_in_bytes": str(SMALL)}, HOST),
        ("nonsense", {"memory.max": str(SMALL)}, HOST),
    ],
)
def test_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str, files: Mapping[str, str], memory: int
) -> None:
    groups(monkeypatch, tmp_path, own, files)
    assert defaults.memory() == memory


@pytest.mark.parametrize(
    ("own", "files", "processors"),
    [
        ("0::/\n", {}, PROCESSORS),
        ("0::/\n", {"cpu.max": "max 100000"}, PROCESSORS),
        ("0::/\n", {"cpu.max": "100000 100000"}, 1),
        ("0::/\n", {"cpu.max": "50000 100000"}, 1),
        ("0::/a\n", {"cpu.max": "100000 100000", "a/cpu.max": "max 100000"}, 1),
        ("1:cpu,cpuacct:/a\n", {"cpu/a/cpu.cfs_quota_us": "100000", "cpu/a/cpu.cfs_period_us": "100000"}, 1),
        ("1:cpu:/a\n", {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, PROCESSORS),
    ],
)
def test_processors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str, files: Mapping[str, str], processors: int
) -> None:
    groups(monkeypatch, tmp_path, own, files)
    assert defaults.processors() == processors


def test_where_nothing_can_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(defaults, "_OWN", tmp_path / "none")
    assert defaults.memory() == HOST
    assert defaults.processors() == PROCESSORS


@pytest.mark.parametrize(("processors", "connections"), [(1, 1), (4, 4), (64, 4)])
def test_a_server_gets_at_most_four_connections(
    monkeypatch: pytest.MonkeyPatch, processors: int, connections: int
) -> None:
    """However many processors this host has: those of the server are others."""
    monkeypatch.setattr(defaults, "processors", lambda: processors)
    assert defaults.connections() == connections


@pytest.mark.parametrize("verb", ["ditseed export", "ditseed replica seed"])
def test_verbs_leave_the_number_open_until_it_is_known_what_is_read(verb: str) -> None:
    (context,) = [one for one in LEAVES if one.command_path == verb]
    (jobs,) = [one for one in options(context) if one.name == "jobs"]
    assert not isinstance(jobs.get_default(context), int)
    assert "at most 4" in (jobs.help or "")


@pytest.mark.parametrize(
    ("variable", "account", "place"), [("/x", 0, "/x"), ("", 0, "/var/lib/ditseed"), ("", 1000, "/home/ditseed")]
)
def test_the_state_directory(monkeypatch: pytest.MonkeyPatch, variable: str, account: int, place: str) -> None:
    monkeypatch.setenv(defaults.ENV_STATE_DIR, variable)
    monkeypatch.setenv("XDG_STATE_HOME", "/home")
    monkeypatch.setattr(os, "geteuid", lambda: account)
    assert defaults.state_dir() == Path(place)
