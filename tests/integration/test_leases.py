"""Settings that are lent: nosync for a load, envflags and checkpoint for a time, updatedn for a seeding.

They are given back whatever becomes of the run. What a killed one has left is known by every URI of that server, told
by every verb, and put back by the next start.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.replication import provider as made_provider
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.waiting import until
from loader import errors
from tests.support import leases
from tests.support.adding import ADMIN, SUFFIX, TOP, add, names, people, person, write
from tests.support.command import COMMAND, Done, ditseed, environment, start
from tests.support.killing import killed
from tests.support.leases import recorded_leases

pytestmark = [pytest.mark.slapd, pytest.mark.usefixtures("state")]

DATABASE = "olcDatabase={3}mdb,cn=config"
NOSYNC = f"dn: {DATABASE}\nchangetype: modify\nreplace: olcDbNoSync\nolcDbNoSync: TRUE\n"
LENT = [("nosync", "on", "off"), ("envflags", "nometasync", "none"), ("checkpoint", "64 5", "128 9")]


@pytest.fixture
def server() -> Iterator[Slapd]:
    """Its root DN manages cn=config too, by every URI."""
    with Slapd(Settings(database_lines=("checkpoint 128 9",))) as running:
        running.configure(ADMIN)
        yield running


def _ways(server: Slapd) -> dict[str, tuple[str, ...]]:
    password = ("-D", server.root_dn, "-y", str(server.password_file))
    return {
        "ldap": ("-H", server.uri, *password),
        "ldapi": ("-H", server.ldapi_uri, "-Y", "EXTERNAL"),
        "ldapi, by password": ("-H", server.ldapi_uri, *password),
        "ldapi, spelt otherwise": ("-H", server.ldapi_uri.replace("%2F", "%2f"), "-Y", "EXTERNAL"),
        "localhost": ("-H", server.uri.replace("127.0.0.1", "localhost"), *password),
    }


def _adding(server: Slapd, ldif: Path, *more: object, way: str = "ldapi") -> tuple[object, ...]:
    return ("add", ldif, *_ways(server)[way], "-b", SUFFIX, *more)


def _tune(server: Slapd, *words: str) -> Done:
    return ditseed("tune", "sync", *_ways(server)["ldapi"], "-b", SUFFIX, *words)


def _anything() -> Done:
    """A verb that has nothing to do with any server."""
    return ditseed("generate", "people", "-n", "3").ok()


def _settings(server: Slapd) -> set[str]:
    found = server.search(base=DATABASE, scope=0, external=True)[0][1]
    return {name for name in ("olcDbNoSync", "olcUpdateDN") if found.get(name, [b"FALSE"]) != [b"FALSE"]}


def _is_put_back(server: Slapd) -> bool:
    return (_settings(server), recorded_leases()) == (set(), [])


def _killed(server: Slapd, tmp_path: Path, way: str = "ldapi", point: str = "nosync.taken") -> None:
    killed(point, *_adding(server, write(tmp_path / "x.ldif", TOP, people(5)), "--nosync", way=way))
    assert _settings(server) == ({"olcDbNoSync"} if point == "nosync.taken" else set())
    assert len(recorded_leases()) == 1


# --- nosync of a load -------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, errors.AddRefused])
def test_given_back_at_the_end(server: Slapd, tmp_path: Path, error: type[errors.LoaderError] | None) -> None:
    path = write(tmp_path / "x.ldif", TOP, people(50), person("bad", sn=None) if error else "")
    done = ditseed(*_adding(server, path, "--nosync"))
    assert done.status == (error.exit_status if error else 0), done
    assert server.log_lines("MOD attr=olcDbNoSync")
    assert _is_put_back(server)


def test_a_server_that_has_it_on_keeps_it(server: Slapd, tmp_path: Path) -> None:
    server.configure(NOSYNC)
    done = ditseed(*_adding(server, write(tmp_path / "x.ldif", TOP), "--nosync")).ok()
    assert "has nosync on already" in done.err
    assert _settings(server) == {"olcDbNoSync"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("gone", [False, True], ids=["given back", "the server is gone for good"])
def test_a_signal(server: Slapd, tmp_path: Path, gone: bool, number: signal.Signals) -> None:
    """If the server is gone, the lease stands; once it is back, the next start gives it back."""
    path = write(tmp_path / "slow.ldif", TOP, people(2000))
    process = start(*_adding(server, path, "--nosync", "--max-rate", 100))
    until(lambda: _settings(server) == {"olcDbNoSync"})
    assert len(recorded_leases()) == 1
    if gone:
        server.kill9()
    process.send_signal(number)
    _, words = process.communicate()
    assert process.returncode == 128 + number, words
    if gone:
        assert len(recorded_leases()) == 1
        server.start()
        assert _settings(server) == {"olcDbNoSync"}
        ditseed(*_adding(server, path)).ok()
        assert len(names(server)) == 2001
    assert _is_put_back(server)


def test_not_without_the_right_to(slapd_instance: Slapd, tmp_path: Path) -> None:
    """The root DN of the database may not read cn=config: nothing is begun."""
    add(slapd_instance, write(tmp_path / "x.ldif", TOP), "--nosync").refused(errors.ConfigHidden)
    assert not slapd_instance.log_lines(" ADD dn=")


@pytest.mark.parametrize(
    ("point", "taken", "way"),
    [
        *(("nosync.written-down", "ldapi", "ldapi"), ("nosync.given-back", "ldapi", "ldapi")),
        *(("nosync.taken", "ldapi", way) for way in ("ldapi", "ldap", "ldapi, by password", "ldapi, spelt otherwise")),
        ("nosync.taken", "localhost", "ldapi"),
    ],
)
def test_given_back_by_the_next_load_by_whatever_uri(
    server: Slapd, tmp_path: Path, point: str, taken: str, way: str
) -> None:
    """Whichever load that is; the lease is a file for the owner's eyes."""
    _killed(server, tmp_path, taken, point)
    assert (tmp_path / "leases.log").stat().st_mode & 0o777 == 0o600
    server.ldapadd(TOP) if point != "nosync.given-back" else None
    done = ditseed(*_adding(server, write(tmp_path / "y.ldif", person("y")), way=way)).ok()
    assert "nosync of dc=example,dc=com was left set by a run of" in done.err
    assert _is_put_back(server)
    assert not server.search("(cn=ditseed-sync)", ("1.1",))


def test_every_verb_tells_what_to_type(server: Slapd, tmp_path: Path) -> None:
    """Those that may not change cn=config, or ask no server at all; and what is told does it.

    Taken over the network, so that no account is known by which another verb could put it back.
    """
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_bytes(server.password_file.read_bytes())
    path = write(tmp_path / "x.ldif", TOP, people(5))
    who = ("-H", server.uri, "-D", server.root_dn, "-y", secret)
    killed("nosync.taken", "add", path, *who, "-b", SUFFIX, "--nosync")
    server.ldapadd(write(tmp_path / "top.ldif", TOP))
    verbs: dict[str, tuple[object, ...]] = {
        "that server": ("export", "-H", server.uri, "-b", SUFFIX, "-o", tmp_path / "out"),
        "its database": ("verify", server.database_dir),
        "another matter": ("generate", "people", "-n", "3"),
    }
    for name, command in verbs.items():
        done = ditseed(*command)
        assert "was left changed by a run of" in done.err, name
        assert "ditseed tune sync -H" in done.err, name
    typed = done.err.splitlines()[-1].replace("ditseed", str(COMMAND), 1)
    assert "was left" not in ditseed("-q", *command).ok().err
    other = {"DITSEED_STATE_DIR": str(tmp_path / "of another host")}
    assert "was left" not in ditseed(*command, env=other).ok().err
    subprocess.run(typed, shell=True, check=True, env=environment(), stdout=subprocess.DEVNULL)
    assert _settings(server) == set()
    assert "was left" not in ditseed(*command).ok().err


def test_the_next_start_of_anything_puts_it_back(server: Slapd, tmp_path: Path) -> None:
    _killed(server, tmp_path)
    _anything()
    assert _is_put_back(server)


def test_a_stopped_server_is_known_by_its_configuration(server: Slapd, tmp_path: Path) -> None:
    _killed(server, tmp_path)
    server.stop()
    tune = ("tune", "sync", "--config", server.config_path, "-b", SUFFIX)
    assert "which was killed or has ended" in ditseed(*tune).ok().out
    done = ditseed(*tune, "--nosync", "off", "--apply").ok()
    assert "was left" not in done.err
    server.start()
    assert _is_put_back(server)


def test_another_server_keeps_its_own(server: Slapd, tmp_path: Path) -> None:
    """The same suffix, and nosync is what its operator wants. Two runs by two URIs share one lease."""
    _killed(server, tmp_path, "ldap", "nosync.written-down")
    _killed(server, tmp_path, "localhost")
    with Slapd() as other:
        other.configure(NOSYNC)
        done = ditseed(*_adding(other, write(tmp_path / "y.ldif", TOP, person("y")))).ok()
        assert "was left changed by a run of" in done.err  # a notice
        assert _settings(other) == {"olcDbNoSync"}
    assert _settings(server) == {"olcDbNoSync"}
    assert len(recorded_leases()) == 1


def test_the_update_dn_of_a_seeding(server: Slapd, tmp_path: Path) -> None:
    source = made_provider()
    source.slapadd(TOP + "\n" + person("one"))
    seed = ("replica", "seed", "--strategy", "online", "-H", source.uri, "--allow-hidden")
    bind = ("-D", "cn=replicator", "-y", source.replicator_password_file, "-b", SUFFIX)
    _, uri, _, who, _, password = _ways(server)["ldap"][:6]
    there = ("--consumer", uri, "--consumer-bind-dn", who, "--consumer-password-file", password)
    with source:
        killed("updatedn.taken", *seed, *bind, *there)
        assert _settings(server) == {"olcUpdateDN"}
        (lease,) = recorded_leases()
        assert lease.undo.endswith("| ldapmodify -Q -Y EXTERNAL -H ldapi:///")  # no other way to be root
        # slapd writes for nobody else until it is restarted ("shadow context"): so the load itself is refused.
        done = ditseed(*_adding(server, write(tmp_path / "y.ldif", TOP), way="ldap"))
    assert "olcUpdateDN of dc=example,dc=com was left set by a run of" in done.err
    assert _is_put_back(server)


def test_what_is_left_at_a_server_that_is_gone_can_be_forgotten(server: Slapd, tmp_path: Path) -> None:
    _killed(server, tmp_path)
    uri = _ways(server)["ldapi"][1]
    server.stop()
    assert f"ditseed replica release -H {uri} --forget" in _anything().err
    other = ditseed("replica", "release", "-H", "ldap://elsewhere", "--forget").ok()
    assert "no settings of ldap://elsewhere" in other.out
    assert recorded_leases()
    done = ditseed("replica", "release", "-H", uri, "--forget", "--json").ok()
    assert done.facts["forgotten"] == [f"nosync of {SUFFIX}: forgotten, not restored"]
    assert not recorded_leases()
    assert "was left" not in _anything().err


# --- envflags and checkpoint ------------------------------------------------------------------------


def _now(server: Slapd, kind: str) -> str:
    found = _tune(server, "--json").ok().facts["databases"][0]
    nosync = "on" if found["nosync"] else "off"
    shown = {"nosync": nosync, "checkpoint": found["checkpoint"], "envflags": ",".join(sorted(found["env_flags"]))}
    return shown[kind] or "none"


@pytest.mark.parametrize(("kind", "value", "before"), LENT)
def test_lent_until_it_has_ended(tmp_path: Path, kind: str, value: str, before: str) -> None:
    """The value of before is that of the first lease. What puts it back is --give-back, the next start of anything, or
    the command that is told; also at a consumer, or in a database that is read-only. nosync, and flags that defer,
    leave what is not yet on the disk: ditseed flushes the file of a server on this host from outside."""
    lend = (f"--{kind}", value, "--why", "load of March", "--apply", "--lease")
    give_back = ("tune", "sync", "--give-back")
    server = Slapd(Settings(database_lines=("checkpoint 128 9", "readonly on")))
    server.slapadd(TOP)
    with server:
        for _ in "twice":
            _tune(server, *lend, "4h").ok()
        (lent,) = recorded_leases()
        shown = _tune(server).ok().out
        assert f"{kind} is leased since" in shown
        assert f"until {lent.expires} or the next boot" in shown
        assert "for load of March" in shown
        assert f"before: {before}" in shown
        assert "no expired or abandoned lease of" in ditseed(*give_back).ok().out
        assert _now(server, kind) == value
        if kind == "nosync":
            assert "checkpoint 128 9, lent for load of March" in ditseed("doctor", "--config", server.config_path).out
        leases.write(tmp_path, lent, boot="of the day before")
        assert "which was killed or has ended" in _tune(server).ok().out
        assert ": restored" in ditseed(*give_back).ok().out
        assert (_now(server, kind), recorded_leases()) == (before, [])

        _tune(server, *lend, "0").ok()
        assert "was left set by a run of" in _anything().err
        assert (_now(server, kind), recorded_leases()) == (before, [])

        _tune(server, *lend, "0").ok()
        _tune(server, f"--{kind}", before, "--apply").ok()
        assert (_now(server, kind), recorded_leases()) == (before, [])


def test_what_is_so_already_is_not_lent(server: Slapd) -> None:
    done = _tune(server, "--checkpoint", "128 9", "--lease", "4h", "--apply")
    assert (done.status, "128 9 already" in done.err) == (3, True)


@pytest.mark.long
def test_each_lease_is_of_its_own_setting(server: Slapd, tmp_path: Path) -> None:
    """nosync, given back, leaves flags that are lent; flags, given back, leave nosync."""
    _tune(server, "--envflags", "nometasync", "--lease", "4h", "--apply").ok()
    ditseed(*_adding(server, write(tmp_path / "x.ldif", TOP), "--nosync")).ok()
    assert _now(server, "envflags") == "nometasync"
    _tune(server, "--nosync", "on", "--lease", "4h", "--apply").ok()
    _tune(server, "--envflags", "none", "--apply").ok()
    assert (_now(server, "nosync"), _now(server, "envflags")) == ("on", "nosync")


def test_flags_of_a_running_server_are_changed(server: Slapd) -> None:
    """writemap and nordahead have slapd open the database anew; it answers afterwards, and has what was written."""
    server.ldapadd(TOP)
    for flags in ("nordahead,writemap", "none"):
        _tune(server, "--envflags", flags, "--apply").ok()
        assert _now(server, "envflags") == flags
        assert len(server.search(base=SUFFIX, scope=0)) == 1


def test_of_files() -> None:
    """nosync stays, in whichever place it stands."""
    server = Slapd(Settings(database_lines=("envflags nosync nometasync", "checkpoint 128 9")))
    tune = ("tune", "sync", "--config", server.config_path)
    ditseed(*tune, "--envflags", "writemap", "--apply").ok()
    ditseed(*tune, "--checkpoint", "none", "--apply").ok()
    said = ditseed(*tune, "--json").ok().facts["databases"][0]
    assert (said["nosync"], sorted(said["env_flags"]), said["checkpoint"]) == (True, ["nosync", "writemap"], None)
    refused = ditseed(*tune, "--envflags", "none", "--lease", "1h", "--apply")
    assert (refused.status, "running server" in refused.err) == (3, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--envflags", "nosync"), "nosync: the flags are mapasync"),
        (("--envflags", "fast"), "fast: the flags are"),
        (("--checkpoint", "5"), "neither 'KBYTES MINUTES'"),
        (("--checkpoint", "5 -1"), "neither 'KBYTES MINUTES'"),
        (("--checkpoint", "5 5", "--nosync", "on"), "give only one of"),
        (("--nosync", "on", "--why", "x"), "--why is for --lease"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], said: str) -> None:
    done = ditseed("tune", "sync", "-H", "ldapi:///", "-Y", "EXTERNAL", *words, "--apply")
    assert (done.status, said in done.err) == (3, True), done.err
