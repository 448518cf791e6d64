"""What a killed run has left loosened on a server is known by every URI of that server, and told by every verb."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from fixtures.replication import provider as made_provider
from fixtures.slapd import Slapd
from fixtures.waiting import until
from loader.run.lease import Lease
from tests.support import leases
from tests.support.adding import SUFFIX, TOP, people, person, write
from tests.support.command import COMMAND, Done, ditseed, environment, start
from tests.support.leases import standing

pytestmark = pytest.mark.slapd

DATABASE = "olcDatabase={3}mdb,cn=config"
ADMIN = f"""dn: olcDatabase={{0}}config,cn=config
changetype: modify
add: olcAccess
olcAccess: {{0}}to * by dn.exact="cn=admin,{SUFFIX}" manage by * break
"""


@pytest.fixture
def server(slapd_instance: Slapd) -> Slapd:
    """Its root DN manages cn=config too, by every URI."""
    slapd_instance.configure(ADMIN)
    return slapd_instance


def _ways(server: Slapd) -> dict[str, tuple[str, ...]]:
    password = ("-D", server.root_dn, "-y", str(server.password_file))
    return {
        "ldap": ("-H", server.uri, *password),
        "ldapi": ("-H", server.ldapi_uri, "-Y", "EXTERNAL"),
        "ldapi, by password": ("-H", server.ldapi_uri, *password),
        "ldapi, spelt otherwise": ("-H", server.ldapi_uri.replace("%2F", "%2f"), "-Y", "EXTERNAL"),
        "localhost": ("-H", server.uri.replace("127.0.0.1", "localhost"), *password),
    }


def _run(state: Path, *command: object, kill_at: str = "") -> Done:
    more = {"DITSEED_KILL_AT": kill_at} if kill_at else {}
    return ditseed(*command, env={"DITSEED_STATE_DIR": str(state), **more})


def _settings(server: Slapd) -> set[str]:
    found = server.search(base=DATABASE, scope=0, external=True)[0][1]
    return {name for name in ("olcDbNoSync", "olcUpdateDN") if found.get(name, [b"FALSE"]) != [b"FALSE"]}


def _killed(server: Slapd, state: Path, tmp_path: Path, way: str = "ldapi") -> None:
    path = write(tmp_path / "x.ldif", TOP, people(5))
    command = ("add", path, *_ways(server)[way], "-b", SUFFIX, "--nosync")
    assert _run(state, *command, kill_at="nosync.taken").status == -signal.SIGKILL
    assert _settings(server) == {"olcDbNoSync"}
    assert len(standing(state)) == 1


@pytest.mark.parametrize("way", ["ldap", "ldapi, by password", "ldapi, spelt otherwise", "localhost"])
def test_nosync_is_given_back_by_whatever_uri(server: Slapd, tmp_path: Path, way: str) -> None:
    _killed(server, tmp_path, tmp_path)
    path = write(tmp_path / "y.ldif", TOP)
    done = _run(tmp_path, "add", path, *_ways(server)[way], "-b", SUFFIX).ok()
    assert "nosync of dc=example,dc=com was left set by a run of" in done.err
    assert _settings(server) == set()
    assert standing(tmp_path) == []


def test_from_a_network_uri_to_the_socket(server: Slapd, tmp_path: Path) -> None:
    _killed(server, tmp_path, tmp_path, "localhost")
    where = (*_ways(server)["ldapi"], "-b", SUFFIX)
    shown = _run(tmp_path, "tune", "sync", *where).ok()
    assert "for ditseed add, which was killed or has ended" in shown.out
    _run(tmp_path, "tune", "sync", *where, "--nosync", "off", "--apply").ok()
    assert _settings(server) == set()
    assert standing(tmp_path) == []


def test_two_at_once_by_two_uris_share_one_lease(server: Slapd, tmp_path: Path) -> None:
    """Killed before it was taken, and killed again by another URI: one file tells of it."""
    path = write(tmp_path / "x.ldif", TOP, people(5))
    for way in ("ldapi", "ldap"):
        command = ("add", path, *_ways(server)[way], "-b", SUFFIX, "--nosync")
        killed = _run(tmp_path, *command, kill_at="nosync.written-down")
        assert killed.status == -signal.SIGKILL, killed
    assert len(standing(tmp_path)) == 1


def test_every_verb_tells_what_to_type(server: Slapd, tmp_path: Path) -> None:
    """Those that may not change cn=config, or ask no server at all; and what is told does it.

    Taken over the network, so that no account is known by which another verb could put it back.
    """
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_bytes(server.password_file.read_bytes())
    path = write(tmp_path / "x.ldif", TOP, people(5))
    command = ("add", path, "-H", server.uri, "-D", server.root_dn, "-y", secret, "-b", SUFFIX)
    killed = _run(tmp_path, *command, "--nosync", kill_at="nosync.taken")
    assert killed.status == -signal.SIGKILL
    server.ldapadd(write(tmp_path / "top.ldif", TOP))
    verbs: dict[str, tuple[object, ...]] = {
        "that server": ("export", "-H", server.uri, "-b", SUFFIX, "-o", tmp_path / "out"),
        "its database": ("verify", server.database_dir),
        "another matter": ("generate", "people", "-n", "3"),
    }
    for name, command in verbs.items():
        done = _run(tmp_path, *command)
        assert "was left by a run of" in done.err, name
        assert "ditseed tune sync -H" in done.err, name
    undo = done.err.splitlines()[-1]
    assert "was left" not in _run(tmp_path, "-q", *command).ok().err
    assert "was left" not in _run(tmp_path / "of another host", *command).ok().err
    typed = undo.replace("ditseed", str(COMMAND), 1)
    env = environment({"DITSEED_STATE_DIR": str(tmp_path)})
    subprocess.run(typed, shell=True, check=True, env=env, stdout=subprocess.DEVNULL)
    assert _settings(server) == set()
    assert "was left" not in _run(tmp_path, *command).ok().err


def test_the_next_start_of_anything_puts_it_back(server: Slapd, tmp_path: Path) -> None:
    """A verb that has nothing to do with that server, once the holder was killed."""
    _killed(server, tmp_path, tmp_path)
    _run(tmp_path, "generate", "people", "-n", "3").ok()
    assert _settings(server) == set()
    assert standing(tmp_path) == []


def _lent(server: Slapd, state: Path, span: str) -> Lease:
    words = ("-b", SUFFIX, "--nosync", "on", "--lease", span, "--apply")
    _run(state, "tune", "sync", *_ways(server)["ldapi"], *words).ok()
    (lease,) = standing(state)
    return lease


def test_a_lease_lasts_until_its_end_or_the_next_boot(server: Slapd, tmp_path: Path) -> None:
    lease = _lent(server, tmp_path, "4h")
    where = ("tune", "sync", *_ways(server)["ldapi"], "-b", SUFFIX)
    assert f"until {lease.expires} or the next boot" in _run(tmp_path, *where).ok().out
    assert "no lease of" in _run(tmp_path, "tune", "sync", "--give-back").ok().out
    assert _settings(server) == {"olcDbNoSync"}
    leases.write(tmp_path, lease, boot="of the day before")
    assert "put back" in _run(tmp_path, "tune", "sync", "--give-back").ok().out
    assert (_settings(server), standing(tmp_path)) == (set(), [])


def test_a_lease_that_has_ended_is_put_back(server: Slapd, tmp_path: Path) -> None:
    _lent(server, tmp_path, "0")
    _run(tmp_path, "generate", "people", "-n", "3").ok()
    assert (_settings(server), standing(tmp_path)) == (set(), [])


def test_the_last_of_two_holders_gives_it_back(server: Slapd, tmp_path: Path) -> None:
    """The first one ends while the second loads."""
    slow = write(tmp_path / "slow.ldif", TOP, people(2000))
    quick = write(tmp_path / "quick.ldif", person("quick"))
    to = (*_ways(server)["ldapi"], "-b", SUFFIX, "--nosync")
    state = {"DITSEED_STATE_DIR": str(tmp_path)}
    process = start("add", slow, *to, "--max-rate", "500", env=state)
    until(lambda: _settings(server) == {"olcDbNoSync"} and server.log_lines(" ADD dn="))
    process.send_signal(signal.SIGSTOP)
    _run(tmp_path, "add", quick, *to).ok()
    assert _settings(server) == {"olcDbNoSync"}
    process.send_signal(signal.SIGCONT)
    process.communicate()
    assert (process.returncode, _settings(server), standing(tmp_path)) == (0, set(), [])


def test_a_load_within_a_lease_leaves_it(server: Slapd, tmp_path: Path) -> None:
    _lent(server, tmp_path, "4h")
    path = write(tmp_path / "x.ldif", TOP)
    _run(tmp_path, "add", path, *_ways(server)["ldapi"], "-b", SUFFIX, "--nosync").ok()
    assert (_settings(server), len(standing(tmp_path))) == ({"olcDbNoSync"}, 1)


def test_a_stopped_server_is_known_by_its_configuration(server: Slapd, tmp_path: Path) -> None:
    _killed(server, tmp_path, tmp_path)
    server.stop()
    where = ("--config", server.config_path, "-b", SUFFIX)
    assert "which was killed or has ended" in _run(tmp_path, "tune", "sync", *where).ok().out
    done = _run(tmp_path, "tune", "sync", *where, "--nosync", "off", "--apply").ok()
    assert "was left" not in done.err
    assert standing(tmp_path) == []
    server.start()
    assert _settings(server) == set()


def test_another_server_keeps_its_own(server: Slapd, tmp_path: Path) -> None:
    """The same suffix, and nosync is what its operator wants."""
    _killed(server, tmp_path, tmp_path, "localhost")
    with Slapd() as other:
        change = f"dn: {DATABASE}\nchangetype: modify\nreplace: olcDbNoSync\nolcDbNoSync: TRUE\n"
        other.configure(change)
        path = write(tmp_path / "y.ldif", TOP, person("y"))
        done = _run(tmp_path, "add", path, *_ways(other)["ldapi"], "-b", SUFFIX).ok()
        assert "was left by a run of" in done.err  # a notice
        assert _settings(other) == {"olcDbNoSync"}
    assert _settings(server) == {"olcDbNoSync"}
    assert len(standing(tmp_path)) == 1


def test_the_update_dn_of_a_seeding(server: Slapd, tmp_path: Path) -> None:
    source = made_provider()
    source.slapadd(TOP + "\n" + person("one"))
    seed = ("replica", "seed", "--strategy", "online", "-H", source.uri, "--allow-hidden")
    bind = ("-D", "cn=replicator", "-y", source.replicator_password_file, "-b", SUFFIX)
    _, uri, _, who, _, password = _ways(server)["ldap"][:6]
    there = ("--consumer", uri, "--consumer-bind-dn", who, "--consumer-password-file", password)
    with source:
        killed = _run(tmp_path, *seed, *bind, *there, kill_at="updatedn.taken")
        assert killed.status == -signal.SIGKILL, killed
        assert _settings(server) == {"olcUpdateDN"}
        (lease,) = standing(tmp_path)
        assert lease.undo.endswith("| ldapmodify -Q -Y EXTERNAL -H ldapi:///")  # no other way to be root
        path = write(tmp_path / "y.ldif", TOP)
        # slapd writes for nobody else until it is restarted ("shadow context"): so the load itself is refused.
        done = _run(tmp_path, "add", path, *_ways(server)["ldap"], "-b", SUFFIX)
    assert "olcUpdateDN of dc=example,dc=com was left set by a run of" in done.err
    assert _settings(server) == set()
    assert standing(tmp_path) == []


def test_what_is_left_at_a_server_that_is_gone_can_be_forgotten(server: Slapd, tmp_path: Path) -> None:
    _killed(server, tmp_path, tmp_path)
    uri = _ways(server)["ldapi"][1]
    server.stop()
    said = _run(tmp_path, "generate", "people", "-n", "3").ok().err
    assert f"ditseed replica release -H {uri} --forget" in said
    other = _run(tmp_path, "replica", "release", "-H", "ldap://elsewhere", "--forget").ok()
    assert "nothing stands of ldap://elsewhere" in other.out
    assert standing(tmp_path)
    done = _run(tmp_path, "replica", "release", "-H", uri, "--forget", "--json").ok()
    assert done.facts["forgotten"] == [f"nosync of {SUFFIX}: forgotten, not put back"]
    assert not standing(tmp_path)
    assert "was left" not in _run(tmp_path, "generate", "people", "-n", "3").ok().err
