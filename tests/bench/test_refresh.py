"""How much quicker a refresh is than a new seeding, in one run: `pytest -m heavy -s tests/bench/test_refresh.py`.

DITSEED_BENCH_ENTRIES sets the size; the share of entries is that of each kind of change.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.bench.data import BULK, PROVIDED, data
from fixtures.bench.servers import settings
from fixtures.slapd import Slapd
from tests.support.command import ditseed
from tests.support.seeding import bind, verifying

pytestmark = [pytest.mark.slapd, pytest.mark.heavy, pytest.mark.timeout(1800)]

ENTRIES = int(os.environ.get("DITSEED_BENCH_ENTRIES", "1000000"))
ROUNDS = 3
EQUALITY = ("objectClass,entryUUID,entryCSN,uid,mail eq",)
LEAST = 2.0  # at 1 % the provider's answer alone takes an eighth of a seeding; docs/refresh.md has the figures


@pytest.mark.parametrize("session_log", [0, 1_000_000], ids=["present", "delete"])
@pytest.mark.parametrize("share", [0.0025, 0.01])
def test_a_refresh_beside_a_new_seeding(short_tmp: Path, share: float, session_log: int) -> None:
    made = data(PROVIDED[BULK], ENTRIES, short_tmp)
    made.keep()
    wanted = replace(settings(made.tree, made.entries, "envflags nosync"), indexes=EQUALITY, overlays=())
    provider = replication.provider(wanted, session_log=session_log)
    ditseed("build", made.path, "--config", provider.config_path, "-w").ok()
    made.path.unlink()
    with provider, closing(replication.consumer(provider, wanted)) as consumer:
        provider.describe("changed once")
        where = (*bind(provider), "--config", consumer.config_path, "-b", consumer.suffix)
        seeding = ("replica", "seed", "--strategy", "search", *where, "--replace", "--restart")
        seeds = [_seconds(*seeding)]
        provider.ldapmodify("\n".join(_changes(provider, share)))
        refreshes = list(_refreshes(consumer, ("replica", "refresh", *where)))
        ditseed("verify", *where[-4:], "--verify", "indexes").ok()
        consumer.start()
        waited = replication.wait_in_sync(provider, consumer, 600)
        ditseed(*verifying(provider, consumer)).ok()
        consumer.stop()
        seeds.append(_seconds(*seeding))
    ratio = statistics.median(seeds) / statistics.median(refreshes)
    print(f"\n{ENTRIES:,} entries, {share:.2%} of each kind, session log {session_log:,}:")
    print(f"seeding {seeds}, refresh {refreshes}, {ratio:.1f} times; in sync after {waited:.2f} s")
    assert ratio >= LEAST


def _seconds(*arguments: object) -> float:
    begun = time.monotonic()
    ditseed(*arguments).ok()
    return round(time.monotonic() - begun, 2)


def _refreshes(consumer: Slapd, command: tuple[object, ...]) -> Iterator[float]:
    """Yields the seconds of each refresh of the same database."""
    seed, place = consumer.home / "seed.mdb", consumer.database_dir / "data.mdb"
    shutil.copyfile(place, seed)
    for _ in range(ROUNDS):
        shutil.copyfile(seed, place)
        os.sync()
        yield _seconds(*command, "--restart")
    seed.unlink()


def _changes(provider: Slapd, share: float) -> Iterator[str]:
    """Yields as many adds as modifies, deletes and renames; then a container is renamed with all entries below it."""
    names = [name for name, _ in provider.search("(objectClass=inetOrgPerson)", ("1.1",))]
    random.Random(1).shuffle(names)
    count, new = int(len(names) * share), f"ou=New,{provider.suffix}"
    yield f"dn: {new}\nchangetype: add\nobjectClass: organizationalUnit\nou: New\n"
    groups = (names[at * count :][:count] for at in range(3))
    for number, (modified, deleted, renamed) in enumerate(zip(*groups, strict=True)):
        yield (
            f"dn: uid=new{number},{new}\nchangetype: add\nobjectClass: inetOrgPerson\nuid: new{number}\n"
            f"cn: New Person {number}\nsn: Person{number}\nmail: new{number}@example.com\n"
        )
        yield f"dn: {modified}\nchangetype: modify\nreplace: telephoneNumber\ntelephoneNumber: 1234\n"
        yield f"dn: {deleted}\nchangetype: delete\n"
        yield f"dn: {renamed}\nchangetype: modrdn\nnewrdn: uid=other{number}\ndeleteoldrdn: 1\n"
    yield f"dn: {new}\nchangetype: modrdn\nnewrdn: ou=Newer\ndeleteoldrdn: 1\n"
