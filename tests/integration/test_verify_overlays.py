"""`verify` of databases that an overlay writes in a way of its own: a log of accesses, the local part of a proxy."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from tests.support.command import Done, ditseed

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
LDIF = f"""dn: {SUFFIX}
objectClass: domain
dc: example

dn: ou=people,{SUFFIX}
objectClass: organizationalUnit
ou: people

dn: uid=u0,ou=people,{SUFFIX}
objectClass: inetOrgPerson
uid: u0
cn: U
sn: S
"""
CHANGE = f"""dn: uid=u0,ou=people,{SUFFIX}
changetype: modify
replace: mail
mail: local@example.com
"""


def verified(server: Slapd, suffix: str = SUFFIX) -> Done:
    words = ("--config", server.config_path, "-b", suffix, "--level", "indexes")
    return ditseed("verify", *words)


@pytest.mark.parametrize(
    "indexes",
    [
        "index reqStart,reqEnd,entryCSN,objectClass eq",
        "index default eq\nindex entryCSN,objectClass,reqEnd,reqResult,reqStart",
    ],
)
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


def test_the_local_part_of_a_translucent_proxy_is_sound() -> None:
    with Slapd() as remote:
        remote.ldapadd(LDIF)
        password = remote.password_file.read_text()
        bind = f'bindmethod=simple binddn="{remote.root_dn}" credentials="{password}"'
        proxied = (
            f'overlay translucent\nuri {remote.uri}\nidassert-bind {bind}\nidassert-authzFrom "*"'
        )
        settings = Settings(modules=("back_mdb", "back_ldap", "translucent"), overlays=(proxied,))
        with closing(Slapd(settings)) as proxy:
            proxy.start()
            proxy.ldapmodify(CHANGE)
            proxy.stop()
            verified(proxy).ok()
