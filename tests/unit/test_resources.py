"""How much of the host a process may use, in containers of both kinds of control groups too; and where it keeps what
must outlive a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from loader import defaults
from tests.support.verbs import LEAVES, options

HOST = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
PROCESSORS = len(os.sched_getaffinity(0))
SMALL = 1 << 20
NO_LIMIT = str((1 << 63) - 4096)  # as version 1 writes it


def quota(microseconds: str) -> dict[str, str]:
    """The files of version 1, for a period of 100,000 microseconds."""
    return {"cpu/a/cpu.cfs_quota_us": microseconds, "cpu/a/cpu.cfs_period_us": "100000"}


@pytest.mark.parametrize(
    ("ask", "own", "files", "expected"),
    [
        (defaults.memory, None, {}, HOST),
        (defaults.memory, "0::/\n", {}, HOST),
        (defaults.memory, "0::/\n", {"memory.max": "max"}, HOST),
        (defaults.memory, "0::/\n", {"memory.max": str(SMALL)}, SMALL),
        (defaults.memory, "0::/a/b\n", {"a/memory.max": str(SMALL), "a/b/memory.max": "max"}, SMALL),
        (defaults.memory, "0::/a\n", {"memory.max": str(2 * SMALL), "a/memory.max": str(SMALL)}, SMALL),
        (defaults.memory, "4:memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": str(SMALL)}, SMALL),
        (defaults.memory, "4:memory:/a\n", {"memory/memory.limit_in_bytes": str(SMALL)}, SMALL),
        (defaults.memory, "4:memory:/a\n", {"memory/a/memory.limit_in_bytes": NO_LIMIT}, HOST),
        (defaults.memory, "4:cpu:/a\n", {"memory/a/memory.limit_in_bytes": str(SMALL)}, HOST),
        (defaults.memory, "nonsense", {"memory.max": str(SMALL)}, HOST),
        (defaults.processors, None, {}, PROCESSORS),
        (defaults.processors, "0::/\n", {}, PROCESSORS),
        (defaults.processors, "0::/\n", {"cpu.max": "max 100000"}, PROCESSORS),
        (defaults.processors, "0::/\n", {"cpu.max": "100000 100000"}, 1),
        (defaults.processors, "0::/\n", {"cpu.max": "50000 100000"}, 1),
        (defaults.processors, "0::/a\n", {"cpu.max": "100000 100000", "a/cpu.max": "max 100000"}, 1),
        (defaults.processors, "1:cpu,cpuacct:/a\n", quota("100000"), 1),
        (defaults.processors, "1:cpu:/a\n", quota("-1"), PROCESSORS),
    ],
)
def test_what_a_control_group_leaves(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    ask: Callable[[], int],
    own: str | None,
    files: Mapping[str, str],
    expected: int,
) -> None:
    """`own`: the groups of this process, as /proc/self/cgroup has them; None if that cannot be read."""
    if own is not None:
        (tmp_path / "own").write_text(own)
    for name, text in files.items():
        path = tmp_path / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    monkeypatch.setattr(defaults, "CGROUPS", tmp_path / "fs")
    monkeypatch.setattr(defaults, "_OWN", tmp_path / "own")
    assert ask() == expected


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
