"""`backup restore --until`, where a log does not tell everything, or not in the order of its reader."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import ldap
import pytest

from fixtures import openldap_27
from fixtures.chroots import chroot, missing_chroot
from fixtures.golden.records import SCHEMA
from fixtures.history import LOGOLD, SETTINGS, history
from fixtures.partial import LOG, differences
from fixtures.random_changes import ADD, DELETE, REPLACE, changes, tree
from fixtures.replication import following, wait_in_sync
from fixtures.trees import CERTIFICATE
from fixtures.waiting import until
from tests.integration.test_until import BASE, MEMBERS, Row, modify, staged, thing, unit
from tests.support.backups import backup
from tests.support.require import require, require_2_7
from tests.support.restoring import Stage

pytestmark = [pytest.mark.slapd, pytest.mark.long]
GROUPS = f"ou=groups,{BASE}"


def test_another_server_id(tmp_path: Path) -> None:
    """The backup has a change of each server ID, and only the second one's CSN is in an entry."""
    with staged(tmp_path / "s", syncprov=False) as stage:
        server = stage.source.server
        server.describe("first", GROUPS)
        server.stop()
        server.rewrite(lambda conf: re.sub("(?m)^serverID.*\n", "", conf))
        server.start()
        server.describe("second", GROUPS)
        server.describe("second", BASE)
        backup_id = stage.take()
        server.describe("last", f"cn=small,{GROUPS}")
        csn = server.search(attributes=("entryCSN",), base=f"cn=small,{GROUPS}", scope=ldap.SCOPE_BASE)[0][1][
            "entryCSN"
        ][0]
        stage.restore(backup_id, csn.decode()).ok()
        assert not differences(stage.source.stored(), stage.target.stored(), ignore=("contextCSN",))


@pytest.mark.parametrize("kind", ["deletes", "renamed"])
def test_a_refresh(kind: str, tmp_path: Path) -> None:
    """slapd logs only the first delete of a refresh, and loses the modify after a rename."""
    with (
        history(tmp_path / "provider") as provider,
        history(tmp_path / "consumer", replace(SETTINGS, server_id=2)) as own,
        history(tmp_path / "target", replace(SETTINGS, server_id=2)) as target,
    ):
        line = following(provider.server)[0] + "\n"
        own.server.rewrite(lambda conf: conf.replace("\noverlay accesslog", f"\n{line}overlay accesslog"))
        provider.server.slapadd(tree(BASE, MEMBERS), "-w")
        with provider.server, own.server, provider.server.connection() as handle:
            for name in "abc":
                thing(handle, f"cn={name}", BASE)
            wait_in_sync(provider.server, own.server)
            provider.note()
            wait_in_sync(provider.server, own.server)
            stage = Stage(own, target, tmp_path / "repo")
            backup_id = stage.take()
            own.server.stop()
            if kind == "deletes":
                for name in "abc":
                    handle.delete_s(f"cn={name},{BASE}")
            else:
                handle.rename_s(f"cn=a,{BASE}", "cn=renamed")
                modify(handle, f"cn=renamed,{BASE}", (ADD, "description", b"changed"))
            own.server.start()
            wait_in_sync(provider.server, own.server)
            last = max(entry["entryCSN"][0] for entry in own.stored(LOG).values() if "reqType" in entry)
            stage.refused(backup_id, last.decode(), "cn=a", "refresh" if kind == "deletes" else "what else")


def test_expired_entries(tmp_path: Path) -> None:
    """slapd logs only the first delete of each run of dds."""
    lines = "overlay dds\ndds-min-ttl 1\ndds-interval 1\ndds-default-ttl 1"
    settings = replace(SETTINGS, modules=(*SETTINGS.modules, "dds"), overlays=(lines,))
    with staged(tmp_path / "s", settings=settings) as stage:
        backup_id = stage.take()
        with stage.source.server.connection() as handle:
            for name in "ab":
                thing(handle, f"cn={name}", BASE, objectClass=[b"gEntry", b"dynamicObject"])
        until(lambda: not stage.source.server.search("(objectClass=dynamicObject)"))
        moment = stage.source.note()
        done = stage.restore(backup_id, moment.csn).ok()
        assert "dds" in done.err
        assert all(fault.startswith("only in the second") for fault in moment.faults(stage.target))


@pytest.mark.parametrize(("logops", "reason"), [("add modify", "delete, modrdn"), ("all", "slapo-unique")])
def test_logops(logops: str, reason: str, tmp_path: Path) -> None:
    """The search of slapo-unique has the reqStart of the add, which is not logged."""
    unique = "overlay unique\nunique_uri ldap:///?uid?sub"
    settings = replace(SETTINGS, modules=(*SETTINGS.modules, "unique"), overlays=(unique,))
    logs = f"logops {logops}\nlogsuccess FALSE\n{LOGOLD}"
    with staged(tmp_path / "s", settings=settings, logs=logs) as stage:
        backup_id = stage.take()
        with stage.source.server.connection() as handle:
            thing(handle, "cn=added", BASE, uid=[b"added"])
        stage.refused(backup_id, stage.source.note().csn, "logops", reason)


def test_binds(tmp_path: Path) -> None:
    """slapd 2.5 logs one of the two changes of a bind: the time, or the end of the failures."""
    ppolicy = f"overlay ppolicy\nppolicy_default cn=policy,{BASE}"
    settings = replace(
        SETTINGS, modules=(*SETTINGS.modules, "ppolicy"), database_lines=("lastbind on",), overlays=(ppolicy,)
    )
    with staged(tmp_path / "s", settings=settings) as stage:
        server, person = stage.source.server, f"cn=person,{BASE}"
        policy = {"pwdAttribute": [b"userPassword"], "pwdLockout": [b"TRUE"], "pwdMaxFailure": [b"3"]}
        with server.connection() as handle:
            classes = [b"device", b"pwdPolicy"]
            handle.add_s(f"cn=policy,{BASE}", list({"objectClass": classes, **policy}.items()))
            handle.add_s(person, [("objectClass", [b"person"]), ("sn", [b"x"]), ("userPassword", [b"secret"])])
        backup_id = stage.take()
        for password in ("wrong", "secret"):
            with suppress(ldap.INVALID_CREDENTIALS):
                ldap.initialize(server.client_uri).simple_bind_s(person, password)
        moment = stage.source.note()
        done = stage.restore(backup_id, moment.csn).ok()
        assert "lastbind" in done.err
        assert all(fault.startswith(person) for fault in moment.faults(stage.target))


def test_skip_of_no_change(tmp_path: Path) -> None:
    with staged(tmp_path / "s") as stage:
        earlier = stage.source.note()
        backup_id = stage.take()
        moment = stage.source.note()
        for start in (earlier.start, "20200101000000.000000Z"):
            done = stage.restore(backup_id, moment.csn, "--skip", start)
            assert "[backup.log_unsuitable]" in done.err
            assert "--skip" in done.err


def test_a_log_that_goes_on_after_a_restore(tmp_path: Path) -> None:
    """The next restore could not tell what was undone, so each one says that the log has to go."""
    with staged(tmp_path / "s") as stage:
        backup_id = stage.take()
        first = stage.source.note()
        stage.source.note()
        assert "move it away" in stage.restored(backup_id, first).err


def test_backups_under_load(tmp_path: Path) -> None:
    """Clients change the tree, and others add and delete entries, while backups are taken."""
    with staged(tmp_path / "s") as stage:
        server, stop, backups = stage.source.server, threading.Event(), list[str]()

        def come_and_go(number: int) -> None:
            with server.connection() as handle:
                at = unit(handle, f"ou=brief{number}", BASE)
                for round_ in itertools.takewhile(lambda _: not stop.is_set(), itertools.count()):
                    dn = thing(handle, f"cn=a{round_ % 7}", at)
                    if round_ % 4 == 0:
                        handle.rename_s(dn, "cn=renamed")
                        dn = f"cn=renamed,{at}"
                    handle.delete_s(dn)

        def take() -> None:
            try:
                backups.extend(stage.take() for _ in range(4))
            finally:
                stop.set()

        with changes(server, seed=11, members=MEMBERS, transactions=False) as writers, ThreadPoolExecutor(4) as pool:
            work = [pool.submit(take), *(pool.submit(come_and_go, number) for number in range(3))]
            while not stop.is_set():
                writers.make(40)
            for future in work:
                future.result()
        moment = stage.source.note()
        for backup_id in backups:
            stage.restored(backup_id, moment)


EACH = ("logops add", "logbase delete|modify|modrdn dc=com")
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "logbase of all": {"logs": f"logbase writes {BASE}\nlogsuccess FALSE\n{LOGOLD}"},
    "logops and logbase": {"logs": "\n".join([*EACH, "logsuccess FALSE", LOGOLD])},
    "sortvals of the log": {"settings": replace(SETTINGS, global_lines=("sortvals reqMod",))},
    "sortvals": {"settings": replace(SETTINGS, global_lines=("sortvals member seeAlso",))},
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configurations(name: str, tmp_path: Path) -> None:
    with staged(tmp_path / "s", **CONFIGURATIONS[name]) as stage:
        _restored(stage)
        group = f"cn=large,{GROUPS}"
        with stage.target.server as server, server.connection() as handle:
            members = server.search(base=group, scope=ldap.SCOPE_BASE)[0][1]["member"]
            modify(handle, group, (DELETE, "member", members[-2:0:-7]))  # slapd's search in sorted values finds each


def _restored(stage: Stage) -> None:
    """Restores to two moments of random changes."""
    backup_id = stage.take()
    with changes(stage.source.server, seed=9, members=MEMBERS, transactions=False) as writers:
        for _ in range(2):
            writers.make(60)
            moment = stage.source.note()
            stage.restored(backup_id, moment)


@pytest.mark.parametrize("suite", ["bullseye", "trixie"])
def test_releases(suite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """2.4 has no minCSN and no reqNewDN; 2.6 gives failed operations CSNs of their own."""
    require(missing_chroot())
    monkeypatch.setenv("DITSEED_TOOLS", chroot(suite, Path("/tmp"), Path(SCHEMA).parents[0]).tools)
    modules = (*SETTINGS.modules, *(("back_monitor",) if suite == "bullseye" else ()))
    with staged(tmp_path / "s", settings=replace(SETTINGS, modules=modules)) as stage:
        _restored(stage)


def test_openldap_2_7(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is unpacked."""
    require_2_7()
    monkeypatch.setenv("DITSEED_TOOLS", openldap_27.tools())
    with history(tmp_path / "s") as stopped:
        stopped.server.slapadd(tree(BASE, 1), "-w")
        stage, log = Stage(stopped, stopped, tmp_path / "repo"), tmp_path / "log.ldif"
        log.write_bytes(stopped.slapcat())
        backup_id = stage.take()
        said = stage.refused(backup_id, "20990101000000Z", "mdb.other_format", "needs format 1", log=log)
        drilled = backup("drill", stage.repo, backup_id, "--replay", "--log", log)
    assert "unpack" not in said
    assert "[mdb.other_format]" in drilled.err
    assert "restore:" not in drilled.err


HOSTILE = {
    "no colon": (b"reqMod: description:+ x", b"reqMod: description"),
    "operator": (b"reqMod: description:+ x", b"reqMod: description:% x"),
    "attribute": (b"reqMod: description:+ x", b"reqMod: nosuch:+ x"),
    "class": (b"reqMod: description:+ x", b"reqMod: objectClass:+ nosuch"),
    "increment": (b"reqMod: description:+ x", b"reqMod: description:# " + b"9" * 1_000_000),
    "reqDN": (b"reqDN: ou=a,dc", b"reqDN: ou=a,,=dc"),
    "RDN": (b"reqNewRDN: ou=b", b"reqNewRDN: "),
    "cycle": (b"reqNewSuperior: dc=example,dc=com", b"reqNewSuperior: ou=b,ou=a,dc=example,dc=com"),
    "year 9999": (b"\nentryCSN: 2", b"\nentryCSN: 9"),
}


def test_a_forged_log(tmp_path: Path) -> None:
    with staged(tmp_path / "s") as stage:
        with stage.source.server.connection() as handle:
            at = unit(handle, "ou=a", BASE)
            unit(handle, "ou=b", at)
            backup_id = stage.take()
            modify(handle, at, (ADD, "description", b"x"))
            handle.rename_s(f"ou=b,{at}", "ou=b", BASE)
        moment, log = stage.source.note(), tmp_path / "log.ldif"
        head, *records = stage.source.slapcat(LOG).strip().split(b"\n\n")
        for old, new in HOSTILE.values():
            forged = [record.replace(old, new) for record in records]
            assert forged != records, old
            log.write_bytes(b"\n\n".join([head, *forged]) + b"\n")
            stage.refused(backup_id, moment.csn, log=log)


# --- one kind of change at a time -----------------------------------------------------------------

ROWS: dict[str, Row] = {}


def row(work: Row) -> Row:
    ROWS[work.__name__] = work
    return work


@row
def values_by_other_spellings(handle: Any, at: str) -> Iterator[None]:
    dn = thing(handle, "cn=a", at, objectClass=[b"gEntry", b"extensibleObject"], seeAlso=[b"cn=X Y,dc=a", b"cn=b+sn=c"])
    values = [(ADD, "description", [b"A B", b"c"]), (ADD, "telephoneNumber", b"+1 2-3"), (ADD, "name", b"n")]
    modify(handle, dn, (ADD, "userCertificate;binary", CERTIFICATE), *values)
    yield
    modify(handle, dn, (DELETE, "userCertificate;binary", CERTIFICATE))
    modify(handle, dn, (DELETE, "seeAlso", [b"CN=x  y, DC=A", b"SN=C+CN=B"]))
    modify(handle, dn, (DELETE, "description", b"a   b "), (ADD, "description", b"  A B"))
    modify(handle, dn, (DELETE, "telephoneNumber", b"+123"), (ADD, "telephoneNumber", b"+1 2 3"))
    modify(handle, dn, (DELETE, "name", None), (DELETE, "sn", b"OF"), (ADD, "sn", b"Of"))
    modify(handle, dn, (REPLACE, "description", b"C"), (ADD, "2.5.4.13", b"d"), (DELETE, "DESCRIPTION", b"c"))


@row
def renames(handle: Any, at: str) -> Iterator[None]:
    dn = thing(handle, "cn=a+sn=b", at)
    other = thing(handle, r"cn=Str\2cange \23", at)
    below = unit(handle, "ou=" + "x" * 200, at)
    for number in range(5):
        below = unit(handle, f"ou={number}" + "y" * 90, below)
    yield
    handle.rename_s(dn, "cn=a+sn=b")
    handle.rename_s(dn, "sn=b+cn=a", delold=1)
    handle.rename_s(f"cn=a+sn=b,{at}", "sn=B+cn=z", delold=1)
    handle.rename_s(f"cn=z+sn=b,{at}", "cn=z", delold=0)
    handle.rename_s(other, "cn=  two   words ", delold=1)
    handle.rename_s(f"ou={'x' * 200},{at}", "ou=short")


@row
def added_and_deleted_within_a_second(handle: Any, at: str) -> Iterator[None]:
    yield
    for number in range(40):
        box = unit(handle, "ou=box", at)
        dn = thing(handle, "cn=c", box)
        if number % 3 == 0:
            handle.rename_s(box, "ou=moved")
            handle.rename_s(f"cn=c,ou=moved,{at}", "cn=d", unit(handle, "ou=box", at))
            handle.delete_s(f"ou=moved,{at}")
            dn = f"cn=d,{box}"
        handle.delete_s(dn)
        handle.delete_s(box)
    thing(handle, "cn=c", unit(handle, "ou=box", at))
    handle.rename_s(f"ou=box,{at}", "ou=in", unit(handle, "ou=new", at))


@row
def many_members(handle: Any, at: str) -> Iterator[None]:
    dn, members = f"cn=g,{at}", [b"cn=m%d,dc=a" % number for number in range(10_000)]
    handle.add_s(dn, [("objectClass", [b"groupOfNames"]), ("member", members[:5000])])
    yield
    modify(handle, dn, (ADD, "member", members[5000:]))
    modify(handle, dn, (DELETE, "member", [member.upper() for member in members[::3]]))
    modify(handle, dn, (ADD, "member", members[3:300:3]), (DELETE, "member", members[1:300:3]))


@row
def ordered_values(handle: Any, at: str) -> Iterator[None]:
    dn = thing(handle, "cn=o", at, gOrdered=[b"a", b"b", b"c", b"d"])
    yield
    modify(handle, dn, (ADD, "gOrdered", b"{9}e"))
    modify(handle, dn, (DELETE, "gOrdered", [b"{0}", b"{3}"]))
    modify(handle, dn, (ADD, "gOrdered", [b"{0}x", b"{9}y", b"{1}z"]))
    modify(handle, dn, (REPLACE, "gOrdered", [b"{5}e", b"{1}f", b"g"]))
    modify(handle, dn, (DELETE, "gOrdered", b"{0}"), (ADD, "gOrdered", b"{1}h"))


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("hard") / "s") as made:
        yield made


@pytest.mark.parametrize("name", ROWS)
def test_a_row(name: str, stage: Stage) -> None:
    with stage.source.server.connection() as handle:
        steps = ROWS[name](handle, unit(handle, f"ou={name}", BASE))
        next(steps)
        backup_id = stage.take()
        assert list(steps) == []
    stage.restored(backup_id, stage.source.note())
