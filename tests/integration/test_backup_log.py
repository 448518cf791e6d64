"""`backup log`: the accesslog in segments, from which a restore goes to any moment after the host is lost."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from fixtures import s3
from fixtures.history import Moment
from fixtures.random_changes import changes
from loader import errors
from loader.operations.backup.manifest import Segment
from tests.integration.test_backup_remote import APPEND_ONLY, in_bucket, own_directory
from tests.integration.test_until import BASE, MEMBERS, staged
from tests.support import keys
from tests.support.backups import backup, flip
from tests.support.command import Done, ditseed
from tests.support.restoring import PURGING, Stage

pytestmark = pytest.mark.slapd


@dataclass(frozen=True)
class Logged:
    """`backup`: the ID of the backup to restore."""

    stage: Stage
    backup: str = ""

    @property
    def repo(self) -> Any:
        return self.stage.repo

    def run(self, *words: object, **environment: str) -> Done:
        where = ("--config", self.stage.source.server.config_path, "-b", BASE)
        return backup("log", self.repo, *where, *words, **self.stage.environment, **environment)

    def new(self, *words: object) -> int:
        """Stores a segment. Returns its number of log entries."""
        return int(self.run("--json", *words).ok().facts["entries"])

    def note(self, *words: object) -> Moment:
        """Returns a moment of which a new segment tells."""
        moment = self.stage.source.note()
        assert self.new(*words)
        return moment

    def segments(self) -> list[Segment]:
        return [json.decode(path.read_bytes(), type=Segment) for path in sorted(self.repo.glob("log/*.json"))]

    def lose(self) -> None:
        """Loses the host: slapd is killed, its log is gone."""
        self.stage.source.server.kill9()
        shutil.rmtree(self.stage.source.log)

    def restored(self, *moments: Moment, words: tuple[object, ...] = ()) -> None:
        for moment in moments:
            self.stage.restored(self.backup, moment, None, *words, log=None)

    def incomplete(self, moment: Moment, last: Moment) -> None:
        """Asserts that a restore to `moment` is refused, and that the refusal names the last possible one."""
        done = self.stage.restore(self.backup, moment.csn, log=None)
        done.refused(errors.LogIncomplete)
        assert f"--until {last.csn}" in " ".join(done.err.split()), done


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
    again = sorted(logged.repo.glob("log/*.json"))[2]
    shutil.copy(again, again.with_name(re.sub("-[0-9a-f]{8}.json", "-00000000.json", again.name)))
    logged.lose()
    logged.restored(*moments)
    if os.geteuid() == 0:  # as a rule, the directory belongs to the account of slapd
        (tmp_path / "look").mkdir()
        shutil.chown(tmp_path / "look", "nobody")
        where = ("--target", tmp_path / "look", "--until", moments[0].csn)
        backup("restore", logged.repo, logged.backup, *where).ok()


@pytest.mark.long
def test_changes_that_were_purged_between_two_runs(tmp_path: Path) -> None:
    with with_backup(tmp_path / "s", stored=True, logs=PURGING) as logged:
        source = logged.stage.source
        before = logged.note()
        logged.stage.wait_for_purge(source.note())
        after = source.note()
        done = logged.run("--json").ok()
        assert done.facts["gap"], done
        assert "olcAccessLogPurge" in done.err
        assert logged.segments()[-1].follows is None
        source.server.stop()
        logged.incomplete(after, before)
        logged.restored(before)


@pytest.mark.long
def test_entries_that_were_purged_after_they_were_stored(tmp_path: Path) -> None:
    """No gap, though the log that the last run stored is gone."""
    with with_backup(tmp_path / "s", stored=True, logs=PURGING) as logged:
        moments = []
        for _ in range(2):
            moments.append(logged.note())
            logged.stage.wait_for_purge(moments[-1])
            logged.stage.source.server.restart()  # slapd begins to count its entry IDs anew
        moments.append(logged.note())
        logged.lose()
        logged.restored(*moments)


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
    logged.restored(*moments)


@pytest.mark.long
def test_a_segment_that_is_lost(logged: Logged) -> None:
    """Unreadable: a gap; or the last one, because the host is lost before it is stored."""
    first, _, last = (logged.note() for _ in range(3))
    late = logged.stage.source.note()
    logged.stage.source.server.stop()
    _, middle, _ = sorted(logged.repo.glob("log/*.json"))
    flip(middle)
    logged.incomplete(last, first)
    logged.restored(first)
    flip(middle)
    logged.restored(last)
    logged.incomplete(late, last)
    flip(next(logged.repo.glob(f"log/{middle.stem}.ldif.zst")))
    logged.stage.restore(logged.backup, last.csn, log=None).refused(errors.BackupDamaged)


def test_a_log_that_cannot_be_replayed(tmp_path: Path) -> None:
    """multival of reqMod loses the order of the modifications."""
    with with_backup(tmp_path / "s", log_lines=("multival reqMod 2,1",)) as logged:
        assert "multival reqMod" in logged.run().ok().err
        logged.stage.refused(logged.backup, logged.stage.source.note().csn, "multival", "reqMod")


@pytest.mark.long
def test_old_segments_are_pruned(logged: Logged) -> None:
    """Those that lead to backups that are still there stay, and a few before."""
    for _ in range(12):
        logged.note()
    time.sleep(1)  # the time of a backup is in whole seconds, so a segment of the same second would be later
    later = replace(logged, backup=logged.stage.take())
    moment = logged.note()
    ditseed("backup", "prune", "-R", logged.repo, "--keep-last", 1).ok()
    assert len(logged.segments()) == len([*logged.repo.glob("log/*.ldif.zst")]) == 11
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
    logged.restored(*moments)


def test_no_repository(logged: Logged, tmp_path: Path) -> None:
    (place := tmp_path / "unmounted").mkdir()
    replace(logged, stage=replace(logged.stage, repo=place)).run().refused(errors.NoRepository)
    assert not [*place.iterdir()]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["S3", "SFTP"])
def test_where_nothing_can_be_removed(kind: str, logged: Logged, tmp_path: Path) -> None:
    """A server that refuses to overwrite and remove files; encrypted."""
    with ExitStack() as stack:
        if kind == "S3":
            place = in_bucket(stack.enter_context(s3.running()), s3.KEPT)
        else:
            place = stack.enter_context(own_directory(tmp_path, APPEND_ONLY))
        source, key = logged.stage.source.server, keys.generated(tmp_path / "key")
        stage = replace(logged.stage, repo=place.url, environment=place.environment)
        far = Logged(stage, place.take(source, "-b", BASE))
        moments = [far.note("--recipient", key.public) for _ in range(3)]
        assert far.new("--recipient", key.public) == 0
        place.run(source, "-b", BASE).ok()
        logged.lose()
        far.restored(*moments, words=("--identity", key.path))
