"""`ditseed replica refresh` against real servers: a seed that waited, and then is equal to its provider offline.

The file is held to three judges: its entries against the provider's (slapcat), its own indexes and tree made again
(`verify --verify indexes`), and slapd's own consumer, which goes on from it.
"""

from __future__ import annotations

import dataclasses
import os
import random
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fixtures import replication
from fixtures.chroots import chroot, missing_chroot
from fixtures.churn import Churn
from fixtures.replication import Refresh, refresh_report, wait_in_sync
from fixtures.slapd import Slapd
from fixtures.slapd_config import DATABASE, Installation, Settings
from loader.errors import HiddenFromAccount, MapFull, PartialReplica, RefreshRefused, RefreshUseless, TargetInUse
from loader.mdb import contents, edits, meta
from tests.support.command import ditseed
from tests.support.killing import kill_after, killed
from tests.support.require import require
from tests.support.seeding import Pair, pair
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

PEOPLE = 3000
AHEAD = 400  # changes: far fewer than those for which a refresh gives up, however long it takes
SESSION_LOGS = {"present": 0, "delete": 100_000}
SEED = int(os.environ.get("DITSEED_BAR_SEED", "0")) or random.randrange(1, 10**6)


def command(both: Pair) -> list[str]:
    return ["replica", "refresh", *both.bind, *both.where, "--json"]


def refreshed(both: Pair, env: dict[str, str] | None = None) -> Any:
    """The facts of a refresh that succeeded, and whose database is sound."""
    said = ditseed(*command(both), env=env).ok()
    assert_sound(both, env)
    return said.facts


def equal_once_refreshed(both: Pair, env: dict[str, str] | None = None) -> Any:
    found = refreshed(both, env)
    assert_same(both.provider, both.consumer)
    return found


def assert_sound(both: Pair, env: dict[str, str] | None = None) -> None:
    """Every page, every entry, and every index made again."""
    ditseed("verify", *both.where, "--verify", "indexes", env=env).ok()


def seeded(both: Pair) -> None:
    ditseed(*both.seed("search")).ok()


def followed(both: Pair) -> list[Refresh]:
    """Start the consumer, unless it runs; what it asked for until both are equal."""
    if not both.consumer.running:
        both.consumer.start()
    wait_in_sync(both.provider, both.consumer)
    assert_same(both.provider, both.consumer)
    return refresh_report(both.consumer)


def changes(provider: Slapd) -> str:
    """Changes of every kind to the people of `write_people`: containers renamed with all below them, there and back,
    places given up and taken over."""
    names = sorted(dn for dn, _ in provider.search("(objectClass=inetOrgPerson)", ("1.1",)))
    made = [_unit("New", provider.suffix)]
    for number in range(30):
        made.append(_person(f"new{number}", f"ou=New,{provider.suffix}", f"Né{number}"))
    for number, name in enumerate(names[:40]):
        change = f"replace: sn\nsn: Other{number}\n-\nadd: description\ndescription: {number}\n"
        made.append(f"dn: {name}\nchangetype: modify\n{change}")
    made += [_deleted(name) for name in names[40:70]]
    for name in names[60:70]:
        uid, _, above = name.removeprefix("uid=").partition(",")
        made.append(_person(uid, above, "again"))
    made += [_renamed(name, f"uid=renamed{number}") for number, name in enumerate(names[70:90])]
    for name in names[90:100]:
        made.append(_renamed(name, name.partition(",")[0], f"ou=New,{provider.suffix}"))
    first, second = names[100], names[101]
    (one, above), (two, _) = first.split(",", 1), second.split(",", 1)
    made += [_renamed(first, "uid=between"), _renamed(second, one), _renamed(f"uid=between,{above}", two)]
    return "\n".join(made)


def _unit(name: str, above: str) -> str:
    return f"dn: ou={name},{above}\nchangetype: add\nobjectClass: organizationalUnit\nou: {name}\n"


def _person(uid: str, above: str, sn: str) -> str:
    head = f"dn: uid={uid},{above}\nchangetype: add\nobjectClass: inetOrgPerson\n"
    return f"{head}uid: {uid}\ncn: {uid}\nsn: {sn}\nmail: {uid}@example.com\n"


def _deleted(dn: str) -> str:
    return f"dn: {dn}\nchangetype: delete\n"


def _renamed(dn: str, rdn: str, superior: str = "") -> str:
    """With a new `superior`, the old value of the RDN stays."""
    move = f"deleteoldrdn: 0\nnewsuperior: {superior}\n" if superior else "deleteoldrdn: 1\n"
    return f"dn: {dn}\nchangetype: modrdn\nnewrdn: {rdn}\n{move}"


def containers(suffix: str) -> str:
    """ou=New becomes ou=Old below another container, and a new ou=New takes its place."""
    new, old = f"ou=New,{suffix}", f"ou=Old,ou=Box,{suffix}"
    moved = [
        _unit("Box", suffix),
        _renamed(new, "ou=Old", f"ou=Box,{suffix}").replace("deleteoldrdn: 0", "deleteoldrdn: 1"),
        _unit("New", suffix),
    ]
    children = [_renamed(f"uid=new1,{old}", "uid=new1", new), _deleted(f"uid=new2,{old}"), _person("new2", new, "n")]
    return "\n".join(moved + children)


@pytest.mark.rows(0, "present-here", "delete-trixie")
@pytest.mark.parametrize("suite", ["here", "bullseye", "trixie", "forky"])
@pytest.mark.parametrize("session_log", SESSION_LOGS.values(), ids=SESSION_LOGS)
def test_changes_of_every_kind(short_tmp: Path, session_log: int, suite: str) -> None:
    """Each session log answers in its own way."""
    installation, env = None, {}
    if suite != "here":
        require(missing_chroot())
        installation, env = Installation(chroot(suite).prefix), {"DITSEED_TOOLS": chroot(suite).tools}
    # Debian's 2.4 has the monitor as a module.
    settings = Settings(modules=(*Settings().modules, *(("back_monitor",) if suite == "bullseye" else ())))
    both_sides = {"wanted": settings, "before": installation, "after": installation}
    with pair(short_tmp, 500, session_log, **both_sides) as both:  # type: ignore[arg-type]
        ditseed(*both.seed("search"), env=env).ok()
        both.provider.ldapmodify(changes(both.provider))
        first = equal_once_refreshed(both, env)
        both.provider.ldapmodify(containers(both.provider.suffix))
        second = equal_once_refreshed(both, env)
        assert [first[name] for name in ("added", "renamed", "deleted")] == [41, 32, 30]
        assert [second[name] for name in ("added", "renamed", "deleted")] == [3, 2, 1]
        assert bool(first["present"]) == (session_log == 0)
        data = both.consumer.database_dir / "data.mdb"
        before, nothing = data.read_bytes(), refreshed(both, env)
        assert (nothing["sent"], nothing["deleted"]) == (0, 0)
        assert data.read_bytes() == before
        asked = [(one.sent, one.deleted) for one in followed(both)]
        assert suite == "bullseye" or asked == [(0, 0)]  # refresh_report does not read the log of 2.4


@pytest.mark.long
def test_a_consumer_that_ran_and_was_stopped(short_tmp: Path) -> None:
    """Its database was written to by slapd: pages in another order, free ones, copies of records that grew old."""
    with pair(short_tmp, PEOPLE) as both:
        seeded(both)
        with Churn(both.provider, rate=200, seed=SEED) as churn:
            both.consumer.start()
            churn.wait_for(600)
        wait_in_sync(both.provider, both.consumer)
        both.consumer.stop()
        with Churn(both.provider, rate=300, seed=SEED + 1) as churn:
            churn.wait_for(600)
        assert equal_once_refreshed(both)["deleted"]
        assert followed(both)[-1].sent == 0


@pytest.mark.long
@pytest.mark.parametrize("session_log", SESSION_LOGS.values(), ids=SESSION_LOGS)
@pytest.mark.parametrize("harsh", [False, True])
def test_a_provider_that_never_rests(short_tmp: Path, harsh: bool, session_log: int) -> None:
    """harsh: what syncrepl itself cannot follow, such as names given up and taken over, and containers renamed while
    their children change. It is refreshed once more when that is over."""
    print(f"DITSEED_BAR_SEED={SEED}")
    with pair(short_tmp, PEOPLE, session_log=session_log) as both:
        seeded(both)
        with Churn(both.provider, rate=300, seed=SEED, harsh=harsh, ahead=AHEAD) as churn:
            for _ in range(5):
                churn.wait_for(churn.changes() + 100)
                refreshed(both)
            if not harsh:
                both.consumer.start()
                churn.wait_for(churn.changes() + 50)
        if harsh:
            equal_once_refreshed(both)
        asked = followed(both)[-1]
        assert not harsh or (asked.sent, asked.deleted) == (0, 0)


CSN_OF_FIVE = "20260101000000.000000Z#000000#005#000000"


@pytest.mark.long
def test_several_server_ids(short_tmp: Path) -> None:
    """Of one that the database has not heard of, syncprov throws the cookie away, and sends every entry whole."""
    with pair(short_tmp, PEOPLE) as both, pair(short_tmp, 300) as small:
        for one in (both, small):
            seeded(one)
            _as_of_another_server(one.provider)
            one.provider.ldapmodify(changes(one.provider))
        ditseed(*command(both)).refused(RefreshUseless)
        assert_sound(both)
        assert equal_once_refreshed(small)["sent"] > 300
        small.provider.describe("by the other one, which is known now")
        assert equal_once_refreshed(small)["sent"] == 1
        assert followed(small)[0].sent == 0


def _as_of_another_server(provider: Slapd) -> None:
    provider.stop()
    text = provider.slapcat().replace("\ncontextCSN:", f"\ncontextCSN: {CSN_OF_FIVE}\ncontextCSN:", 1)
    for path in provider.database_dir.iterdir():
        path.unlink()
    unit = f"dn: ou=Five,{provider.suffix}\nobjectClass: organizationalUnit\nou: Five\nentryCSN: {CSN_OF_FIVE}\n"
    provider.slapadd(f"{text}\n{unit}")
    provider.start()
    assert len(provider.context_csns()) == 2


@pytest.mark.long
@pytest.mark.parametrize(
    "point", ["sync.middle", "sync.recorded", "apply.middle", "apply.unrecorded", "apply.recorded", "check.unrecorded"]
)
def test_killed_and_run_again(short_tmp: Path, point: str) -> None:
    with pair(short_tmp, 300) as both:
        seeded(both)
        both.provider.ldapmodify(changes(both.provider))
        killed(point, *command(both))
        assert_sound(both)
        equal_once_refreshed(both)
        assert followed(both)[0].sent == 0


@pytest.mark.long
def test_killed_at_any_moment(short_tmp: Path) -> None:
    with pair(short_tmp, PEOPLE) as both:
        seeded(both)
        known = [_reached(both)]
        for number in range(8):
            both.provider.describe(str(number))
            if number == 0:
                both.provider.ldapmodify(changes(both.provider))
            kill_after(0.15 + 0.075 * number, *command(both))
            assert_sound(both)
            known.append(sorted(both.provider.context_csns()))
            assert _reached(both) in known
        refreshed(both)  # goes on with what was killed, and knows nothing of what came later
        equal_once_refreshed(both)


def _reached(both: Pair) -> list[str]:
    return contents.context_csns(both.consumer.database_dir, both.consumer.suffix)


@pytest.mark.long
def test_a_database_that_would_outgrow_its_map(short_tmp: Path) -> None:
    with pair(short_tmp, 1000) as both:
        seeded(both)
        used = meta.read_meta(both.consumer.database_dir).used
        (entry,) = (both.consumer.config_path / "cn=config").glob("olcDatabase=*mdb.ldif")
        entry.write_text(re.sub(r"olcDbMaxSize: \d+", f"olcDbMaxSize: {used + 8192}", entry.read_text()))
        both.provider.ldapmodify(changes(both.provider))
        ditseed(*command(both)).refused(MapFull)
        assert_sound(both)


@pytest.mark.long
def test_a_provider_that_is_behind(short_tmp: Path) -> None:
    with pair(short_tmp, 100) as both:
        seeded(both)
        later = [one.replace("20", "21", 1) for one in _reached(both)]
        edits.stamp(both.consumer.database_dir, both.consumer.suffix, later)
        both.provider.describe("x")
        ditseed(*command(both)).refused(RefreshRefused, "behind")
        assert _reached(both) == later


def test_what_is_refused(short_tmp: Path) -> None:
    with pair(short_tmp, 100) as both:
        ditseed(*command(both)).refused(RefreshRefused)  # no database yet
        seeded(both)
        with closing(replication.consumer(both.provider, options="filter=(uid=*)")) as narrow:
            part = dataclasses.replace(both, consumer=narrow)
            seeded(part)
            ditseed(*command(part)).refused(PartialReplica)
        many = f"dn: cn=many,{both.provider.suffix}\nobjectClass: subentry\nobjectClass: extensibleObject\n"
        both.provider.ldapadd(f"{many}cn: many\nsubtreeSpecification: {{}}\n")
        ditseed(*command(both)).refused(RefreshRefused, "subentries")
        both.consumer.start()
        ditseed(*command(both)).refused(TargetInUse)


def test_what_the_account_is_not_shown(short_tmp: Path) -> None:
    with pair(short_tmp, 300) as both:
        seeded(both)
        before = _reached(both)
        both.provider.ldapmodify(changes(both.provider))
        rule = '{0}to attrs=userPassword by dn.exact="cn=replicator" none by * break'
        both.provider.configure(f"dn: {DATABASE}\nchangetype: modify\nadd: olcAccess\nolcAccess: {rule}\n")
        (person, _), *_ = both.provider.search("(objectClass=inetOrgPerson)", ("1.1",))
        secret = "changetype: modify\nreplace: userPassword\nuserPassword: secret\n"
        both.provider.ldapmodify(f"dn: {person}\n{secret}")
        ditseed(*command(both)).refused(HiddenFromAccount)
        assert _reached(both) == before
