"""What is changed at a server is on the disk before the change is made, and what is left of it is known."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from loader.errors import ConfigRefused, Locked, SettingNotRestored
from loader.run import lease
from loader.run.lease import Lease, ServerIdentity
from tests.support import leases
from tests.support.processes import announced


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DITSEED_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


LEASE = Lease("nosync", "ldapi:///", "dc=a", "undo it", before="off")
HOLDER = """
import os
from loader.run.lease import Lease, leased
with leased(Lease("nosync", "ldapi:///", "dc=a", "undo it", before="off"), lambda: None, lambda: None):
    print("lent", flush=True)
    input()
"""


def test_a_lease_is_there_for_the_time_of_the_body(state: Path) -> None:
    done: list[str] = []
    with lease.leased(LEASE, lambda: done.append("change"), lambda: done.append("restore")):
        (standing,) = lease.all_leases()
        assert (standing.name, standing.process, standing.before) == (LEASE.name, os.getpid(), "off")
        assert (lease.abandoned(), done) == ([], ["change"])
        assert stat.S_IMODE((state / "leases.log").stat().st_mode) == 0o600
    assert (lease.all_leases(), done) == ([], ["change", "restore"])
    assert (state / "leases.log").read_bytes() == b"", "it is small again"


def test_the_last_of_several_runs_restores_the_setting() -> None:
    """A lease that is lent alone is refused to others."""
    done: list[str] = []
    with announced(HOLDER) as other:
        with lease.leased(LEASE, lambda: None, lambda: done.append("restore")):
            pass
        assert (len(lease.all_leases()), lease.abandoned(), done) == (1, [], [])
        with pytest.raises(Locked), lease.leased(LEASE, lambda: None, lambda: None, alone=True):
            pytest.fail("lent twice")
        other.communicate("\n")
    assert lease.all_leases() == []


def test_what_a_killed_run_left_is_known_and_ended() -> None:
    done: list[str] = []
    with announced(HOLDER) as other:
        other.kill()
    (left,) = lease.abandoned()
    assert left.process is None
    lease.end(left, lambda: done.append(left.before))
    assert (lease.all_leases(), done) == ([], ["off"])


def test_what_cannot_be_restored_stays() -> None:
    def fails() -> None:
        raise SettingNotRestored(what="nosync", suffix="dc=a", reason="gone", undo="undo it")

    with pytest.raises(SettingNotRestored), lease.leased(LEASE, lambda: None, fails):
        pass
    assert [one.name for one in lease.abandoned()] == [LEASE.name]


def test_a_change_that_the_server_refused_is_not_restored() -> None:
    def refused() -> None:
        raise ConfigRefused(path="ldapi:///", attribute="x", reason="no")

    with pytest.raises(ConfigRefused), lease.leased(LEASE, refused, lambda: pytest.fail("restored")):
        pytest.fail("the body ran")
    assert lease.all_leases() == []


@pytest.mark.parametrize("seconds", [3600, 0])
def test_a_lease_until_a_time_or_the_next_boot(state: Path, seconds: int) -> None:
    lease.lease_for(LEASE, seconds, lambda: None)
    later = Lease("nosync", "ldapi:///", "dc=a", "undo it", before="on")
    lease.lease_for(later, seconds, lambda: None)
    (standing,) = lease.all_leases()
    assert (standing.before, standing.is_active) == ("off", seconds > 0)
    with lease.leased(LEASE, lambda: None, lambda: None):
        pass
    assert bool(lease.all_leases()) == (seconds > 0), "a load leaves it only while it lasts"
    leases.write(state, standing, boot="the one before")
    assert len(lease.abandoned()) == 1


def test_the_lease_of_another_server_is_not_of_this_one() -> None:
    for uri in ("ldap://a", "ldap://b"):
        lease.record(Lease("nosync", uri, "dc=a", "undo it", mark=f"mark of {uri}"))
    by_uri = ServerIdentity("ldap://a")
    by_mark = ServerIdentity("ldap://elsewhere", frozenset({"mark of ldap://b"}))
    assert [one.target for one in lease.abandoned(by_uri, "nosync")] == ["ldap://a"]
    assert [one.target for one in lease.abandoned(by_mark, "nosync")] == ["ldap://b"]
    assert lease.abandoned(by_mark, "checkpoint") == []
