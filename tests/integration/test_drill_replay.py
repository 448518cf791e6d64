"""`backup drill --replay`: the log on the backup, a consumer that follows the result, and what would be lost now."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures.history import Moment
from loader import csn
from loader.operations.backup import drill, manifest, repository
from loader.operations.backup.check import Status, check
from loader.operations.backup.manifest import Backup, Drill, Replayed
from loader.operations.backup.options import Limits
from loader.server import private
from tests.integration.test_backup_log import Logged, with_backup
from tests.integration.test_until import BASE
from tests.support.backups import backup, drill_latest, only, take
from tests.support.command import Done, ditseed

pytestmark = pytest.mark.slapd


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Logged]:
    """A running server with a backup, and one change after it that `backup log` has stored."""
    with with_backup(tmp_path / "s", stored=True) as made:
        made.note()
        yield made


def drilled(logged: Logged, *words: object) -> tuple[Done, Replayed]:
    done = backup("drill", logged.repo, "latest", "-b", BASE, "--replay", *words)
    assert "Traceback" not in done.err, done
    record = proof(logged, only(logged.repo))
    assert record.replay is not None
    return done, record.replay


def proof(logged: Logged, backup: Backup) -> Drill:
    record = repository.proofs(logged.repo, backup).drill
    assert record is not None
    return record


def seconds(earlier: Moment, later: Moment) -> float:
    return (csn.time(later.csn) - csn.time(earlier.csn)).total_seconds()


def test_what_would_be_lost(logged: Logged, scratch: Path) -> None:
    source, server = logged.stage.source, logged.stage.source.server
    stored = logged.note()
    server.ldapadd(f"dn: ou=added,{BASE}\nobjectClass: organizationalUnit\n\n")
    time.sleep(1.1)
    server.ldapmodify(f"dn: ou=added,{BASE}\nchangetype: delete\n\n")  # no entry has its CSN
    last = source.note()
    for live in ((), ("-H", server.client_uri)):
        done, replayed = drilled(logged, "--tmp", scratch, *live)
        assert done.ok().out.splitlines()[-1].split() == ["result", "good"]
        assert f"live {live[1] if live else server.database_dir}" in done.out
        assert replayed.lost_seconds == pytest.approx(seconds(stored, last))
        assert replayed.lost_seconds > 1.1
        assert (replayed.has_consumer, replayed.newest_csns) == (True, (stored.csn,))
    metrics = scratch / "ditseed.prom"
    limited = backup("check", logged.repo, "--max-loss", "1s", "--metrics", metrics)
    assert (limited.status, "would be lost" in limited.out) == (Status.WARNING, True), limited
    assert f"loss={replayed.lost_seconds:.0f}s;1;" in limited.out
    (line,) = (line for line in metrics.read_text().splitlines() if line.startswith("ditseed_backup_lost_seconds{"))
    assert float(line.split()[-1]) == replayed.lost_seconds
    assert BASE in line
    logged.new()
    done, replayed = drilled(logged, "--tmp", scratch)
    assert (replayed.lost_seconds, replayed.newest_csns) == (0, (last.csn,))
    assert replayed.operations >= 5
    assert backup("check", logged.repo, "--max-loss", "1s").ok()
    assert [path.name for path in scratch.iterdir()] == ["ditseed.prom"]
    server.stop()
    done, replayed = drilled(logged)
    assert "at most" in done.ok().out
    assert ", live" not in done.out
    assert (replayed.live, replayed.lost_seconds > 0) == ("", True)


def test_a_replay_of_long_ago_does_not_tell_what_would_be_lost_now(logged: Logged) -> None:
    """A later drill without --replay is recent, and says nothing of it."""
    drilled(logged)
    first, limits = only(logged.repo), Limits(3600, drill_age=3600, max_loss=3600)
    assert check(logged.repo, limits, BASE).status is Status.OK
    long_ago = (manifest.now() - datetime.timedelta(days=1)).isoformat()
    repository.keep(logged.repo, structs.replace(proof(logged, first), made=long_ago))
    take(logged.stage.source.server, logged.repo)
    drill_latest(logged.repo, suffix=BASE)
    state = check(logged.repo, limits, BASE)
    assert (state.status, state.reason) == (Status.WARNING, "no backup was drilled with --replay for 1 d 0 h")


def test_a_log_that_lacks_a_segment(logged: Logged) -> None:
    """The backup is good: only the log is not."""
    first = csn.by_server(logged.segments()[-1].reached)["001"]
    _, last = logged.note(), logged.note()
    sorted(logged.repo.glob("log/*.json"))[-2].unlink()
    done, replayed = drilled(logged, "--json")
    assert (done.status, done.facts["replay"]["problem"]) == (1, replayed.problem)
    assert "cannot be replayed to its end" in replayed.problem
    assert f"--until {first}" in replayed.problem
    assert csn.time(last.csn) > csn.time(first)
    assert (replayed.has_consumer, replayed.lost_seconds > 0) == (False, True)
    one = only(logged.repo)
    assert (proof(logged, one).is_good, proof(logged, one).entries) == (True, one.entries)
    state = check(logged.repo, Limits(3600))
    assert (state.status, replayed.problem in state.reason) == (Status.WARNING, True)


def test_a_set_is_drilled_with_its_log(logged: Logged) -> None:
    """Without segments, the log is its backup of the same moment, or that of --log."""
    source = logged.stage.source
    for path in logged.repo.glob("log/*"):
        path.unlink()
    leader = take(source.server, logged.repo, every=True)
    done = ditseed("backup", "drill", "latest", "-R", logged.repo, "--replay").ok()
    assert done.out.count("has consumer yes") == 1
    assert [proof(logged, one).replay is None for one in repository.members(logged.repo, leader)].count(True) == 1
    noted = source.note()
    where = {"suffix": BASE, "replay": True, "log": str(source.log)}
    replayed = drill_latest(logged.repo, **where).replay
    assert replayed is not None
    assert (replayed.newest_csns, replayed.lost_seconds) == ((noted.csn,), 0)
    assert backup("drill", logged.repo, "latest", "-H", "ldap:///").status != 0


def test_a_consumer_that_gets_no_change(logged: Logged, monkeypatch: pytest.MonkeyPatch) -> None:
    configured = private.configured

    def without_syncprov(*words: Any, provides: bool = False) -> object:
        return configured(*words)

    monkeypatch.setattr(private, "configured", without_syncprov)
    monkeypatch.setattr(drill, "_PATIENCE", 1.0)
    record = drill_latest(logged.repo, suffix=BASE, replay=True)
    assert record.problems == "a consumer did not get a change within 1.0 s"
    assert (record.is_good, record.replay and record.replay.has_consumer) == (True, False)
