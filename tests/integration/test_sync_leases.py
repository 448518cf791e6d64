"""envflags and checkpoint, changed for good and lent for a time: of running servers, and of files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from tests.support import leases
from tests.support.adding import SUFFIX, TOP, write
from tests.support.command import Done, ditseed
from tests.support.leases import standing

pytestmark = pytest.mark.slapd

DATABASE = "olcDatabase={3}mdb,cn=config"
LENT = [("envflags", "nometasync", "none"), ("checkpoint", "64 5", "128 9")]


def _tune(state: Path, server: Slapd, *words: str) -> Done:
    where = ("-H", server.ldapi_uri, "-Y", "EXTERNAL", "-b", SUFFIX)
    env = {"DITSEED_STATE_DIR": str(state)}
    return ditseed("tune", "sync", *where, *words, env=env)


def _shown(state: Path, server: Slapd) -> dict[str, object]:
    said = json.loads(_tune(state, server, "--json").ok().out)
    found: dict[str, object] = said["databases"][0]
    return found


def _now(state: Path, server: Slapd, kind: str) -> str:
    found = _shown(state, server)
    if kind == "nosync":
        return "on" if found[kind] else "off"
    if kind == "checkpoint":
        return str(found[kind] or "none")
    flags = found["env_flags"]
    assert isinstance(flags, list)
    return ",".join(sorted(flags)) or "none"


@pytest.fixture
def server() -> Iterator[Slapd]:
    with Slapd(Settings(database_lines=("checkpoint 128 9",))) as running:
        yield running


@pytest.mark.long
@pytest.mark.parametrize(("kind", "value", "before"), LENT)
def test_lent_until_it_has_ended(server: Slapd, tmp_path: Path, kind: str, value: str, before: str) -> None:
    """The value of before is that of the first lease, and what puts it back is the next start of anything."""
    lease = (f"--{kind}", value, "--lease", "4h", "--why", "load of March", "--apply")
    assert _now(tmp_path, server, kind) == before
    for _ in "twice":
        _tune(tmp_path, server, *lease).ok()
    shown = _tune(tmp_path, server).ok().out
    assert f"{kind} is lent since" in shown
    assert "for load of March" in shown
    assert f"before: {before}" in shown
    assert _now(tmp_path, server, kind) == value
    (lent,) = standing(tmp_path)
    leases.write(tmp_path, lent, boot="of the day before")
    assert "which was killed or has ended" in _tune(tmp_path, server).ok().out
    state = {"DITSEED_STATE_DIR": str(tmp_path)}
    done = ditseed("generate", "people", "-n", "3", env=state).ok()
    assert "was left set by a run of" in done.err
    assert _now(tmp_path, server, kind) == before
    assert standing(tmp_path) == []


@pytest.mark.rows(1)
@pytest.mark.parametrize(("kind", "value", "before"), LENT)
def test_the_command_that_is_told_puts_it_back(
    server: Slapd, tmp_path: Path, kind: str, value: str, before: str
) -> None:
    _tune(tmp_path, server, f"--{kind}", value, "--lease", "0", "--apply").ok()
    _tune(tmp_path, server, f"--{kind}", before, "--apply").ok()
    assert _now(tmp_path, server, kind) == before
    assert standing(tmp_path) == []


@pytest.mark.parametrize(("kind", "value", "before"), [*LENT, ("nosync", "on", "off")])
def test_it_is_given_back_where_nothing_is_written(tmp_path: Path, kind: str, value: str, before: str) -> None:
    """At a consumer, or in a database that is read-only. nosync, and flags that defer, leave what is not yet on the
    disk: ditseed flushes the file of a server on this host from outside."""
    running = Slapd(Settings(database_lines=("checkpoint 128 9", "readonly on")))
    running.slapadd(TOP)
    with running:
        _tune(tmp_path, running, f"--{kind}", value, "--lease", "0", "--apply").ok()
        assert _now(tmp_path, running, kind) == value
        env = {"DITSEED_STATE_DIR": str(tmp_path)}
        told = ditseed("tune", "sync", "--give-back", env=env).ok().out
        assert "put back" in told
        assert _now(tmp_path, running, kind) == before
        assert standing(tmp_path) == []


def test_what_is_so_already_is_not_lent(server: Slapd, tmp_path: Path) -> None:
    done = _tune(tmp_path, server, "--checkpoint", "128 9", "--lease", "4h", "--apply")
    assert (done.status, "128 9 already" in done.err) == (3, True)


@pytest.mark.long
def test_each_lease_is_of_its_own_setting(server: Slapd, tmp_path: Path) -> None:
    """nosync, given back, leaves flags that are lent; flags, given back, leave nosync."""
    _tune(tmp_path, server, "--envflags", "nometasync", "--lease", "4h", "--apply").ok()
    path = write(tmp_path / "x.ldif", TOP)
    where = ("-H", server.ldapi_uri, "-Y", "EXTERNAL", "-b", SUFFIX)
    state = {"DITSEED_STATE_DIR": str(tmp_path)}
    ditseed("add", path, *where, "--nosync", env=state).ok()
    assert _now(tmp_path, server, "envflags") == "nometasync"
    _tune(tmp_path, server, "--nosync", "on", "--lease", "4h", "--apply").ok()
    _tune(tmp_path, server, "--envflags", "none", "--apply").ok()
    found = _shown(tmp_path, server)
    assert (found["nosync"], found["env_flags"]) == (True, ["nosync"])


def test_flags_of_a_running_server_are_changed(server: Slapd, tmp_path: Path) -> None:
    """writemap and nordahead have slapd open the database anew; it answers afterwards, and has what was written."""
    server.ldapadd(TOP)
    for flags in ("nordahead,writemap", "none"):
        _tune(tmp_path, server, "--envflags", flags, "--apply").ok()
        assert _now(tmp_path, server, "envflags") == flags
        assert len(server.search(base=SUFFIX, scope=0)) == 1


def test_of_files(tmp_path: Path) -> None:
    """nosync stays, in whichever place it stands."""
    lines = ("envflags nosync nometasync", "checkpoint 128 9")
    server = Slapd(Settings(database_lines=lines))
    where = ("--config", server.config_path)
    env = {"DITSEED_STATE_DIR": str(tmp_path)}
    ditseed("tune", "sync", *where, "--envflags", "writemap", "--apply", env=env).ok()
    ditseed("tune", "sync", *where, "--checkpoint", "none", "--apply", env=env).ok()
    said = json.loads(ditseed("tune", "sync", *where, "--json", env=env).ok().out)["databases"][0]
    assert (said["nosync"], sorted(said["env_flags"])) == (True, ["nosync", "writemap"])
    assert said["checkpoint"] is None
    refused = ditseed("tune", "sync", *where, "--envflags", "none", "--lease", "1h", "--apply", env=env)
    assert (refused.status, "running server" in refused.err) == (3, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--envflags", "nosync"), "nosync has other flags than mapasync"),
        (("--envflags", "fast"), "fast has other flags than"),
        (("--checkpoint", "5"), "not 'KBYTES MINUTES'"),
        (("--checkpoint", "5 -1"), "not 'KBYTES MINUTES'"),
        (("--checkpoint", "5 5", "--nosync", "on"), "at a time"),
        (("--nosync", "on", "--why", "x"), "--why is for --lease"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], said: str) -> None:
    done = ditseed("tune", "sync", "-H", "ldapi:///", "-Y", "EXTERNAL", *words, "--apply")
    assert (done.status, said in done.err) == (3, True), done.err
