"""The Ansible collection of fixtures/ansible/, run by a real ansible-core: one export, three consumers, in waves."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fixtures import ansible_core, replication
from fixtures.slapd import Slapd
from tests.support.command import COMMAND, environment
from tests.support.require import require
from tests.support.seeding import Pair, pair
from tests.support.services import Services

# A play has some thirty tasks for each consumer, and a new interpreter for each of them.
pytestmark = [pytest.mark.slapd, pytest.mark.timeout(1800), pytest.mark.long]

PEOPLE = 300
NAMES = ("first", "second", "third")
FAILED = 2  # ansible-playbook's exit status for hosts that failed
CHANGE = "dn: {}\nchangetype: modify\nreplace: description\ndescription: changed again\n"


@pytest.fixture(scope="session")
def ansible() -> Path:
    try:
        return ansible_core.commands()
    except ansible_core.NoAnsible as error:
        require(str(error))
        raise


@dataclass
class Play:
    """ansible-playbook with the collection and an inventory; how it ended, and what it printed."""

    status: int
    out: str

    @property
    def changed(self) -> set[str]:
        return set(re.findall(r"^(\w+) +: ok=.* changed=[1-9]", self.out, re.MULTILINE))

    @property
    def failure(self) -> str:
        return self.out.rpartition("TASK [")[2]


@dataclass
class Site:
    """A provider, three consumers of it that are stopped and empty, and the inventory of both."""

    both: Pair
    consumers: dict[str, Slapd]
    services: Services
    ansible: Path
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the operator's own Ansible."""
        kept = {name: value for name, value in environment().items() if not name.startswith("ANSIBLE_")}
        (self.home / "ansible.cfg").touch()
        own = {"ANSIBLE_HOME": str(self.home / "ansible"), "ANSIBLE_CONFIG": str(self.home / "ansible.cfg")}
        return {**kept, **own, "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}

    def run(self, name: str, *arguments: object) -> Play:
        command = [str(self.ansible / name), *map(str, arguments)]
        done = subprocess.run(command, env=self.environment, check=False, capture_output=True, text=True)
        return Play(done.returncode, done.stdout + done.stderr)

    def play(self, waves: list[object], **more: object) -> Play:
        inventory = self.home / "inventory.json"
        inventory.write_text(json.dumps(self._inventory(waves)))
        given = ("-vvvvv", "-i", inventory, "-e", json.dumps(more))
        return self.run("ansible-playbook", *given, "ditseed.replicas.seed_replicas")

    def _inventory(self, waves: list[object]) -> dict[str, Any]:
        provider = self.both.provider
        shared = {
            "ansible_connection": "local",
            "ansible_python_interpreter": str(self.ansible / "python"),
            "ditseed_command": str(COMMAND),
            "ditseed_provider_uri": provider.uri,
            "ditseed_bind_dn": "cn=replicator",
            "ditseed_suffix": provider.suffix,
            "ditseed_password": provider.replicator_password_file.read_text(),
            "ditseed_export_dir": str(self.home / "export"),
            "ditseed_waves": waves,
        }
        exporter = {"ditseed_password_file": str(self.home / "exporter.pw")}
        groups = {
            "ditseed_export": {"hosts": {"exporter": exporter}},
            "ditseed_consumers": {"hosts": {name: self._host(name) for name in NAMES}},
        }
        return {"all": {"vars": shared, "children": groups}}

    def _host(self, name: str) -> dict[str, object]:
        server = self.consumers[name]
        actions = ("running", "stop", "start")
        return {
            "ditseed_config": str(server.config_path),
            "ditseed_password_file": str(self.home / f"{name}.pw"),
            "ditseed_received_dir": str(self.home / f"{name}-export"),
            "ditseed_consumer_uri": server.uri,
            "ditseed_consumer_password_file": str(server.replicator_password_file),
            **{f"ditseed_slapd_{one}": self.services.command(name, one) for one in actions},
        }

    def equal(self, name: str) -> bool:
        """By what both slapd say, contextCSN included."""
        return content(self.consumers[name]) == content(self.both.provider)


def content(server: Slapd) -> dict[str, dict[str, list[bytes]]]:
    return {dn: {name: sorted(values) for name, values in attributes.items()} for dn, attributes in server.search()}


@pytest.fixture
def site(tmp_path: Path, ansible: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        both = stack.enter_context(pair(tmp_path, PEOPLE))
        more = [stack.enter_context(closing(replication.consumer(both.provider))) for _ in "23"]
        consumers = dict(zip(NAMES, (both.consumer, *more), strict=True))
        # Outside of tmp_path, whose name may be too long for a socket.
        services = stack.enter_context(Services(both.consumer.home / "services", consumers))
        made = Site(both, consumers, services, ansible, tmp_path)
        # As docs/ansible.md has it.
        words = ("collection", "install", "--offline", "-p", tmp_path / "ansible/collections", ansible_core.COLLECTION)
        done = made.run("ansible-galaxy", *words)
        assert done.status == 0, done.out
        yield made


def test_three_consumers_at_once(site: Site) -> None:
    """The export is sent to each. Once all is done, the same command changes nothing. A consumer that differs fails its
    wave: it is started again, not seeded again."""
    played = site.play([3])
    assert played.status == 0, played.out
    assert all(site.equal(name) for name in NAMES)
    assert played.changed == {"exporter", *NAMES}
    started = [f"{name} start" for name in NAMES]
    assert sorted(site.services.done) == sorted(started)
    for name in ("exporter", *NAMES):
        assert (site.home / f"{name}.pw").stat().st_mode & 0o777 == 0o600
    provider = site.both.provider
    assert provider.replicator_password_file.read_text() not in played.out
    provider.ldapmodify(CHANGE.format(provider.suffix))
    again = site.play([3])
    assert (again.status, again.changed) == (0, set()), again.out
    assert all(site.equal(name) for name in NAMES)
    assert sorted(site.services.done) == sorted(started)

    third = site.consumers["third"]
    subprocess.run(site.services.command("third", "stop"), check=True)
    where = (*third.config_arguments, "-b", third.suffix)
    third.tool("slapmodify", *where, stdin=CHANGE.format(third.suffix).replace("again", "here").encode())
    played = site.play([1, 2])
    assert played.status == FAILED, played.out
    assert "NOT equal" in played.failure
    assert (third.running, played.changed) == (True, {"third"})


def test_a_wave_that_fails_is_the_last_one(site: Site) -> None:
    """The others of that wave are finished. The same command goes on, and replaces what slapd was serving."""
    _, second, third = (site.consumers[name] for name in NAMES)
    away = second.config_path.rename(second.home / "not mounted")
    shared = {"ditseed_export_shared": True, "ditseed_received_dir": str(site.home / "export"), "ditseed_replace": True}
    subprocess.run(site.services.command("first", "start"), check=True)
    failed = site.play([2, 1], **shared)
    assert failed.status == FAILED, failed.out
    assert "[storage.no_such_path] hint: " in failed.failure, failed.out
    assert site.equal("first")
    assert not second.running
    assert not third.running
    assert not list(third.database_dir.iterdir())
    assert failed.changed == {"exporter", "first", "second"}

    away.rename(second.config_path)
    done = site.play([2, 1], **shared)
    assert done.status == 0, done.out
    assert all(site.equal(name) for name in NAMES)
    assert done.changed == {"second", "third"}
    assert site.services.done[1:] == [*("first stop", "first start"), *("second start", "third start")]
