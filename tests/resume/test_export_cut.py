"""An export under fire: the provider is written to, its connections are cut and stalled at random, it is restarted
once, ditseed is killed. What comes out of it plus syncrepl equals the provider, every time.

A few runs of each kind; the full number is `pytest -m heavy -s`. The seed is printed and another one each time, unless
DITSEED_FIRE_SEED gives it.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.churn import Churn
from fixtures.network import Proxy
from fixtures.replication import wait_in_sync
from fixtures.slapd import ServerError, Slapd
from fixtures.slapd_config import Settings
from fixtures.storm import NetworkFaults
from fixtures.tls import Authority
from fixtures.trees import write_people
from tests.support.command import ditseed, start
from tests.support.processes import wait_until_gone
from tests.support.seeding import Pair
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

PEOPLE = 3000
SMALL = ("--pieces", 16, "--page", 100, "--jobs", 2)  # a piece takes less time than there is between two cuts
LINE = 600_000  # bytes a second, so that an export takes seconds
CHANGES = 60.0  # a second
AGAIN = {12: "run.timeout", 30: "server.down", 36: "server.connection_lost"}  # "the same command goes on"
TRIES = 10


def _chance() -> random.Random:
    seed = int(os.environ.get("DITSEED_FIRE_SEED", "0")) or random.randrange(1, 10**6)
    print(f"\nDITSEED_FIRE_SEED={seed}")
    return random.Random(seed)


@dataclass
class Field:
    """A provider that is written to, the line to it, and a consumer that is stopped and empty."""

    pair: Pair
    proxy: Proxy
    chance: random.Random
    trust: Mapping[str, str]
    tries: int = 0
    process: subprocess.Popen[str] | None = None

    @property
    def provider(self) -> Slapd:
        return self.pair.provider

    def writer(self) -> Churn:
        return Churn(self.provider, rate=CHANGES, seed=self.chance.randrange(1, 10**6))

    def begin(self) -> subprocess.Popen[str]:
        self.tries += 1
        where = ("-b", self.provider.suffix, "-o", self.pair.export_dir)
        self.process = start("export", *self.pair.bind, *where, *SMALL, env=self.trust)
        return self.process

    def done(self) -> bool:
        """Is it done? It is begun again as often as it says that the same command goes on."""
        assert self.process is not None
        if self.process.poll() is None:
            return False
        out, err = self.process.communicate()
        if self.process.returncode == 0:
            return True
        assert self.process.returncode in AGAIN, f"{self.process.returncode}:\n{out}\n{err}"
        assert self.tries < TRIES, err
        print(err.splitlines()[-2])
        self.begin()
        return False

    def finish(self) -> None:
        while not self.done():  # the test's own limit ends it
            time.sleep(0.02)

    def equals_the_provider(self) -> None:
        ditseed(*self.pair.seed("ldif")).ok()
        consumer = self.pair.consumer.start()
        try:
            wait_in_sync(self.provider, consumer)
        except ServerError:
            print("\n".join(consumer.log_lines("syncrepl|be_")[-30:]))
            raise
        assert_same(self.provider, consumer)


@contextmanager
def _field(scratch: Path, chance: random.Random, tls: bool = False) -> Iterator[Field]:
    authority = Authority(scratch / "tls") if tls else None
    source = replication.provider(Settings(tls=authority.valid() if authority else None))
    write_people(scratch / "people.ldif", source.suffix, PEOPLE)
    source.slapadd(scratch / "people.ldif")
    trust = {"LDAPTLS_CACERT": str(authority.ca)} if authority else {}
    with (
        source,
        closing(replication.consumer(source)) as target,
        Proxy(source.ldaps_uri if tls else source.uri, rate=LINE) as proxy,
    ):
        fire = Field(Pair(source, target, scratch, uri=proxy.uri), proxy, chance, trust)
        try:
            yield fire
        finally:
            if fire.process is not None and fire.process.poll() is None:
                fire.process.kill()
                fire.process.communicate()


RUNS = [0, 1, 3, *(pytest.param(run, marks=pytest.mark.heavy) for run in range(4, 24))]


@pytest.mark.long
@pytest.mark.parametrize("run", RUNS)
def test_cut_at_random_and_restarted_once(short_tmp: Path, run: int) -> None:
    """Every fourth over ldaps: a line that broke is no certificate that was refused, and is tried again."""
    chance = _chance()
    with _field(short_tmp, chance, tls=run % 4 == 3) as fire:
        with fire.writer() as writer, NetworkFaults(fire.proxy, chance, pause=2.0) as storm:
            writer.wait_for(20)
            fire.begin()
            _wait_until_read(fire, chance.uniform(0.1, 0.4))
            fire.proxy.cut()
            _wait_until_read(fire, chance.uniform(0.4, 0.8))
            fire.provider.restart()
            fire.finish()
            writer.wait_for(writer.changes() + 20)
        print(f"{fire.proxy.cuts} cuts, {storm.blows} blows, {fire.tries} tries, {writer.counts}")
        assert fire.proxy.cuts > 0
        fire.equals_the_provider()


def _wait_until_read(fire: Field, part: float) -> None:
    """Until so much of the tree came over the line: the server is restarted in the middle."""
    whole = len(fire.provider.slapcat())
    while fire.proxy.bytes_down < part * whole:
        assert not fire.done(), "it was over before the server was restarted"
        time.sleep(0.02)


@pytest.mark.rows(1)
@pytest.mark.parametrize("run", [0, pytest.param(1, marks=pytest.mark.heavy)])
def test_killed_at_random_moments_while_all_changes(short_tmp: Path, run: int) -> None:
    chance = _chance()
    with _field(short_tmp, chance) as fire:
        with fire.writer() as writer:
            writer.wait_for(20)
            for _ in range(3):
                process = fire.begin()
                time.sleep(chance.uniform(0.3, 3.0))
                process.kill()
                process.communicate()
                left = wait_until_gone(str(short_tmp), f":{fire.proxy.port}", but=fire.provider.pid)
                assert not left
            fire.begin()
            fire.finish()
            writer.wait_for(writer.changes() + 20)
        fire.equals_the_provider()
