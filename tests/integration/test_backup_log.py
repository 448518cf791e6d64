"""`backup log`: the accesslog in segments, from which a restore goes to any moment after the host is lost."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ldap
import pytest
from msgspec import json

from fixtures import s3, sshd
from fixtures.history import LOGOLD, Moment
from fixtures.partial import LOG
from fixtures.random_changes import changes
from fixtures.waiting import until
from loader import errors
from loader.operations.backup.manifest import Segment
from tests.integration.test_backup_remote import APPEND_ONLY
from tests.integration.test_until import BASE, MEMBERS, staged
from tests.support import keys
from tests.support.backups import backup, flip
from tests.support.command import Done, ditseed
from tests.support.require import require
from tests.support.restoring import Stage

pytestmark = pytest.mark.slapd


@dataclass(frozen=True)
class Logged:
    """`backup`: the ID of the backup to restore. `place`: the repository; that of `stage` if it is None."""

    stage: Stage
    backup: str = ""
    place: object = None
    environment: Any = None

    @property
    def repo(self) -> object:
        return self.place or self.stage.repo

    def run(self, *words: object, **environment: str) -> Done:
        where = ("--config", self.stage.source.server.config_path, "-b", BASE)
        return backup("log", self.repo, *where, *words, **(self.environment or {}), **environment)

    def new(self, *words: object) -> int:
        """Stores a segment. Returns its number of log entries."""
        return int(self.run("--json", *words).ok().facts["entries"])

    def segments(self) -> list[Segment]:
        paths = sorted(self.stage.repo.glob("log/*.json"))
        return [json.decode(path.read_bytes(), type=Segment) for path in paths]

    def lose(self) -> None:
        """Loses the host: slapd is killed, its log is gone."""
        self.stage.source.server.kill9()
        shutil.rmtree(self.stage.source.log)

    def restore(self, moment: str, *words: object) -> Done:
        server = self.stage.target.server
        where = ("--config", server.config_path, "-b", BASE, "--replace", "--until", moment)
        done = backup("restore", self.repo, self.backup, *where, *words, **(self.environment or {}))
        for old in server.database_dir.glob("data.mdb.replaced-*"):
            old.unlink()
        return done

    def restored(self, moment: Moment, *words: object) -> None:
        self.restore(moment.csn, *words).ok()
        assert not (faults := moment.faults(self.stage.target)), faults


@contextmanager
def with_backup(place: Path, stored: bool = False, **options: Any) -> Iterator[Logged]:
    """`stored`: before the backup, there is a segment with a change that the backup has."""
    with staged(place, **options) as stage:
        ditseed("backup", "init", "-R", stage.repo).ok()
        if stored:
            Logged(stage).new()
        yield Logged(stage, stage.take())


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Logged]:
    with with_backup(tmp_path / "s") as made:
        yield made


def test_the_host_is_lost(logged: Logged, tmp_path: Path) -> None:
    """Two segments overlap, as those of two runs at once do. An older backup of the log, and the log itself, are not
    needed."""
    moments = []
    source = logged.stage.source
    with changes(source.server, seed=1, members=MEMBERS) as writers:
        for _ in range(4):
            writers.make(40)
            moments += [source.note()]
            assert logged.new() > 40
            done = logged.run()
            assert not done.out + done.err, done
    first, *_ = segments = logged.segments()
    assert len(segments) == 4  # nothing new, no segment
    assert first.follows is None
    assert [after.after for after in segments[1:]] == [before.last_id for before in segments[:-1]]
    again = sorted(logged.stage.repo.glob("log/*.json"))[2]
    shutil.copy(again, again.with_name(re.sub("-[0-9a-f]{8}.json", "-00000000.json", again.name)))
    logged.lose()
    for moment in moments:
        logged.restored(moment)
    if os.geteuid() == 0:  # as a rule, the directory belongs to the account of slapd
        (tmp_path / "look").mkdir()
        shutil.chown(tmp_path / "look", "nobody")
        where = ("--target", tmp_path / "look", "--until", moments[0].csn)
        backup("restore", logged.repo, logged.backup, *where).ok()


@pytest.mark.long
def test_beyond_the_last_segment(logged: Logged) -> None:
    moment = logged.stage.source.note()
    logged.new()
    late = logged.stage.source.note()
    logged.lose()
    done = logged.restore(late.csn)
    assert done.status == errors.LogIncomplete.exit_status, done
    assert f"--until {moment.csn}" in " ".join(done.err.split()), done


@pytest.mark.long
def test_changes_that_were_purged_between_two_runs(tmp_path: Path) -> None:
    logs = f"logops writes\nlogsuccess FALSE\nlogpurge 00:00:01 00:00:01\n{LOGOLD}"
    with with_backup(tmp_path / "s", stored=True, logs=logs) as logged:
        stage = logged.stage
        before = stage.source.note()
        logged.new()
        lost = stage.source.note()

        def purged() -> bool:
            suffix = stage.source.server.search(attributes=("minCSN",), base=LOG, scope=ldap.SCOPE_BASE)[0][1]
            return max(suffix.get("minCSN", [b""])).decode() >= lost.csn

        until(purged)
        after = stage.source.note()
        done = logged.run("--json").ok()
        assert done.facts["gap"], done
        assert "olcAccessLogPurge" in done.err
        assert logged.segments()[-1].follows is None
        stage.source.server.stop()
        refused = logged.restore(after.csn)
        assert refused.status == errors.LogIncomplete.exit_status, refused
        assert f"--until {before.csn}" in " ".join(refused.err.split()), refused
        logged.restored(before)


@pytest.mark.long
def test_entries_that_were_purged_after_they_were_stored(tmp_path: Path) -> None:
    """No gap, though the log that the last run stored is gone."""
    logs = f"logops writes\nlogsuccess FALSE\nlogpurge 00:00:01 00:00:01\n{LOGOLD}"
    with with_backup(tmp_path / "s", stored=True, logs=logs) as logged:
        stage = logged.stage
        moments = []
        for _ in range(2):
            moments.append(stage.source.note())
            logged.new()
            newest = moments[-1].csn

            def purged(newest: str = newest) -> bool:
                suffix = stage.source.server.search(attributes=("minCSN",), base=LOG, scope=ldap.SCOPE_BASE)[0][1]
                return max(suffix.get("minCSN", [b""])).decode() >= newest

            until(purged)
            stage.source.server.stop()
            stage.source.server.start()  # slapd begins to count its entry IDs anew
        moments.append(stage.source.note())
        logged.new()
        logged.lose()
        for moment in moments:
            logged.restored(moment)


@pytest.mark.long
@pytest.mark.parametrize("point", ["copy.middle", "log.data", "log.stored"])
def test_a_run_that_is_killed(logged: Logged, point: str) -> None:
    moments = []
    for number in range(2):
        moments.append(logged.stage.source.note())
        killed = logged.run(DITSEED_KILL_AT=point)
        assert killed.status == -signal.SIGKILL
        assert len(logged.segments()) == (number + (point == "log.stored")) or number
        moments.append(logged.stage.source.note())
        logged.run().ok()
    logged.lose()
    for moment in moments:
        logged.restored(moment)


@pytest.mark.long
def test_a_segment_that_is_lost(logged: Logged) -> None:
    """Removed, or unreadable: a gap."""
    moments = []
    for _ in range(3):
        moments.append(logged.stage.source.note())
        logged.new()
    logged.stage.source.server.stop()
    _, middle, _ = sorted(logged.stage.repo.glob("log/*.json"))
    flip(middle)
    done = logged.restore(moments[2].csn)
    assert done.status == errors.LogIncomplete.exit_status, done
    assert f"--until {moments[0].csn}" in " ".join(done.err.split()), done
    logged.restored(moments[0])
    flip(middle)
    logged.restored(moments[2])
    flip(next(logged.stage.repo.glob(f"log/{middle.stem}.ldif.zst")))
    assert logged.restore(moments[2].csn).status == errors.BackupDamaged.exit_status


def test_a_log_that_cannot_be_replayed(tmp_path: Path) -> None:
    with with_backup(tmp_path / "s", log_lines=("multival reqMod 2,1",)) as logged:
        assert "multival reqMod" in logged.run().ok().err


@pytest.mark.long
def test_old_segments_are_pruned(logged: Logged) -> None:
    """Those that lead to backups that are still there stay, and a few before."""
    for _ in range(12):
        logged.stage.source.note()
        logged.new()
    stage = logged.stage
    later = replace(logged, backup=stage.take())
    moment = stage.source.note()
    logged.new()
    ditseed("backup", "prune", "-R", stage.repo, "--keep-last", 1).ok()
    assert len(logged.segments()) == len([*stage.repo.glob("log/*.ldif.zst")]) == 11
    logged.lose()
    later.restored(moment)


@pytest.mark.long
def test_two_runs_at_once(logged: Logged) -> None:
    moments = []
    with ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            moments.append(logged.stage.source.note())
            for done in pool.map(lambda _: logged.run(), range(2)):
                done.ok()
    assert len(logged.segments()) >= 3
    logged.lose()
    for moment in moments:
        logged.restored(moment)


def test_no_repository(logged: Logged, tmp_path: Path) -> None:
    (tmp_path / "unmounted").mkdir()
    done = replace(logged, place=tmp_path / "unmounted").run()
    assert done.status == errors.NoRepository.exit_status, done
    assert not [*(tmp_path / "unmounted").iterdir()]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["S3", "SFTP"])
def test_where_nothing_can_be_removed(kind: str, logged: Logged, tmp_path: Path) -> None:
    """A server that refuses to overwrite and remove files; encrypted."""
    key = keys.generated(tmp_path / "key")
    with ExitStack() as stack:
        if kind == "S3":
            bucket = stack.enter_context(s3.running())
            place, environment = f"s3://{s3.BUCKET}/{s3.KEPT}", bucket.environment
        else:
            require(sshd.missing_sshd())
            (tmp_path / "ssh").mkdir()
            server = stack.enter_context(sshd.running(tmp_path / "ssh", APPEND_ONLY))
            place, environment = server.url(tmp_path / "far/repo"), server.environment
        far = replace(logged, place=place, environment=environment)
        where = ("--config", logged.stage.source.server.config_path, "-b", BASE, "--init")
        done = backup("run", far.repo, *where, "--json", **environment).ok()
        far = replace(far, backup=done.facts["id"])
        moments = []
        for _ in range(3):
            moments.append(logged.stage.source.note())
            assert far.new("--recipient", key.public)
        assert far.new("--recipient", key.public) == 0
        backup("run", far.repo, *where, **environment).ok()
        logged.lose()
        for moment in moments:
            far.restored(moment, "--identity", key.path)
