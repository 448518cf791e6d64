"""`backup restore --until`, where a log does not tell everything, or tells it in another way than its reader expects."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import ldap
import pytest

from fixtures.history import LOGOLD, SETTINGS, History, history
from fixtures.partial import DELTA, LOG
from fixtures.random_changes import ADD, DELETE, REPLACE, changes, tree
from fixtures.replication import following, wait_in_sync
from tests.integration.test_until import BASE, MEMBERS, modify, staged, thing, unit
from tests.support.restoring import Stage

pytestmark = [pytest.mark.slapd, pytest.mark.long]
GROUPS = f"ou=groups,{BASE}"


@contextmanager
def two_providers(place: Path, options: str = DELTA) -> Iterator[tuple[History, History, History]]:
    """Yields two running providers in sync, and a stopped server that is configured as the second one is."""
    with ExitStack() as stack:
        one, two, target = (
            stack.enter_context(history(place / name, replace(SETTINGS, server_id=number)))
            for name, number in (("one", 1), ("two", 2), ("target", 2))
        )
        for own, other in ((one, two), (two, one)):
            lines = "\n".join([following(other.server, options)[0], "multiprovider on", ""])
            own.server.rewrite(
                lambda conf, lines=lines: conf.replace("\noverlay accesslog", f"\n{lines}overlay accesslog")
            )
        one.server.slapadd(tree(BASE, MEMBERS), "-w")
        with one.server, two.server:
            wait_in_sync(one.server, two.server)
            two.note()
            wait_in_sync(one.server, two.server)
            yield one, two, target


def right_or_refused(stage: Stage, backup_id: str, *patterns: str) -> None:
    """Asserts that a restore to now is right, or that it was refused."""
    moment = stage.source.note()
    done = stage.restore(backup_id, moment.csn)
    if done.status == 0:
        faults = moment.faults(stage.target)
        assert not faults, (faults, done.err)
    else:
        print("REFUSED", done.err)
        assert "Traceback" not in done.err and "log_incomplete" in done.err, done


def test_soft_deletes(tmp_path: Path) -> None:
    """A provider that follows another one by its log deletes a value of a single-valued attribute softly, and logs `?`."""
    with two_providers(tmp_path) as (one, two, target):
        with one.server.connection() as handle:
            dn = f"cn=person,{BASE}"
            handle.add_s(dn, [("objectClass", [b"inetOrgPerson"]), ("sn", [b"x"]), ("employeeNumber", [b"1"]), ("displayName", [b"d"])])
            wait_in_sync(one.server, two.server)
            stage = Stage(two, target, tmp_path / "repo")
            backup_id = stage.take()
            modify(handle, dn, (DELETE, "employeeNumber", b"1"))
            modify(handle, dn, (DELETE, "displayName", None))
            wait_in_sync(one.server, two.server)
        print([e.get("reqMod") for e in two.stored(LOG).values()][-3:])
        moment = two.note()
        stage.restored(backup_id, moment)


def test_an_older_change_that_arrives_after_the_backup(tmp_path: Path) -> None:
    with two_providers(tmp_path) as (one, two, target):
        stage = Stage(two, target, tmp_path / "repo")
        two.server.stop()
        one.server.describe("older", GROUPS)
        one.server.stop()
        two.server.start()
        two.server.describe("newer", GROUPS)
        backup_id = stage.take()
        one.server.start()
        wait_in_sync(one.server, two.server)
        assert two.stored()[GROUPS]["description"] == [b"newer"]
        right_or_refused(stage, backup_id)


@pytest.mark.parametrize("what", ["deletes", "renamed", "glue"])
def test_a_refresh(what: str, tmp_path: Path) -> None:
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
            for name in "abcd":
                thing(handle, f"cn={name}", BASE)
            wait_in_sync(provider.server, own.server)
            provider.note()
            wait_in_sync(provider.server, own.server)
            stage = Stage(own, target, tmp_path / "repo")
            backup_id = stage.take()
            own.server.stop()
            if what == "deletes":
                for name in "abcd":
                    handle.delete_s(f"cn={name},{BASE}")
            elif what == "renamed":
                handle.rename_s(f"cn=a,{BASE}", "cn=renamed")
                modify(handle, f"cn=renamed,{BASE}", (ADD, "description", b"changed"))
            else:
                box = unit(handle, "ou=box", BASE)
                thing(handle, "cn=in", box)
                handle.rename_s(f"cn=a,{BASE}", "cn=a", box)
            provider.server.describe("last", GROUPS)
            own.server.start()
            wait_in_sync(provider.server, own.server)
            provider.server.describe("persist", GROUPS)
            handle.delete_s(f"cn=b,{BASE}") if what != "deletes" else None
            wait_in_sync(provider.server, own.server)
            for e in own.stored(LOG).values():
                print(e.get("reqType"), e.get("reqDN"), e.get("reqStart"), e.get("entryCSN"), [m for m in e.get("reqMod", []) if m.startswith(b"context")], len(e.get("reqMod", [])))
            moment = max(e["entryCSN"][0] for e in own.stored(LOG).values() if "entryCSN" in e).decode()
            own.server.stop()
            done = stage.restore(backup_id, moment)
            print(done.status, done.err)
            if done.status == 0:
                from fixtures.partial import differences
                assert not differences(own.stored(), target.stored())


def test_dds(tmp_path: Path) -> None:
    settings = replace(SETTINGS, modules=(*SETTINGS.modules, "dds"), overlays=("overlay dds\ndds-min-ttl 1\ndds-interval 2\ndds-default-ttl 3",))
    with staged(tmp_path / "s", settings=settings) as stage:
        with stage.source.server.connection() as handle:
            for name in "abc":
                handle.add_s(f"cn={name},{BASE}", [("objectClass", [b"gEntry", b"dynamicObject"]), ("cn", [b"x"]), ("sn", [b"y"])])
            handle.add_s(f"cn=stays,{BASE}", [("objectClass", [b"gEntry", b"dynamicObject"]), ("cn", [b"x"]), ("sn", [b"y"])])
            backup_id = stage.take()
            handle.add_s(f"cn=new,{BASE}", [("objectClass", [b"gEntry", b"dynamicObject"]), ("cn", [b"x"]), ("sn", [b"y"])])
            import ldap.extop.dds
            handle.extop_s(ldap.extop.dds.RefreshRequest(entryName=f"cn=stays,{BASE}", requestTtl=1000))
            time.sleep(7)
        moment = stage.source.note()
        done = stage.restore(backup_id, moment.csn).ok()
        print(done.err, moment.faults(stage.target), [e.get("reqType",[b""])+e["reqDN"]+e.get("reqMod",[]) for e in stage.source.stored(LOG).values() if "reqDN" in e])
        assert "dds" in done.err
        assert not [f for f in moment.faults(stage.target) if not f.startswith("only in the second")]


@pytest.mark.parametrize("logops", ["add modify", "all", "writes reads", "add|modify delete modrdn"])
def test_logops(logops: str, tmp_path: Path) -> None:
    settings = replace(SETTINGS, modules=(*SETTINGS.modules, "unique"), overlays=("overlay unique\nunique_uri ldap:///?uid?sub",))
    with staged(tmp_path / "s", settings=settings, logs=f"logops {logops}\nlogsuccess FALSE\n{LOGOLD}") as stage:
        with stage.source.server.connection() as handle:
            thing(handle, "cn=gone", BASE)
            modify(handle, GROUPS, (REPLACE, "description", b"x"))
            backup_id = stage.take()
            thing(handle, "cn=added", BASE, uid=[b"added"])
            handle.delete_s(f"cn=gone,{BASE}")
        moment = stage.source.server.search(attributes=("contextCSN",), scope=ldap.SCOPE_BASE)[0][1]["contextCSN"][0].decode()
        truth = stage.source.stored()
        done = stage.restore(backup_id, moment)
        print(done.status, done.err)
        assert "Traceback" not in done.err
        if done.status == 0:
            from fixtures.partial import differences
            assert not [x for x in differences(truth, stage.target.stored()) if "contextCSN" not in x]


def test_ppolicy_and_lastbind(tmp_path: Path) -> None:
    settings = replace(
        SETTINGS,
        modules=(*SETTINGS.modules, "ppolicy"),
        database_lines=("lastbind on",),
        overlays=(f"overlay ppolicy\nppolicy_default cn=policy,{BASE}",),
    )
    with staged(tmp_path / "s", settings=settings) as stage:
        server = stage.source.server
        with server.connection() as handle:
            handle.add_s(f"cn=policy,{BASE}", [("objectClass", [b"device", b"pwdPolicy"]), ("pwdAttribute", [b"userPassword"]), ("pwdLockout", [b"TRUE"]), ("pwdMaxFailure", [b"3"]), ("pwdInHistory", [b"5"])])
            for n in range(4):
                handle.add_s(f"cn=p{n},{BASE}", [("objectClass", [b"person"]), ("sn", [b"x"]), ("userPassword", [b"secret"])])
            backup_id = stage.take()

            def bind(n: int, password: str) -> None:
                own = ldap.initialize(server.client_uri)
                try:
                    own.simple_bind_s(f"cn=p{n},{BASE}", password)
                except ldap.INVALID_CREDENTIALS:
                    pass
                own.unbind_ext_s()

            for n, words in enumerate((["secret"], ["no", "secret"], ["no", "no", "no", "no", "secret"], ["no"])):
                for word in words:
                    bind(n, word)
            handle.passwd_s(f"cn=p0,{BASE}", None, "secret2")
            handle.passwd_s(f"cn=p0,{BASE}", None, "secret3")
            bind(0, "secret3")
        right_or_refused(stage, backup_id)


def test_skip_of_nothing(tmp_path: Path) -> None:
    with staged(tmp_path / "s") as stage:
        before = stage.source.note()
        backup_id = stage.take()
        after = stage.source.note()
        for start in (before.start, "20200101000000.000000Z"):
            done = stage.restore(backup_id, after.csn, "--skip", start)
            assert done.status != 0, (start, done.err)


def test_two_histories(tmp_path: Path) -> None:
    """A restored server that goes on with the old log."""
    with staged(tmp_path / "s") as stage:
        server = stage.source.server
        first = stage.source.note()
        backup_id = stage.take()
        with server.connection() as handle:
            thing(handle, "cn=kept", BASE)
        first = max(e["entryCSN"][0] for e in stage.source.stored().values()).decode()
        with server.connection() as handle:
            thing(handle, "cn=undone", BASE)
        server.stop()
        same = Stage(stage.source, stage.source, stage.repo)
        done = same.restore(backup_id, first).ok()
        assert "later changes" in done.err
        server.start()
        with server.connection() as handle:
            thing(handle, "cn=second", BASE)
        csn = max(e["entryCSN"][0] for e in stage.source.stored().values()).decode()
        truth = stage.source.stored()
        done = stage.restore(backup_id, csn)
        from fixtures.partial import differences
        print("TWO HISTORIES", done.status, done.err, differences(truth, stage.target.stored()))


HARD = {}
def hard(f):
    HARD[f.__name__] = f
    return f

@hard
def referral_subtree(handle, at):
    from ldap.controls.simple import ManageDSAITControl
    m = ManageDSAITControl()
    handle.add_ext_s(f"cn=ref,{at}", [("objectClass", [b"referral", b"extensibleObject"]), ("ref", [b"ldap://x.invalid/"])], serverctrls=[m])
    yield
    handle.add_ext_s(f"cn=below,cn=ref,{at}", [("objectClass", [b"gEntry"]), ("cn", [b"b"]), ("sn", [b"b"])], serverctrls=[m])
    handle.rename_ext_s = None
    handle.add_s(f"cn=alias,{at}", [("objectClass", [b"alias", b"extensibleObject"]), ("aliasedObjectName", [f"cn=ref,{at}".encode()])])
    modify(handle, f"cn=alias,{at}", (REPLACE, "aliasedObjectName", BASE.encode()))

@hard
def subentries(handle, at):
    handle.modify_s(at, [(ADD, "administrativeRole", [b"2.5.23.5"])])
    yield
    handle.add_s(f"cn=coll,{at}", [("objectClass", [b"subentry", b"collectiveAttributeSubentry", b"extensibleObject"]), ("subtreeSpecification", [b"{}"]), ("c-l;collective" , [b"Town"])])
    modify(handle, f"cn=coll,{at}", (REPLACE, "c-l;collective", b"Other"))
    thing(handle, "cn=under", at)

@hard
def values_(handle, at):
    from fixtures.trees import CERTIFICATE
    d = thing(handle, "cn=a", at, userCertificate=[]) if False else thing(handle, "cn=a", at)
    modify(handle, d, (ADD, "userCertificate;binary", CERTIFICATE))
    modify(handle, d, (ADD, "seeAlso", [b"cn=X Y,dc=example,dc=com", b"cn=b+sn=c,dc=example,dc=com"]), (ADD, "description", [b"A B", b"c"]), (ADD, "telephoneNumber", b"+1 2-3"), (ADD, "name", b"nn"))
    yield
    modify(handle, d, (DELETE, "userCertificate;binary", CERTIFICATE))
    modify(handle, d, (DELETE, "seeAlso", [b"CN=x  y, DC=Example,dc=com", b"SN=C+CN=B,dc=example,dc=com"]))
    modify(handle, d, (DELETE, "description", b"a   b "), (ADD, "description", b"  A B"))
    modify(handle, d, (DELETE, "telephoneNumber", b"+123"), (ADD, "telephoneNumber", b"+1 2 3"))
    modify(handle, d, (DELETE, "name", None))
    modify(handle, d, (ADD, "name;lang-en;x-a", b"v"), (ADD, "name;LANG-EN", b"w"))
    modify(handle, d, (DELETE, "NAME;X-A;lang-EN", b"V"))
    modify(handle, d, (REPLACE, "description", b"C"), (ADD, "2.5.4.13", b"d"), (DELETE, "DESCRIPTION", b"c"))
    modify(handle, d, (DELETE, "sn", b"OF"), (ADD, "sn", b"Of"))

@hard
def single_valued(handle, at):
    d = f"cn=p,{at}"
    handle.add_s(d, [("objectClass", [b"inetOrgPerson"]), ("sn", [b"x"]), ("employeeNumber", [b"1"])])
    yield
    modify(handle, d, (ADD, "employeeNumber", b"2"), (DELETE, "employeeNumber", b"1"))
    modify(handle, d, (DELETE, "employeeNumber", b"2"), (ADD, "employeeNumber", b"3"))
    modify(handle, d, (REPLACE, "objectClass", [b"inetOrgPerson", b"uidObject"]), (ADD, "uid", b"u"))
    modify(handle, d, (ADD, "objectClass", b"2.5.6.6") , (DELETE, "uid", None), (DELETE, "objectClass", b"uidObject")) if False else None

@hard
def renames(handle, at):
    d = thing(handle, "cn=a+sn=b", at)
    e = thing(handle, "cn=Str\\2c ange \\23", at)
    yield
    handle.rename_s(d, "cn=a+sn=b")
    handle.rename_s(d, "sn=b+cn=a", delold=1)
    handle.rename_s(f"cn=a+sn=b,{at}", "sn=B+cn=z", delold=1)
    handle.rename_s(f"cn=z+sn=b,{at}", "cn=z", delold=0)
    handle.rename_s(f"cn=z,{at}", "cn=z+cn;x=q" if False else "2.5.4.3=Zed", delold=1)
    handle.rename_s(e, "cn=\\C3\\89mile", delold=1)
    handle.rename_s(f"cn=\xc9MILE,{at}", "cn=  two   words ", delold=1)
    big = unit(handle, "ou=" + "x" * 200, at)
    for n in range(5): big = unit(handle, f"ou={n}" + "y" * 250, big)
    handle.rename_s(f"ou={'x'*200},{at}", "ou=short")

@hard
def again(handle, at):
    yield
    for n in range(40):
        b = unit(handle, "ou=box", at); c = thing(handle, "cn=c", b)
        if n % 3 == 0: handle.rename_s(b, "ou=moved"); unit(handle, "ou=box", at); handle.rename_s(f"cn=c,ou=moved,{at}", "cn=d", b); handle.delete_s(f"ou=moved,{at}"); c = f"cn=d,{b}"
        handle.delete_s(c); handle.delete_s(b)
    b = unit(handle, "ou=box", at); thing(handle, "cn=c", b); handle.rename_s(b, "ou=in", unit(handle, "ou=new", at))

@hard
def members(handle, at):
    many = [f"cn=m{n},{BASE}".encode() for n in range(10000)]
    handle.add_s(f"cn=g,{at}", [("objectClass", [b"groupOfNames"]), ("member", many[:5000])])
    yield
    modify(handle, f"cn=g,{at}", (ADD, "member", many[5000:]))
    modify(handle, f"cn=g,{at}", (DELETE, "member", [m.upper() for m in many[::3]]))
    modify(handle, f"cn=g,{at}", (ADD, "member", many[3:300:3]), (DELETE, "member", many[1:300:3]))
    handle.add_s(f"cn=h,{at}", [("objectClass", [b"groupOfNames"]), ("member", many)])
    modify(handle, f"cn=h,{at}", (REPLACE, "member", many[5:9]))

@hard
def ordered(handle, at):
    d = thing(handle, "cn=o", at, gOrdered=[b"a", b"b", b"c", b"d"])
    yield
    modify(handle, d, (DELETE, "gOrdered", [b"{0}", b"{3}"]))
    modify(handle, d, (ADD, "gOrdered", [b"{0}x", b"{9}y", b"{1}z"]))
    modify(handle, d, (DELETE, "gOrdered", [b"{1}z"]))
    modify(handle, d, (REPLACE, "gOrdered", [b"{5}e", b"{1}f", b"g"]))
    modify(handle, d, (DELETE, "gOrdered", b"{0}f")) 


@pytest.fixture(scope="module")
def hstage(tmp_path_factory):
    with staged(tmp_path_factory.mktemp("hard") / "s") as made:
        yield made

@pytest.mark.parametrize("name", HARD)
def test_hard(name, hstage):
    stage = hstage
    with stage.source.server.connection() as handle:
        try:
            steps = HARD[name](handle, unit(handle, f"ou={name}", BASE))
            next(steps)
            backup_id = stage.take()
            list(steps)
        except ldap.LDAPError as error:
            import traceback; print("STOPPED", name, repr(error), traceback.format_exc()[-600:])
    stage.restored(backup_id, stage.source.note())
