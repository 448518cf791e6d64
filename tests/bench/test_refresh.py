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
from fixtures.bench.data import BULK, PROVIDED, Data, data
from fixtures.bench.servers import settings
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from tests.support.command import ditseed

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
    provider = _provider(made, session_log)
    ditseed("build", made.path, "--config", provider.config_path, "-w").ok()
    made.path.unlink()
    with provider, closing(_consumer(provider, made)) as consumer:
        _write(provider, "description", [provider.suffix])
        bind = ("-H", provider.uri, "-D", "cn=replicator", "-y", provider.replicator_password_file)
        where = (*bind, "--config", consumer.config_path, "-b", consumer.suffix)
        seeding = ("replica", "seed", "--strategy", "search", *where, "--replace", "--restart")
        seeds = [_seconds(*seeding)]
        _change(provider, share)
        refreshes = list(_refreshes(consumer, ("replica", "refresh", *where)))
        own = ("--config", consumer.config_path, "-b", consumer.suffix)
        ditseed("verify", *own, "--verify", "indexes").ok()
        consumer.start()
        waited = replication.wait_in_sync(provider, consumer, 600)
        passwords = ("--consumer-password-file", consumer.replicator_password_file)
        ditseed("compare", provider.uri, consumer.uri, "-b", provider.suffix, *bind[2:], *passwords).ok()
        consumer.stop()
        seeds.append(_seconds(*seeding))
    ratio = statistics.median(seeds) / statistics.median(refreshes)
    print(f"\n{ENTRIES:,} entries, {share:.2%} of each kind, session log {session_log:,}:")
    print(f"seeding {seeds}, refresh {refreshes}, {ratio:.1f} times; in sync after {waited:.2f} s")
    assert ratio >= LEAST


def _provider(made: Data, session_log: int) -> Slapd:
    return replication.provider(replace(_settings(made), overlays=()), session_log=session_log)


def _consumer(provider: Slapd, made: Data) -> Slapd:
    return replication.consumer(provider, replace(_settings(made), overlays=(), server_id=None))


def _settings(made: Data) -> Settings:
    return replace(settings(made.tree, made.entries, "envflags nosync"), indexes=EQUALITY)


def _seconds(*arguments: object) -> float:
    begun = time.monotonic()
    ditseed(*arguments).ok()
    return round(time.monotonic() - begun, 2)


def _refreshes(consumer: Slapd, command: tuple[object, ...]) -> Iterator[float]:
    """Seconds of each, of the same database."""
    seed, place = consumer.home / "seed.mdb", consumer.database_dir / "data.mdb"
    shutil.copyfile(place, seed)
    for _ in range(ROUNDS):
        shutil.copyfile(seed, place)
        os.sync()
        yield _seconds(*command, "--restart")
    seed.unlink()


def _change(provider: Slapd, share: float) -> None:
    """So many of each kind: adds, modifies, deletes, renames; and a container renamed with all that is below it."""
    names = [name for name, _ in provider.search("(objectClass=inetOrgPerson)", ("1.1",))]
    random.Random(1).shuffle(names)
    count = int(len(names) * share)
    new = f"ou=New,{provider.suffix}"
    text = [f"dn: {new}\nchangetype: add\nobjectClass: organizationalUnit\nou: New\n"]
    for number in range(count):
        text.append(
            f"dn: uid=new{number},{new}\nchangetype: add\nobjectClass: inetOrgPerson\nuid: new{number}\n"
            f"cn: New Person {number}\nsn: Person{number}\nmail: new{number}@example.com\n"
        )
        text.append(f"dn: {names[count + number]}\nchangetype: delete\n")
        text.append(
            f"dn: {names[2 * count + number]}\nchangetype: modrdn\nnewrdn: uid=other{number}\ndeleteoldrdn: 1\n"
        )
    text.append(f"dn: {new}\nchangetype: modrdn\nnewrdn: ou=Newer\ndeleteoldrdn: 1\n")
    provider.ldapmodify("\n".join(text))
    _write(provider, "telephoneNumber", names[:count])


def _write(provider: Slapd, attribute: str, names: list[str]) -> None:
    change = f"changetype: modify\nreplace: {attribute}\n{attribute}: 1234\n"
    provider.ldapmodify("\n".join(f"dn: {name}\n{change}" for name in names))
