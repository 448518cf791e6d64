"""`backup restore --until`, where a log does not tell everything, or not in the order of its reader."""

from __future__ import annotations

import itertools
import re
import threading
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
from fixtures.random_changes import ADD, DELETE, changes, modify, tree
from fixtures.waiting import until
from loader.errors import LogUnsuitable
from tests.integration.test_until import BASE, MEMBERS, staged, thing, unit
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
            stage.restore(backup_id, moment.csn, "--skip", start).refused(LogUnsuitable, "--skip")


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


CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "logops all, with binds": {"logs": f"logops all\nlogsuccess FALSE\n{LOGOLD}"},
    "logbase of all": {"logs": f"logbase writes {BASE}\nlogsuccess FALSE\n{LOGOLD}"},
    "logops and logbase": {"logs": f"logops add\nlogbase delete|modify|modrdn dc=com\nlogsuccess FALSE\n{LOGOLD}"},
    "sortvals of the log": {"settings": replace(SETTINGS, global_lines=("sortvals reqMod",))},
    "sortvals": {"settings": replace(SETTINGS, global_lines=("sortvals member seeAlso",))},
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configurations(name: str, tmp_path: Path) -> None:
    with staged(tmp_path / "s", **CONFIGURATIONS[name]) as stage:
        _restored(stage, transactions=name == "logops all, with binds")
        group = f"cn=large,{GROUPS}"
        with stage.target.server as server, server.connection() as handle:
            members = server.search(base=group, scope=ldap.SCOPE_BASE)[0][1]["member"]
            modify(handle, group, (DELETE, "member", members[-2:0:-7]))  # slapd's search in sorted values finds each


def _restored(stage: Stage, *, transactions: bool = False) -> None:
    """Restores to two moments of random changes."""
    backup_id = stage.take()
    with changes(stage.source.server, seed=9, members=MEMBERS, transactions=transactions) as writers:
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
