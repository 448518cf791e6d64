"""`ditseed add --nosync`: lent for the load, and given back whatever becomes of it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.waiting import until
from loader import errors
from tests.support.adding import SUFFIX, TOP, add, names, people, person, write
from tests.support.command import Done, ditseed, start
from tests.support.leases import standing

pytestmark = pytest.mark.slapd

DATABASE = "olcDatabase={3}mdb,cn=config"


def _external(server: Slapd, *arguments: object) -> list[object]:
    """This very user manages cn=config too."""
    return ["add", *arguments, "-H", server.ldapi_uri, "-Y", "EXTERNAL", "-b", SUFFIX]


def _lend(server: Slapd, *arguments: object, state: Path, kill_at: str = "") -> Done:
    env = {"DITSEED_STATE_DIR": str(state), **({"DITSEED_KILL_AT": kill_at} if kill_at else {})}
    return ditseed(*_external(server, *arguments, "--nosync"), env=env)


def _nosync(server: Slapd) -> bool:
    found = server.search(base=DATABASE, scope=0, external=True)[0][1]
    return found.get("olcDbNoSync") == [b"TRUE"] or b"nosync" in found.get("olcDbEnvFlags", [])


def _was_on(server: Slapd) -> bool:
    return bool(server.log_lines("MOD attr=olcDbNoSync"))


def test_lent_and_given_back(slapd_instance: Slapd, tmp_path: Path) -> None:
    path = write(tmp_path / "x.ldif", TOP, people(50))
    _lend(slapd_instance, path, state=tmp_path).ok()
    assert _was_on(slapd_instance)
    assert not _nosync(slapd_instance)
    assert not standing(tmp_path)
    assert len(names(slapd_instance)) == 51


def test_a_server_that_has_it_on_keeps_it(slapd_instance: Slapd, tmp_path: Path) -> None:
    slapd_instance.configure(f"dn: {DATABASE}\nchangetype: modify\nreplace: olcDbNoSync\nolcDbNoSync: TRUE\n")
    done = _lend(slapd_instance, write(tmp_path / "x.ldif", TOP), state=tmp_path).ok()
    assert "has nosync on already" in done.err
    assert _nosync(slapd_instance)


def test_given_back_after_an_error(slapd_instance: Slapd, tmp_path: Path) -> None:
    path = write(tmp_path / "x.ldif", TOP, person("bad", sn=None))
    done = _lend(slapd_instance, path, state=tmp_path)
    assert done.status == errors.AddRefused.exit_status, done
    assert _was_on(slapd_instance)
    assert not _nosync(slapd_instance)
    assert not standing(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_given_back_after_a_signal(slapd_instance: Slapd, tmp_path: Path, number: signal.Signals) -> None:
    path = write(tmp_path / "x.ldif", TOP, people(2000))
    slow = _external(slapd_instance, path, "--nosync", "--max-rate", 100)
    process = start(*slow, env={"DITSEED_STATE_DIR": str(tmp_path)})
    _wait_until_on(slapd_instance)
    assert len(standing(tmp_path)) == 1
    process.send_signal(number)
    _, words = process.communicate()
    assert process.returncode == 128 + number, words
    assert not _nosync(slapd_instance)
    assert not standing(tmp_path)


def _wait_until_on(server: Slapd) -> None:
    until(lambda: _nosync(server))


@pytest.mark.parametrize("point", ["nosync.written-down", "nosync.taken", "nosync.given-back"])
def test_killed_and_given_back_by_the_next_start(slapd_instance: Slapd, tmp_path: Path, point: str) -> None:
    """Whichever load that is; the lease is a file for the owner's eyes, without a secret."""
    path, other = (write(tmp_path / "x.ldif", TOP, people(50)), write(tmp_path / "y.ldif", person("y")))
    done = _lend(slapd_instance, path, state=tmp_path, kill_at=point)
    assert done.status == -signal.SIGKILL, done
    assert _nosync(slapd_instance) == (point == "nosync.taken")
    assert len(standing(tmp_path)) == 1
    assert (tmp_path / "leases.log").stat().st_mode & 0o777 == 0o600
    slapd_instance.ldapadd(TOP) if point != "nosync.given-back" else None
    env = {"DITSEED_STATE_DIR": str(tmp_path)}
    again = ditseed(*_external(slapd_instance, other), env=env).ok()
    assert "was left set by a run of" in again.err
    assert not _nosync(slapd_instance)
    assert not standing(tmp_path)
    assert not slapd_instance.search("(cn=ditseed-sync)", ("1.1",))


def test_tune_shows_a_lease_and_gives_it_back(slapd_instance: Slapd, tmp_path: Path) -> None:
    """Only with --apply, as it changes nothing without."""
    path = write(tmp_path / "x.ldif", TOP, people(5))
    _lend(slapd_instance, path, state=tmp_path, kill_at="nosync.taken")
    place = ("-H", slapd_instance.ldapi_uri, "-Y", "EXTERNAL", "-b", SUFFIX)
    env = {"DITSEED_STATE_DIR": str(tmp_path)}
    shown = ditseed("tune", "sync", *place, env=env).ok()
    assert "for ditseed add, which was killed or has ended" in shown.out
    assert _nosync(slapd_instance)
    ditseed("tune", "sync", *place, "--nosync", "off", "--apply", env=env).ok()
    assert not _nosync(slapd_instance)
    assert not standing(tmp_path)


def test_not_without_the_right_to(slapd_instance: Slapd, tmp_path: Path) -> None:
    """The root DN of the database may not read cn=config: nothing is begun."""
    path = write(tmp_path / "x.ldif", TOP)
    done = add(slapd_instance, path, "--nosync")
    assert done.status == errors.ConfigHidden.exit_status, done
    assert not slapd_instance.log_lines(" ADD dn=")


def test_a_server_that_is_gone_for_good(slapd_instance: Slapd, tmp_path: Path) -> None:
    """The lease stands, and the message says what to do; once the server is back, the next start gives it back."""
    path = write(tmp_path / "x.ldif", TOP, people(2000))
    env = {"DITSEED_STATE_DIR": str(tmp_path)}
    process = start(*_external(slapd_instance, path, "--nosync", "--max-rate", 100), env=env)
    _wait_until_on(slapd_instance)
    slapd_instance.kill9()
    process.send_signal(signal.SIGINT)
    _, words = process.communicate()
    assert process.returncode == 130, words
    assert len(standing(tmp_path)) == 1
    slapd_instance.start()
    assert _nosync(slapd_instance)
    ditseed(*_external(slapd_instance, path), env=env).ok()
    assert not _nosync(slapd_instance)
    assert not standing(tmp_path)
    assert len(names(slapd_instance)) == 2001
