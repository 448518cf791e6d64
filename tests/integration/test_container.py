"""A test server that is not of this host: OpenLDAP in a container."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker
import ldap
import pytest

from fixtures.container_server import ContainerServer, container_server, sweep
from fixtures.engine import engine, missing_engine
from fixtures.slapd import ServerError
from fixtures.slapd_config import REPLICATOR, Settings
from fixtures.waiting import until
from tests.support.backups import ONE_ENTRY
from tests.support.command import ditseed
from tests.support.require import require
from tests.support.trees import differences, tree

# The first container of a machine comes with making its image: debootstrap, and apt-get in it.
pytestmark = [pytest.mark.container, pytest.mark.long]


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    require(missing_engine())
    with engine() as found:
        yield found


@pytest.fixture
def container(client: docker.DockerClient) -> Iterator[ContainerServer]:
    with container_server(client) as made:
        yield made


def test_holds_what_was_added(container: ContainerServer, people_ldif: Path, tmp_path: Path) -> None:
    """The replicator's export holds all that the root DN sees, passwords too, and nothing is lost by kill -9. slapd is
    not root, and no password is shown."""
    container.ldapadd(people_ldif)
    found = dict(container.search())
    assert {line[4:] for line in people_ldif.read_text().splitlines() if line.startswith("dn: ")} <= found.keys()
    for attributes in found.values():
        assert {"entryUUID", "entryCSN", "structuralObjectClass"} <= attributes.keys()
    handle = ldap.initialize(container.uri)
    with pytest.raises(ldap.INVALID_CREDENTIALS):
        handle.simple_bind_s(container.root_dn, "not the password")
    handle.unbind_s()
    export, replicator = tmp_path / "export", ("-D", REPLICATOR, "-y", container.replicator_password_file)
    where = ("-b", container.suffix)
    done = ditseed("export", "-H", container.uri, *replicator, *where, "-o", export, "--json").ok()
    assert done.facts["entries"] == len(found)
    for who in (replicator, ("-D", container.root_dn, "-y", container.password_file)):
        ditseed("compare", container.uri, export, *who, *where).ok()
    container.container.reload()
    status = Path(f"/proc/{container.container.attrs['State']['Pid']}/status").read_text()
    assert "0" not in next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
    shown = json.dumps(container.container.attrs) + container.tool("slapcat", "-n0").decode()
    for file in (container.password_file, container.replicator_password_file):
        assert file.read_text() not in shown
        assert file.stat().st_mode & 0o777 == 0o600
    before = tree(container.slapcat())
    container.kill9()
    container.start()
    assert not list(differences(before, tree(container.slapcat())))
    container.restart()
    assert not list(differences(before, tree(container.slapcat())))


def test_a_consumer_follows_its_provider(client: docker.DockerClient, container: ContainerServer) -> None:
    """The pair of compose.yaml: entries of before and after the consumer's start arrive."""

    def assert_follows() -> None:
        until(lambda: container.context_csns() == consumer.context_csns(), consumer.log_tail)
        assert not list(differences(tree(container.slapcat()), tree(consumer.slapcat())))

    container.ldapadd(ONE_ENTRY)
    with container_server(client, Settings(), provider=container) as consumer:
        assert_follows()
        with container.connection() as handle:
            handle.modify_s(container.suffix, [(ldap.MOD_REPLACE, "description", b"after the start")])
        assert_follows()
        assert len(consumer.search("(description=after the start)")) == 1
        with consumer.connection() as handle, pytest.raises(ldap.REFERRAL):
            handle.delete_s(container.suffix)


def test_says_which_password_file_is_missing(client: docker.DockerClient) -> None:
    with closing(ContainerServer(client, Settings(server_id=1))) as server:
        server.password_file.unlink()
        with pytest.raises(ServerError, match="no password file /run/secrets/root-password"):
            server.start()


def test_settings_become_the_configuration(client: docker.DockerClient) -> None:
    settings = Settings(suffix="o=acme", maxsize=64 << 20, indexes=("uid eq", "cn pres,sub"))
    with container_server(client, settings) as server:
        config = server.tool("slapcat", "-n0", "-o", "ldif-wrap=no").decode().splitlines()
    assert {"olcSuffix: o=acme", "olcDbMaxSize: 67108864"} <= set(config)
    indexes = [line for line in config if line.startswith("olcDbIndex:")]
    assert sorted(indexes) == ["olcDbIndex: cn pres,sub", "olcDbIndex: uid eq"]
    assert not [line for line in config if "syncprov" in line and line.startswith("olcOverlay")]


def test_a_container_of_a_killed_run_is_swept(client: docker.DockerClient) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with (
        closing(ContainerServer(client, Settings(), owner=os.getpid())) as alive,
        closing(ContainerServer(client, Settings(), owner=ended.pid)) as left,
    ):
        sweep(client)
        names = {found.name for found in client.containers.list(all=True)}
        assert alive.container.name in names
        assert left.container.name not in names
