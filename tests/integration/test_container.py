"""The same tests on a private slapd and on the OpenLDAP test container, and what only the container must do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import ldap
import ldap.modlist
import pytest
from ldap.controls.libldap import SimplePagedResultsControl

from fixtures import replication
from fixtures.container_server import ContainerServer, container_server, sweep
from fixtures.engine import engine, missing_engine
from fixtures.slapd import ServerError, Slapd, missing_slapd
from fixtures.slapd_config import REPLICATOR, Settings
from fixtures.trees import write_people
from fixtures.waiting import until
from tests.support.require import require
from tests.support.trees import differences, tree

pytestmark = pytest.mark.long

Server = Slapd | ContainerServer

PEOPLE = 200
DITSEED = (sys.executable, "-c", "from loader.cli import main; main()")
# The first container of a machine comes with making its image: debootstrap, and apt-get in it.


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    require(missing_engine())
    with engine() as found:
        yield found


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("people") / "people.ldif"
    write_people(path, Settings().suffix, PEOPLE)
    return path


@pytest.fixture(
    scope="module",
    params=[pytest.param("private", marks=pytest.mark.slapd), pytest.param("container", marks=pytest.mark.container)],
)
def server(request: pytest.FixtureRequest, people: Path) -> Iterator[Server]:
    """A provider that holds `people`, added over the wire."""
    if request.param == "private":
        require(missing_slapd())
        with replication.provider() as private:
            private.ldapadd(people)
            yield private
    else:
        with container_server(request.getfixturevalue("client")) as contained:
            contained.ldapadd(people)
            yield contained


@pytest.fixture
def container(client: docker.DockerClient) -> Iterator[ContainerServer]:
    """An empty provider."""
    with container_server(client) as made:
        yield made


def dns_of(people: Path) -> set[str]:
    lines = people.read_text().splitlines()
    return {line[4:] for line in lines if line.startswith("dn: ")}


# --- on both ------------------------------------------------------------------------------------


def test_reads_back_what_was_added(server: Server, people: Path) -> None:
    found = dict(server.search())
    plain = dns_of(people)
    assert len(plain) >= PEOPLE
    assert plain <= found.keys()
    for attributes in found.values():
        assert {"entryUUID", "entryCSN", "structuralObjectClass"} <= attributes.keys()


def test_refuses_a_wrong_password(server: Server) -> None:
    handle = ldap.initialize(server.uri)
    with pytest.raises(ldap.INVALID_CREDENTIALS):
        handle.simple_bind_s(server.root_dn, "not the password")
    handle.unbind_s()


def test_the_replicator_reads_everything_by_pages(server: Server) -> None:
    """Beyond slapd's default limit of 500 entries a search, with the passwords, without entries twice."""
    handle = ldap.initialize(server.uri)
    handle.simple_bind_s(REPLICATOR, server.replicator_password_file.read_text())
    found = list(pages(handle, server.suffix, 50))
    handle.unbind_s()
    everything = server.search()
    assert len(found) == len({dn for dn, _ in found}) == len(everything)
    secret = {dn for dn, attributes in everything if "userPassword" in attributes}
    assert secret == {dn for dn, attributes in found if "userPassword" in attributes}


def pages(handle: ldap.ldapobject.LDAPObject, base: str, size: int) -> Iterator[tuple[str, dict[str, list[bytes]]]]:
    control = SimplePagedResultsControl(True, size=size, cookie=b"")
    while True:
        number = handle.search_ext(base, ldap.SCOPE_SUBTREE, serverctrls=[control])
        _, entries, _, controls = handle.result3(number)
        yield from entries
        [answer] = [c for c in controls if c.controlType == control.controlType]
        if not answer.cookie:
            return
        control.cookie = answer.cookie


def test_the_context_csn_moves_with_each_write(server: Server) -> None:
    before = server.context_csns()
    entry = {"objectClass": [b"device"], "cn": [b"moves"]}
    with server.connection() as handle:
        handle.add_s(f"cn=moves,{server.suffix}", ldap.modlist.addModlist(entry))
        added = server.context_csns()
        handle.delete_s(f"cn=moves,{server.suffix}")
    assert len(before) == len(added) == 1
    assert max(before) < max(added) < max(server.context_csns())


def test_export_equals_the_server(server: Server, tmp_path: Path) -> None:
    """ditseed over the network alone: what it exports holds every entry, and compares as equal."""
    who = ["-D", REPLICATOR, "-y", str(server.replicator_password_file), "-b", server.suffix]
    export = tmp_path / "export"
    report = ditseed("export", "-H", server.uri, *who, "-o", str(export), "--json")
    assert report["entries"] == len(server.search())
    assert ditseed("compare", server.uri, str(export), *who, "--json")["equal"] is True


def ditseed(*arguments: str) -> dict[str, Any]:
    done = subprocess.run([*DITSEED, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_nothing_is_lost_by_kill_9(server: Server) -> None:
    before = tree(server.slapcat())
    server.kill9()
    server.start()
    assert not list(differences(before, tree(server.slapcat())))
    server.restart()
    assert not list(differences(before, tree(server.slapcat())))


# --- the container alone ------------------------------------------------------------------------


@pytest.mark.container
def test_a_consumer_follows_its_provider(client: docker.DockerClient, container: ContainerServer, people: Path) -> None:
    """The pair of compose.yaml: entries of before and after the consumer's start arrive."""
    container.ldapadd(people)
    with container_server(client, Settings(), provider=container) as consumer:
        wait_same(container, consumer)
        with container.connection() as handle:
            dn = min(dns_of(people) - {container.suffix}, key=lambda name: -len(name))
            handle.modify_s(dn, [(ldap.MOD_REPLACE, "description", b"after the start")])
        wait_same(container, consumer)
        assert len(consumer.search("(description=after the start)")) == 1
        with consumer.connection() as handle, pytest.raises(ldap.REFERRAL):
            handle.delete_s(dn)


def wait_same(left: ContainerServer, right: ContainerServer) -> None:
    until(lambda: left.context_csns() == right.context_csns(), right.log_tail)
    assert not list(differences(tree(left.slapcat()), tree(right.slapcat())))


@pytest.mark.container
def test_runs_as_openldap_and_shows_no_password(container: ContainerServer) -> None:
    container.container.reload()
    status = Path(f"/proc/{container.container.attrs['State']['Pid']}/status").read_text()
    uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
    assert "0" not in uids
    shown = json.dumps(container.container.attrs) + container.tool("slapcat", "-n0").decode()
    for file in (container.password_file, container.replicator_password_file):
        assert file.read_text() not in shown
        assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.container
def test_says_which_password_file_is_missing(client: docker.DockerClient) -> None:
    server = ContainerServer(client, Settings(server_id=1))
    try:
        server.password_file.unlink()
        with pytest.raises(ServerError, match="no password file /run/secrets/root-password"):
            server.start()
    finally:
        server.close()


@pytest.mark.container
def test_settings_become_the_configuration(client: docker.DockerClient) -> None:
    settings = Settings(suffix="o=acme", maxsize=64 << 20, indexes=("uid eq", "cn pres,sub"))
    with container_server(client, settings) as server:
        config = server.tool("slapcat", "-n0", "-o", "ldif-wrap=no").decode().splitlines()
    assert {"olcSuffix: o=acme", "olcDbMaxSize: 67108864"} <= set(config)
    indexes = [line for line in config if line.startswith("olcDbIndex:")]
    assert sorted(indexes) == ["olcDbIndex: cn pres,sub", "olcDbIndex: uid eq"]
    assert not [line for line in config if "syncprov" in line and line.startswith("olcOverlay")]


@pytest.mark.container
def test_a_container_of_a_killed_run_is_swept(client: docker.DockerClient) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    alive = ContainerServer(client, Settings(), owner=os.getpid())
    left = ContainerServer(client, Settings(), owner=ended.pid)
    try:
        sweep(client)
        names = {found.name for found in client.containers.list(all=True)}
        assert alive.container.name in names
        assert left.container.name not in names
    finally:
        alive.close()
        left.close()
