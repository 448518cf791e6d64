"""The test servers, writers, networks and limits themselves: what other tests stand on."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ldap
import pytest

from fixtures.churn import Churn
from fixtures.limits import Filesystem, loop_filesystem, memory_group, missing_loop_filesystem, missing_memory_group
from fixtures.network import Proxy, missing_namespaces, namespace
from fixtures.replication import consumer, refresh_report, wait_in_sync
from fixtures.replication import provider as make_provider
from fixtures.slapd import Form, ServerError, Slapd
from fixtures.slapd_config import REPLICATOR, Installation, Settings, TlsFiles
from fixtures.tls import Authority
from fixtures.trees import department, write_hard_tree
from tests.support.require import require
from tests.support.trees import assert_same, tree

pytestmark = pytest.mark.slapd

TOP = "dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n"


# --- one server ---------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.alone
def test_starts_quickly_and_takes_entries(form: Form) -> None:
    began = time.monotonic()
    with Slapd(form=form) as server:
        took = time.monotonic() - began
        server.ldapadd(TOP)
        assert [dn for dn, _ in server.search()] == [server.suffix]
        home = server.home
    assert took < 10.0  # 0.05 s alone on two cores; room for a busy machine
    assert not home.exists()


@pytest.mark.long
def test_config_and_monitor_by_external(form: Form) -> None:
    with Slapd(form=form) as server:
        [(_, config)] = server.search(
            "(olcSuffix=dc=example,dc=com)", ("olcDbMaxSize",), base="cn=config", external=True
        )
        assert config["olcDbMaxSize"] == [b"1073741824"]
        assert server.search(base="cn=Monitor", external=True)
        # slapd does not even admit to others that it is there.
        with pytest.raises(ldap.NO_SUCH_OBJECT), server.connection() as as_root_dn:
            as_root_dn.search_s("cn=config", ldap.SCOPE_BASE)


@pytest.mark.long
def test_external_manages_the_database() -> None:
    with Slapd() as server:
        server.ldapadd(TOP)
        with server.connection(external=True) as handle:
            handle.modify_s(server.suffix, [(ldap.MOD_ADD, "description", [b"by hand"])])
        assert server.search("(description=by hand)")


@pytest.mark.long
def test_cn_config_can_be_changed() -> None:
    with Slapd(form="config") as server:
        server.configure(
            "dn: olcDatabase={3}mdb,cn=config\nchangetype: modify\nreplace: olcDbMaxSize\nolcDbMaxSize: 2147483648\n"
        )
        server.restart()
        [(_, found)] = server.search("(olcDbMaxSize=*)", base="cn=config", external=True)
        assert found["olcDbMaxSize"] == [b"2147483648"]


@pytest.mark.long
def test_secrets_are_private() -> None:
    server = Slapd()
    try:
        for path in (server.password_file, server.replicator_password_file):
            assert path.stat().st_mode & 0o777 == 0o600
            assert not path.read_text().endswith("\n")
        assert (server.home / "slapd.conf").stat().st_mode & 0o777 == 0o600
        with server:
            assert server.pid
            argv = Path(f"/proc/{server.pid}/cmdline").read_text()
            assert server.password_file.read_text() not in argv
    finally:
        server.close()


@pytest.mark.long
def test_stop_kill_restart_keep_the_data() -> None:
    with Slapd() as server:
        server.ldapadd(TOP)
        server.restart()
        server.kill9()
        assert not server.running
        server.start()
        assert server.search()


@pytest.mark.rows(1)
def test_a_broken_configuration_says_why(form: Form) -> None:
    settings = Settings(database_lines=("nonsense 1",))
    with pytest.raises(ServerError, match="nonsense"), Slapd(settings, form=form):
        pass


@pytest.mark.long
def test_runs_as_another_user() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    with Slapd(user="openldap") as server:
        server.ldapadd(TOP)
        owner = (server.database_dir / "data.mdb").stat()
        assert owner.st_uid != 0
        assert Path(f"/proc/{server.pid}").stat().st_uid == owner.st_uid


@pytest.mark.long
def test_settings_reach_the_server() -> None:
    settings = Settings(
        limits=("sizelimit 2",),
        indexes=("objectClass eq", "cn eq"),
        schema=("/etc/ldap/schema/dyngroup.schema",),
        idletimeout=7,
    )
    with Slapd(settings) as server:
        server.ldapadd(TOP + "\n" + "".join(_units(server.suffix, 3)))
        with pytest.raises(ldap.SIZELIMIT_EXCEEDED):
            server.search(external=True)
        [(_, found)] = server.search("(olcSizeLimit=*)", ("olcDbIndex",), base="cn=config", external=True)
        assert found["olcDbIndex"] == [b"objectClass eq", b"cn eq"]
        [(_, top)] = server.search(base="cn=config", scope=ldap.SCOPE_BASE, external=True)
        assert top["olcIdleTimeout"] == [b"7"]


def _units(suffix: str, count: int) -> Iterator[str]:
    for number in range(count):
        yield f"dn: ou={number},{suffix}\nobjectClass: organizationalUnit\n\n"


@pytest.mark.long
def test_hard_tree_survives_slapadd_and_slapcat(short_tmp: Path) -> None:
    ldif = short_tmp / "hard.ldif"
    count = write_hard_tree(ldif, "dc=example,dc=com")
    with contextlib.closing(Slapd()) as server:
        server.slapadd(ldif)
        first = server.slapcat()
        assert len(tree(first)) == count
    with contextlib.closing(Slapd()) as other:
        other.slapadd(first)
        assert tree(other.slapcat()) == tree(first)


# --- TLS ----------------------------------------------------------------------------------------


def _search_by_tls(uri: str, ca: Path, *, start_tls: bool = False) -> Any:
    handle = ldap.initialize(uri)
    try:
        handle.set_option(ldap.OPT_X_TLS_CACERTFILE, str(ca))
        handle.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
        handle.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
        if start_tls:
            handle.start_tls_s()
        return handle.search_s("", ldap.SCOPE_BASE)
    finally:
        handle.unbind_ext_s()


@pytest.mark.long
def test_tls_is_verified(short_tmp: Path) -> None:
    authority, stranger = Authority(short_tmp / "one"), Authority(short_tmp / "other")
    with Slapd(Settings(tls=authority.valid())) as server:
        assert _search_by_tls(server.ldaps_uri, authority.ca)
        assert _search_by_tls(server.uri, authority.ca, start_tls=True)
        with pytest.raises(ldap.SERVER_DOWN):
            _search_by_tls(server.ldaps_uri, stranger.ca)


@pytest.mark.long
@pytest.mark.parametrize("fault", ["expired", "wrong_name"])
def test_bad_certificates_are_refused(short_tmp: Path, fault: str) -> None:
    authority = Authority(short_tmp)
    files: TlsFiles = getattr(authority, fault)()
    with Slapd(Settings(tls=files)) as server, pytest.raises(ldap.SERVER_DOWN):
        _search_by_tls(server.ldaps_uri, authority.ca)


# --- provider and consumer ----------------------------------------------------------------------


@pytest.mark.long
def test_consumer_fills_itself(provider: Slapd, form: Form) -> None:
    with consumer(provider, form=form) as target:
        wait_in_sync(provider, target)
        assert_same(provider, target)
        [refresh] = refresh_report(target)
        assert refresh.cookie is None
        assert refresh.added == len(tree(provider.slapcat()))
        with pytest.raises(ldap.REFERRAL), target.connection(external=True) as handle:
            handle.delete_s(f"ou=groups,{target.suffix}")


@pytest.mark.long
def test_new_consumer_is_empty(provider: Slapd) -> None:
    with contextlib.closing(consumer(provider)) as target:
        assert not target.running
        assert list(target.database_dir.iterdir()) == []


def test_replicator_reads_past_the_size_limit(provider: Slapd) -> None:
    handle = ldap.initialize(provider.uri)
    try:
        handle.simple_bind_s(REPLICATOR, provider.replicator_password_file.read_text())
        found = handle.search_s(provider.suffix, ldap.SCOPE_SUBTREE, "(uid=*)", ["userPassword"])
    finally:
        handle.unbind_ext_s()
    assert len(found) == 1000
    assert all(values.get("userPassword") for _, values in found)


@pytest.mark.long
@pytest.mark.parametrize(("session_log", "kind"), [(1000, "delete"), (0, "present")])
def test_refresh_report_tells_the_kinds(people_ldif: Path, session_log: int, kind: str) -> None:
    source = make_provider(session_log=session_log)
    source.slapadd(people_ldif)
    with source:
        source.restart()  # writes contextCSN into the database, for slapcat to find
        target = consumer(source)
        target.slapadd(source.slapcat())
        source.ldapmodify(_four_changes(source.suffix))
        with target:
            wait_in_sync(source, target)
            [refresh] = refresh_report(target)
            assert_same(source, target)
    assert refresh.kind == kind
    assert refresh.cookie is not None
    assert (refresh.sent, refresh.unchanged) == (3, 0)
    assert (refresh.added, refresh.modified, refresh.renamed) == (1, 1, 1)
    assert refresh.deleted == 1
    # Of 1,029 entries one was deleted and one is new.
    assert refresh.present == (1029 if kind == "present" else 0)


def _four_changes(suffix: str) -> str:
    modified, deleted, renamed = (f"uid=user{number:07d},{department(suffix, number)}" for number in (3, 4, 5))
    return (
        f"dn: {modified}\nchangetype: modify\nreplace: description\ndescription: new\n\n"
        f"dn: {deleted}\nchangetype: delete\n\n"
        f"dn: {renamed}\nchangetype: modrdn\nnewrdn: uid=renamed\ndeleteoldrdn: 1\n\n"
        f"dn: cn=new,{suffix}\nchangetype: add\nobjectClass: person\nsn: new\n"
    )


# --- churn --------------------------------------------------------------------------------------


@pytest.mark.long
def test_consumer_follows_churn(provider: Slapd, short_tmp: Path) -> None:
    """From empty while everything changes; then both are equal, and the journal says what was done."""
    journal = short_tmp / "journal.jsonl"
    with Churn(provider, rate=100, journal=journal) as churn, consumer(provider) as target:
        churn.wait_for(300)
        counts = churn.stop()
        wait_in_sync(provider, target)
        assert_same(provider, target)
    noted = [json.loads(line)["kind"] for line in journal.read_text().splitlines()]
    assert {kind: noted.count(kind) for kind in counts} == counts
    assert "refused" not in counts
    for kind in ("add", "modify_old", "delete_old", "rename", "move", "add_again"):
        assert counts[kind] > 0, kind


@pytest.mark.long
def test_seeded_consumer_catches_up_with_churn(provider: Slapd) -> None:
    """Taken from a quiet moment, changed a lot after it: the refresh brings the changes and nothing else."""
    with Churn(provider, rate=1000) as churn:
        churn.wait_for(100)
    provider.restart()
    with contextlib.closing(consumer(provider)) as target:
        target.slapadd(provider.slapcat())
        with Churn(provider, rate=1000, seed=2) as churn:
            churn.wait_for(200)
        with target:
            wait_in_sync(provider, target)
            assert_same(provider, target)
            [refresh] = refresh_report(target)
    assert refresh.kind == "delete"
    assert refresh.unchanged == 0
    assert 0 < refresh.sent <= sum(churn.counts.values())


@pytest.mark.long
def test_consumer_in_persist_phase_follows_harsh_churn(provider: Slapd) -> None:
    with consumer(provider) as target:
        wait_in_sync(provider, target)
        with Churn(provider, rate=100, harsh=True) as churn:
            churn.wait_for(300)
        assert churn.counts["rename_box"] > 0
        assert churn.counts["rename_onto_freed"] > 0
        wait_in_sync(provider, target)
        assert_same(provider, target)


@pytest.mark.long
def test_churn_with_a_wrong_password_fails_aloud(provider: Slapd, short_tmp: Path) -> None:
    provider.password_file.write_text("wrong")
    with pytest.raises(RuntimeError, match="INVALID_CREDENTIALS"), Churn(provider, journal=short_tmp / "journal"):
        pass


# --- network ------------------------------------------------------------------------------------


def _timed_search(uri: str, base: str = "") -> float:
    handle = ldap.initialize(uri)
    handle.set_option(ldap.OPT_TIMEOUT, 20)
    try:
        handle.search_s(base, ldap.SCOPE_BASE)  # opens the connection
        began = time.monotonic()
        handle.search_s(base, ldap.SCOPE_BASE)
        return time.monotonic() - began
    finally:
        handle.unbind_ext_s()


@pytest.mark.long
@pytest.mark.alone
def test_proxy_delays_each_round_trip(slapd_instance: Slapd) -> None:
    with Proxy(slapd_instance.uri) as proxy:
        at_once = _timed_search(proxy.uri)
        proxy.delay = 0.25
        assert 0.5 <= _timed_search(proxy.uri) < 1.0 + 2 * at_once


@pytest.mark.long
@pytest.mark.alone
def test_proxy_delay_keeps_throughput(provider: Slapd) -> None:
    """All entries are many chunks; they come one delay later, not each one delay after the other."""
    with Proxy(provider.uri, delay=0.25) as proxy:
        handle = ldap.initialize(proxy.uri)
        handle.simple_bind_s(REPLICATOR, provider.replicator_password_file.read_text())
        began = time.monotonic()
        found = handle.search_s(provider.suffix, ldap.SCOPE_SUBTREE)
        took = time.monotonic() - began
        handle.unbind_ext_s()
        assert len(found) == 1029
        assert proxy.bytes_down > 5 * 65536
        assert took < 2.0


@pytest.mark.long
def test_proxy_cuts_after_so_many_bytes(provider: Slapd) -> None:
    with Proxy(provider.uri) as proxy:
        proxy.cut_after(100_000, 100_000, 100_000)
        for attempt in range(1, 4):
            handle = ldap.initialize(proxy.uri)
            with pytest.raises(ldap.SERVER_DOWN):
                handle.search_s(provider.suffix, ldap.SCOPE_SUBTREE)
            handle.unbind_ext_s()
            assert proxy.cuts == attempt
        assert _timed_search(proxy.uri) < 1.0
        assert proxy.connections == 4


@pytest.mark.long
def test_proxy_cuts_and_refuses(slapd_instance: Slapd) -> None:
    with Proxy(slapd_instance.uri) as proxy:
        handle = ldap.initialize(proxy.uri)
        handle.search_s("", ldap.SCOPE_BASE)
        proxy.cut()
        with pytest.raises(ldap.SERVER_DOWN):
            handle.search_s("", ldap.SCOPE_BASE)
        handle.unbind_ext_s()
        proxy.refuse()
        with pytest.raises(ldap.SERVER_DOWN):
            _timed_search(proxy.uri)
        proxy.accept()
        assert _timed_search(proxy.uri) < 1.0


@pytest.mark.long
def test_consumer_survives_cuts(provider: Slapd) -> None:
    with Proxy(provider.uri) as proxy:
        proxy.cut_after(100_000, 200_000)
        with consumer(provider, uri=proxy.uri) as target:
            wait_in_sync(provider, target)
            assert_same(provider, target)
            assert len(refresh_report(target)) == 3


@pytest.mark.long
def test_proxy_freezes(slapd_instance: Slapd) -> None:
    with Proxy(slapd_instance.uri) as proxy:
        _lost_and_found(proxy.uri, proxy.freeze, proxy.thaw)


def test_namespace_loses_the_network() -> None:
    require(missing_namespaces())
    with namespace() as space:
        settings = Settings(host=space.inside)
        with Slapd(settings, installation=Installation(prefix=space.prefix)) as server:
            _lost_and_found(server.uri, space.cut, space.join)


def _lost_and_found(uri: str, lose: Callable[[], None], find: Callable[[], None]) -> None:
    """Nothing comes back and nothing is reset: only a time limit notices."""
    handle = ldap.initialize(uri)
    handle.search_s("", ldap.SCOPE_BASE)
    handle.set_option(ldap.OPT_TIMEOUT, 0.5)
    lose()
    with pytest.raises(ldap.TIMEOUT):
        handle.search_s("", ldap.SCOPE_BASE)
    find()
    handle.set_option(ldap.OPT_TIMEOUT, 20)
    assert handle.search_s("", ldap.SCOPE_BASE)
    handle.unbind_ext_s()


# --- limits -------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(("kind", "size"), [("ext4", 16), ("xfs", 300)])
def test_loop_filesystem_fills_up(kind: Filesystem, size: int) -> None:
    require(missing_loop_filesystem(kind))
    with loop_filesystem(size, kind) as disk, pytest.raises(OSError, match="No space left"):
        (disk / "file").write_bytes(bytes((size + 1) << 20))
    assert not disk.exists()


@pytest.mark.long
@pytest.mark.alone
def test_memory_group_limits() -> None:
    require(missing_memory_group())
    with memory_group(64 << 20) as group:
        eater = [*group.prefix, "python3", "-c", "x = bytearray(256 << 20)"]
        done = subprocess.run(eater, capture_output=True, check=False)
        assert done.returncode in (-9, 137)
        assert group.peak <= 64 << 20
