"""Restores to random moments of a long random history, from backups that were made while the server changed.

DITSEED_UNTIL_CAMPAIGN="MINUTES MOMENTS MEMBERS RATE SEED" pytest tests/campaign/test_until.py -m heavy -s
"""

from __future__ import annotations

import os
import random
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.aside import BackgroundThread
from fixtures.history import History, Moment, history
from fixtures.partial import differences
from fixtures.random_changes import changes, tree
from fixtures.replication import wait_in_sync
from tests.support.command import ditseed
from tests.support.restoring import Stage

pytestmark = pytest.mark.slapd

MINUTES, MOMENTS, MEMBERS, RATE, SEED = map(int, os.environ.get("DITSEED_UNTIL_CAMPAIGN", "10 100 50000 200 1").split())
CHANGES_PER_STEP = 1.7  # on average, refused ones included
LARGE = 0.05  # of the changes of groups: each logs all members of the group in reqOld
CONSUMED = 25  # of so many restored databases, one gets a new consumer
SOUGHT = {"entryUUID", "entryCSN", "uid", "cn", "sn", "member"}  # indexed attributes


class Backups(BackgroundThread):
    """Makes backups one after the other. `taken`: ID and the time when it was begun."""

    def __init__(self, stage: Stage, pause: float) -> None:
        super().__init__()
        self._stage, self._pause, self.taken = stage, pause, [(stage.take(), time.time())]
        self.failed = threading.Event()

    def _work(self) -> None:
        try:
            while not self._over.wait(self._pause):
                begun = time.time()
                self.taken.append((self._stage.take(), begun))
        except BaseException:
            self.failed.set()
            raise


@pytest.mark.heavy
@pytest.mark.timeout(0)
def test_a_long_history(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with ExitStack() as stack:
        source, target = (stack.enter_context(history(tmp_path / name)) for name in ("source", "target"))
        source.server.slapadd(tree(source.server.suffix, MEMBERS), "-w")
        source.server.start()
        source.note()
        stage = Stage(source, target, tmp_path / "repo")
        clients = changes(source.server, seed=SEED, members=MEMBERS, large_share=LARGE)
        writers = stack.enter_context(clients)
        source.note()
        steps = MINUTES * 60 * RATE / CHANGES_PER_STEP
        moments = list[Moment]()
        with Backups(stage, MINUTES * 60 / 10) as backups:
            cuts = sorted(chance.sample(range(1, int(steps)), MOMENTS))
            for before, cut in zip([0, *cuts], cuts, strict=False):
                writers.make(cut - before, RATE / CHANGES_PER_STEP)
                moments.append(source.note())
        assert not backups.failed.is_set()
        print(f"{len(moments)} moments, {len(backups.taken)} backups; {dict(writers.counts)}")
        wrong = list[str]()
        for number, moment in enumerate(chance.sample(moments, len(moments))):
            earlier = [name for name, begun in backups.taken if begun < moment.time.timestamp() - 30]
            backup = chance.choice(earlier or [backups.taken[0][0]])
            began = time.monotonic()
            done = stage.restore(backup, chance.choice(moment.forms))
            seconds = time.monotonic() - began
            faults = moment.faults(target)[:5] if done.status == 0 else [done.err]
            faults = faults or _unsound(target, moment, chance, consumed=number % CONSUMED == 0)
            print(f"{backup} to {moment.csn}: {seconds:.1f} s, {faults or 'as it was'}", flush=True)
            wrong += faults
    assert not wrong


def _unsound(target: History, moment: Moment, chance: random.Random, *, consumed: bool) -> list[str]:
    """Returns what ditseed verify, searches by each index, or a new consumer show of a restored database."""
    server = target.server
    where = ("--config", server.config_path, "-b", server.suffix, "--verify", "indexes")
    verified = ditseed("verify", *where)
    if verified.status:
        return [verified.out + verified.err]
    entries, wrong = moment.stored, list[str]()
    server.start()
    try:
        for dn in chance.sample(sorted(entries), min(50, len(entries))):
            for name in entries[dn].keys() & SOUGHT:
                value = "".join(f"\\{byte:02x}" for byte in chance.choice(entries[dn][name]))
                match = [entry["entryUUID"] for _, entry in server.search(f"({name}={value})", ("entryUUID",))]
                wrong += [] if entries[dn]["entryUUID"] in match else [f"{dn} is not found by {name}"]
        if consumed:
            settings = replication.as_consumer(server.settings, global_lines=())
            with replication.consumer(server, settings) as consumer:
                wait_in_sync(server, consumer)
                wrong += differences(entries, History(consumer, target.log).stored(), ignore=("contextCSN",))[:5]
    finally:
        server.stop()
        (target.log / "data.mdb").unlink()  # its own log, of this start
    return wrong
