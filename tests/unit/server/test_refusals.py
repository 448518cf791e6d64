"""What a server refuses is named by its cause, with what to type."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from fixtures.golden.records import pairs_of
from fixtures.slapd import Slapd, missing_slapd
from fixtures.slapd_config import Settings
from fixtures.trees import record
from loader.errors import AccountClosed, BadCredentials, LoaderError, NoContextCSN, Referred, UsageProblem
from loader.server.options import Connection
from loader.server.session import session
from tests.support.adding import SUFFIX, TOP, unit, write
from tests.support.command import ditseed
from tests.support.refusal import pasted
from tests.support.require import require

pytestmark = pytest.mark.slapd

POLICY = pairs_of(
    "objectClass: device; objectClass: pwdPolicy; cn: policy; pwdAttribute: userPassword; pwdMustChange: TRUE; "
    "pwdLockout: TRUE; pwdMaxAge: 1000000000"
)
ACCOUNTS = {
    "open": "",
    "expired": "pwdChangedTime: 19700101000000Z\n",
    "locked": "pwdAccountLockedTime: 000001010000Z\n",
    "reset": "pwdReset: TRUE\n",
}
ELSEWHERE = "ldap://127.0.0.1:1"
SHADOW = (
    f"syncrepl rid=1 provider={ELSEWHERE} searchbase={SUFFIX} bindmethod=simple binddn=cn=a "
    'credentials=a type=refreshAndPersist retry="60 +"',
    f"updateref {ELSEWHERE}",
)


def _account(name: str) -> str:
    head = "objectClass: account\nobjectClass: simpleSecurityObject\n"
    return f"dn: uid={name},{SUFFIX}\n{head}uid: {name}\nuserPassword: secret\n{ACCOUNTS[name]}\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Slapd]:
    require(missing_slapd())
    policy = f'overlay ppolicy\nppolicy_default "cn=policy,{SUFFIX}"\nppolicy_use_lockout'
    made = Slapd(Settings(modules=("back_mdb", "syncprov", "ppolicy"), overlays=(policy,)))
    made.slapadd(TOP + record(f"cn=policy,{SUFFIX}", POLICY) + "".join(map(_account, ACCOUNTS)))
    with made:
        yield made


@pytest.fixture(scope="module")
def replica() -> Iterator[Slapd]:
    require(missing_slapd())
    made = Slapd(Settings(database_lines=SHADOW))
    made.slapadd(TOP)
    with made:
        yield made


def _as(server: Slapd, name: str) -> Connection:
    return Connection(server.uri, f"uid={name},{SUFFIX}", password="secret")


def _refused(connection: Connection, error: type[LoaderError]) -> str:
    with pytest.raises(error) as caught, session(connection) as opened:
        opened.read("")
    return f"{caught.value}\nhint: {caught.value.advice()}"


@pytest.mark.parametrize(
    ("name", "cause"),
    [("expired", "password has expired"), ("locked", "it is locked"), ("reset", "must change its password")],
)
def test_what_the_password_policy_says_is_named(server: Slapd, name: str, cause: str) -> None:
    said = _refused(_as(server, name), AccountClosed)
    assert f"the account uid={name},{SUFFIX} cannot be used: " in said
    assert cause in said
    assert "TLS" not in said


def test_what_is_printed_opens_a_locked_account(server: Slapd) -> None:
    admin = f"-D {server.root_dn} -y {server.password_file}"
    commands = pasted(_refused(_as(server, "locked"), AccountClosed)).replace("-D ROOTDN -W", admin)
    subprocess.run(["sh", "-eu"], input=commands, text=True, check=True, capture_output=True)
    with session(_as(server, "locked")) as opened:
        assert opened.who_am_i()
    change = f"dn: uid=locked,{SUFFIX}\nchangetype: modify\nreplace: pwdAccountLockedTime\n"
    server.ldapmodify(f"{change}{ACCOUNTS['locked']}", "-e", "relax")


def test_a_newline_at_the_end_of_the_password_file_is_named(server: Slapd, tmp_path: Path) -> None:
    file = tmp_path / "pass word"
    file.write_text("secret\n")
    os.chmod(file, 0o600)
    connection = structs.replace(_as(server, "open"), password=None, password_file=str(file))
    said = _refused(connection, BadCredentials)
    assert "Remove the newline at the end of " in said
    mend = said.partition(" (")[2].partition("), because ")[0]
    subprocess.run(["sh", "-eu"], input=mend, text=True, check=True)
    with session(connection) as opened:
        assert opened.who_am_i() == f"uid=open,{SUFFIX}"


def test_a_wrong_password_is_not_said_to_be_a_newline(server: Slapd) -> None:
    said = _refused(structs.replace(_as(server, "open"), password="other"), BadCredentials)
    assert "newline" not in said
    assert "pwdAccountLockedTime" in said


def test_a_name_that_is_no_dn(server: Slapd) -> None:
    said = _refused(Connection(server.uri, "replicator", password="secret"), UsageProblem)
    assert "replicator is not a DN" in said
    assert "cn=replicator,dc=example,dc=com" in said


def test_a_replica_refers_to_its_provider(replica: Slapd, tmp_path: Path) -> None:
    admin = Connection(replica.uri, replica.root_dn, str(replica.password_file))
    with session(admin) as opened, pytest.raises(Referred, match=f"refers to {ELSEWHERE}$"):
        opened.replace(SUFFIX, {"description": [b"changed"]})
    bind = ("-H", replica.uri, "-D", replica.root_dn, "-y", replica.password_file)
    done = ditseed("add", write(tmp_path / "more.ldif", unit("more")), *bind)
    assert done.status, done
    assert ELSEWHERE in done.err, done
    assert "TLS" not in done.err


def test_what_is_printed_gives_a_database_its_context_csn() -> None:
    require(missing_slapd())
    require(None if os.geteuid() == 0 else "only root may change cn=config")
    made = Slapd()
    made.slapadd(TOP)
    with made:
        with session(Connection(made.ldapi_uri)) as opened, pytest.raises(NoContextCSN) as caught:
            opened.context_csns(SUFFIX)
        commands = pasted(f"\nhint: {caught.value.advice()}")
        subprocess.run(["sh", "-eu"], input=commands, text=True, check=True, capture_output=True)
        with session(Connection(made.ldapi_uri)) as opened:
            assert opened.context_csns(SUFFIX)
