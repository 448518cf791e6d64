"""kill -9 of `ditseed add` at every point, and of either side at random moments; then the same command finishes it."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import ldap
import lmdb
import pytest

from fixtures.network import Proxy
from fixtures.slapd import Slapd
from fixtures.waiting import until
from tests.support import adding, killing
from tests.support.adding import SUFFIX, TOP, add, command, facts, names, names_in, people, person, unit, write
from tests.support.command import ditseed, start

pytestmark = pytest.mark.slapd

SMALL = ("--batch", "40", "--jobs", "2")
POINTS = (
    *("start.start", "start.unrecorded", "start.recorded", "scan.start", "scan.unrecorded"),
    *("scan.recorded", "load.start", "load.single", "load.sent", "load.committed"),
    *("load.middle", "load.unrecorded", "load.recorded"),
)


@pytest.fixture
def ldif(tmp_path: Path) -> Path:
    texts = [TOP, person("early", f"ou=u9,{SUFFIX}")]
    for number in range(10):
        texts += [unit(f"u{number}"), people(60, f"ou=u{number},{SUFFIX}", f"u{number}-")]
    return write(tmp_path / "x.ldif", *texts)


@pytest.fixture
def server() -> Iterator[Slapd]:
    with Slapd() as made:
        yield made


def _finished(server: Slapd, ldif: Path, *options: object) -> None:
    """The rerun ends with exactly the entries of the LDIF, and each of them is ours."""
    told = facts(server, ldif, *options)
    assert (told["added"], told["rejected"]) == (told["read"], 0), told
    assert names(server) == names_in(ldif.read_text())


def _revive(server: Slapd, at_once: bool = False) -> None:
    """slapd 2.5 and 2.6 may crash when a client goes in the middle of a transaction (docs/add.md). Unless `at_once`,
    once it is through with what its clients sent before they went."""

    def is_through() -> bool:
        with suppress(ldap.SERVER_DOWN):  # it has crashed, or will be found so
            where = "cn=Connections,cn=Monitor"
            clients = server.search("(objectClass=monitorConnection)", base=where, external=True)
            return len(clients) == 1  # this one
        return not server.running

    if not at_once:
        until(is_through)
    if not server.running:
        server.start()


@pytest.mark.parametrize(("point", "options"), [("load.committed", ()), ("load.single", ("--batch", 1))])
def test_referrals_of_a_killed_run_are_ours(
    server: Slapd, tmp_path: Path, point: str, options: tuple[object, ...]
) -> None:
    """Their `ref` is shown to those only who name it."""
    ldif = write(tmp_path / "x.ldif", *adding.OPERATIONAL, people(9))
    server.ldapadd(TOP)
    killing.killed(point, *command(server, ldif, *options))
    _revive(server)
    told = facts(server, ldif, *options)
    assert (told["added"], told["rejected"]) == (told["read"], 0), told


def test_killed_at_every_point_in_turn(server: Slapd, ldif: Path) -> None:
    for point in POINTS:
        killing.killed(point, *command(server, ldif, *SMALL))
        _revive(server)
    _finished(server, ldif, *SMALL)
    assert "load: done before" in add(server, ldif, *SMALL).ok().err


@pytest.mark.long
@pytest.mark.parametrize("batch", ["40", "1"])
def test_killed_at_random_moments(server: Slapd, ldif: Path, batch: str) -> None:
    chance = killing.chance()
    options = ("--batch", batch, "--max-rate", "400")
    for _ in range(4):
        killing.kill_after(chance.uniform(0.4, 1.6), *command(server, ldif, *options))
        _revive(server)
    _finished(server, ldif, *options)


@pytest.mark.long
@pytest.mark.parametrize("batch", ["40", "1"])
def test_slapd_killed_and_restarted(server: Slapd, ldif: Path, batch: str) -> None:
    """One run goes through it: the load waits until the server is there again."""
    options = ("--batch", batch, "--max-rate", "300")
    process = start(*command(server, ldif, *options))
    for count in (20, 300):
        _wait_for_entries(server, count)
        server.kill9()
        time.sleep(0.3)
        server.start()
    _, words = process.communicate()
    assert process.returncode == 0, words
    _finished(server, ldif, *options)


@pytest.mark.long
def test_both_killed(server: Slapd, ldif: Path) -> None:
    options = ("--batch", "40", "--max-rate", "300")
    process = start(*command(server, ldif, *options))
    _wait_for_entries(server, 50)
    server.kill9()
    process.kill()
    process.communicate()
    server.start()
    _finished(server, ldif, *options)


def _wait_for_entries(server: Slapd, count: int) -> None:
    def are_there() -> bool:
        with suppress(ldap.NO_SUCH_OBJECT):
            return len(names(server)) >= count
        return False

    until(are_there)


def _through(proxy: Proxy, server: Slapd, *words: object) -> tuple[object, ...]:
    return ("add", *words, "-H", proxy.uri, "-D", server.root_dn, "-y", server.password_file)


def test_connections_cut_at_random(server: Slapd, ldif: Path) -> None:
    """Before, in the middle of, and after what is sent and answered. The load goes on by itself."""
    chance = killing.chance()
    with Proxy(server.uri) as proxy:
        process = start(*_through(proxy, server, ldif, "--batch", "40", "--max-rate", "300"))
        _wait_for_entries(server, 20)
        while process.poll() is None:
            time.sleep(chance.uniform(0.02, 0.3))
            proxy.cut_some(chance)
            _revive(server, at_once=True)
        _, words = process.communicate()
        assert process.returncode == 0, words
    assert names(server) == names_in(ldif.read_text())


def test_the_last_connection_is_cut(server: Slapd, tmp_path: Path) -> None:
    """All entries are there by then, and what they are bound to is asked once more."""
    server.ldapadd(TOP)
    path = write(tmp_path / "first.ldif", person("first"))
    with Proxy(server.uri) as proxy:
        ditseed(*_through(proxy, server, path, "--jobs", "1")).ok()
    path = write(tmp_path / "second.ldif", person("second"))
    with Proxy(server.uri, reset=(proxy.connections,)) as again:
        ditseed(*_through(again, server, path, "--jobs", "1")).ok()
    assert again.connections == proxy.connections + 1


def test_responses_lost_again_and_again(server: Slapd, tmp_path: Path) -> None:
    """While another holds the writer lock, slapd keeps every add that came in, and makes the first of them later. To
    the last it says entryAlreadyExists, of an entry that this load has added."""
    server.ldapadd(TOP)
    mark = b"only in the request that adds it"
    path = write(tmp_path / "x.ldif", person("held", SUFFIX, ("description", mark.decode())))
    with Proxy(server.uri, record=True) as proxy:
        with lmdb.open(str(server.database_dir), max_dbs=1) as held, held.begin(write=True):
            process = start(*_through(proxy, server, path, "--jobs", "1", "--batch", "1"))
            for sent in range(1, 6):
                # Connections on which it was sent.
                until(lambda sent=sent: sum(mark in one for one in proxy.sent) == sent or process.poll() is not None)
                assert process.poll() is None, process.communicate()
                if sent < 5:
                    proxy.cut()
        _, words = process.communicate()
    assert process.returncode == 0, words
    assert names(server) == names_in(TOP + path.read_text())


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_a_signal(server: Slapd, tmp_path: Path, number: signal.Signals) -> None:
    """At whatever moment: no commit is broken off, slapd lives on, and the same command finishes it."""
    path = write(tmp_path / "x.ldif", TOP, people(6000))
    chance = random.Random(number)
    for _ in range(4):
        process = start(*command(server, path, "--batch", "500", "--jobs", "3", "--max-rate", "3000"))
        time.sleep(chance.uniform(0.7, 2.5))
        process.send_signal(number)
        _, words = process.communicate()
        # The interpreter itself ends by the signal while it begins.
        assert process.returncode in (0, 128 + number, -number), words
        assert "Traceback" not in words
        time.sleep(0.2)
        assert server.running, server.log_tail()
    _finished(server, path)
