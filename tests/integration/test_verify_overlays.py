"""`verify` of databases that an overlay writes in a way of its own: a log of accesses, the local part of a proxy."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import ldap
import pytest

from fixtures import replication
from fixtures.golden.records import pairs_of
from fixtures.replication import wait_in_sync
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import record
from tests.support.adding import SUFFIX, TOP, unit
from tests.support.command import Done, ditseed
from tests.support.seeding import bind

pytestmark = pytest.mark.slapd

PERSON = f"uid=u0,ou=people,{SUFFIX}"
LDIF = TOP + unit("people") + record(PERSON, pairs_of("objectClass: inetOrgPerson; uid: u0; cn: U; sn: S"))
CHANGE = f"dn: {PERSON}\nchangetype: modify\nreplace: mail\nmail: local@example.com\n"


NAMES = "reqStart,reqEnd,entryCSN,objectClass"


def verified(server: Slapd, suffix: str = SUFFIX) -> Done:
    words = ("--config", server.config_path, "-b", suffix, "--verify", "indexes")
    return ditseed("verify", *words)


@pytest.mark.parametrize("indexes", [f"index {NAMES} eq", f"index default eq\nindex {NAMES},reqResult"])
def test_a_log_of_accesses_is_sound(indexes: str, short_tmp: Path) -> None:
    log = f"database mdb\nsuffix cn=accesslog\nrootdn cn=accesslog\ndirectory {short_tmp}"
    settings = Settings(
        modules=("back_mdb", "syncprov", "accesslog"),
        overlays=("overlay accesslog\nlogdb cn=accesslog\nlogops writes session\nlogold (uid=*)",),
        global_lines=(log, indexes),
    )
    with closing(replication.provider(settings)) as server:
        server.slapadd(LDIF)
        server.start()
        server.ldapmodify(CHANGE)
        server.stop()
        assert "not configured" not in verified(server, "cn=accesslog").ok().out
        by_directory = ditseed("verify", short_tmp, "--config", server.config_path, "--verify", "indexes")
        assert "not configured" not in by_directory.ok().out


def test_the_local_part_of_a_translucent_proxy_is_sound() -> None:
    with Slapd() as remote:
        remote.ldapadd(LDIF)
        password = remote.password_file.read_text()
        bind = f'bindmethod=simple binddn="{remote.root_dn}" credentials="{password}"'
        proxied = f'overlay translucent\nuri {remote.uri}\nidassert-bind {bind}\nidassert-authzFrom "*"'
        settings = Settings(modules=("back_mdb", "back_ldap", "translucent"), overlays=(proxied,))
        with closing(Slapd(settings)) as proxy:
            proxy.start()
            proxy.ldapmodify(CHANGE)
            proxy.stop()
            verified(proxy).ok()


RULES = "pwdAttribute: userPassword; pwdLockout: TRUE; pwdMaxFailure: 1000; pwdMustChange: TRUE"
POLICY = record(f"cn=policy,{SUFFIX}", pairs_of(f"objectClass: device; objectClass: pwdPolicy; cn: policy; {RULES}"))
RESET = f"dn: {PERSON}\nchangetype: modify\nreplace: userPassword\nuserPassword: secret\n"
PASSING = f"dn: cn=passing,{SUFFIX}\nobjectClass: device\nobjectClass: dynamicObject\ncn: passing\n"


def fails_until_a_time_ends_in_0(server: Slapd) -> None:
    """slapd takes the last 0 of a fraction off a value that it compares, and ppolicy does not."""
    times = [b""]
    handle = ldap.initialize(server.uri)
    while not any(time.endswith(b"0Z") for time in times):
        with suppress(ldap.INVALID_CREDENTIALS):
            handle.simple_bind_s(PERSON, "wrong")
        times = server.search("(uid=u0)", ("pwdFailureTime",))[0][1]["pwdFailureTime"]
    handle.unbind_s()


@pytest.fixture(scope="module")
def of_overlays() -> Iterator[Slapd]:
    """Stopped, after ppolicy and dds have written."""
    settings = Settings(
        indexes=("objectClass,pwdFailureTime,pwdReset eq",),
        modules=("back_mdb", "syncprov", "ppolicy", "dds"),
        overlays=(f"overlay ppolicy\nppolicy_default cn=policy,{SUFFIX}", "overlay dds"),
    )
    with closing(replication.provider(settings)) as server:
        server.slapadd(LDIF + POLICY)
        server.start()
        server.ldapmodify(RESET)
        server.ldapadd(PASSING)
        fails_until_a_time_ends_in_0(server)
        server.stop()
        yield server


def test_what_ppolicy_and_dds_write_is_sound(of_overlays: Slapd) -> None:
    told = verified(of_overlays).ok().out
    for name in ("pwdReset", "entryTtl", "pwdFailureTime"):
        assert f"note: {name}: " in told


def _names(server: Slapd, filter_: str) -> list[str]:
    return [name for name, _ in server.search(filter_, ("1.1",))]


@pytest.mark.long
def test_a_refresh_of_what_ppolicy_wrote(of_overlays: Slapd) -> None:
    """It knows the index keys that slapd made of such values, and takes them away."""
    provider, wanted = of_overlays, ("(pwdReset=TRUE)", "(pwdReset=FALSE)", "(pwdFailureTime=*)")
    # dds runs on no consumer.
    overlays = tuple(one for one in provider.settings.overlays if "dds" not in one)
    settings = replication.as_consumer(provider.settings, overlays=overlays)
    with closing(replication.consumer(provider, settings)) as consumer:
        shutil.copy(provider.database_dir / "data.mdb", consumer.database_dir)
        provider.start()
        try:
            provider.ldapmodify(f"{CHANGE}-\nreplace: pwdReset\npwdReset: FALSE\n")
            where = ("--config", consumer.config_path, "-b", consumer.suffix)
            ditseed("replica", "refresh", *bind(provider), *where).ok()
            verified(consumer).ok()
            consumer.start()
            wait_in_sync(provider, consumer)
            answers = [[_names(server, one) for one in wanted] for server in (provider, consumer)]
        finally:
            provider.stop()
    assert answers == [[[], [PERSON], [PERSON]]] * 2
