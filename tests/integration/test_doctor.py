"""`ditseed doctor` at real servers that have what it warns of."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ldap
import pytest

from fixtures import replication
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.tls import Authority
from loader import units
from loader.mdb import edits, meta
from tests.support.adding import SUFFIX, TOP, people, write
from tests.support.command import Done, ditseed

pytestmark = pytest.mark.slapd

Facts = dict[str, Any]
MIB = 1 << 20
READING = """
import lmdb, os, signal, sys
with lmdb.open(sys.argv[1], readonly=True, max_dbs=64).begin() as reading:
    print("reads", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    signal.pause()
"""
# Monitoring Plugins Development Guidelines: 'label'=value[UOM];[warn];[crit];[min];[max], thresholds are ranges.
RANGE = r"@?(?:(?:~|-?[\d.]+):)?(?:-?[\d.]+)?"
NUMBER = re.compile(
    rf"(?P<label>[^'=\s]+)=(?P<value>-?[\d.]+)(?P<unit>s|B|%|c)?"
    rf"(?:;(?P<warning>{RANGE})(?:;(?P<critical>{RANGE})(?:;[\d.]*(?:;[\d.]*)?)?)?)?"
)


@pytest.fixture
def state(tmp_path: Path) -> dict[str, str]:
    return {"DITSEED_STATE_DIR": str(tmp_path / "state")}


def examined(server: Slapd, state: dict[str, str], *more: object) -> Done:
    return ditseed("doctor", "--config", server.config_path, *more, env=state)


def of_rule(done: Done, rule: str) -> list[Facts]:
    return [one for one in done.facts["findings"] if one["rule"] == rule]


def numbers(line: str) -> dict[str, re.Match[str]]:
    """The performance data of a plugin, each word of it held against the guidelines."""
    words = line.partition(" | ")[2].split(" ")
    found = [NUMBER.fullmatch(word) for word in words]
    assert all(found), line
    return {one["label"]: one for one in found if one}


@contextmanager
def stopped_reader(server: Slapd) -> Iterator[subprocess.Popen[str]]:
    """A process that has taken a snapshot, and is stopped as by Ctrl-Z."""
    command = [sys.executable, "-c", READING, str(server.database_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "reads\n"
        try:
            yield reader
        finally:
            reader.kill()


def write_to(server: Slapd, times: int) -> None:
    with server.connection() as handle:
        for _ in range(times):
            change = [(ldap.MOD_REPLACE, "description", os.urandom(12).hex().encode())]
            handle.modify_s(SUFFIX, change)


def test_maxsize_below_what_is_used(state: dict[str, str], tmp_path: Path) -> None:
    """LMDB maps what is used in any case, so shares are of that."""
    with Slapd(Settings(maxsize=16 * MIB, loglevel="none"), form="config") as server:
        server.ldapadd(write(tmp_path / "x.ldif", TOP, people(50)))
        server.stop()
        used = meta.read_meta(server.database_dir).used
        (path,) = server.config_path.glob("cn=config/olcDatabase=*mdb.ldif")
        text = path.read_text()
        path.write_text(text.replace(f"olcDbMaxSize: {16 * MIB}", f"olcDbMaxSize: {used // 2}"))
        done = examined(server, state, "--json")
        (found,) = of_rule(done, "maxsize")
        assert (found["severity"], f"{units.size(used // 2)} are configured" in found["what"]) == ("warning", True)
        (room,) = (one["room"] for one in done.facts["databases"])
        assert room["maxsize"] == used >= room["reusable"]
        server.start()
        write_to(server, 1)  # into a free page


def test_a_stuck_reader_is_warned_about_before_slapd_fails(state: dict[str, str], tmp_path: Path) -> None:
    """While writes still succeed. The reader is killed then, --fix clears its slot, and writes go on."""
    with Slapd(Settings(maxsize=4 * MIB, loglevel="none")) as server:
        server.ldapadd(write(tmp_path / "x.ldif", TOP, people(50)))
        write_to(server, 5)
        assert examined(server, state, "--check").out.startswith("DOCTOR OK - ")
        with stopped_reader(server) as reader:
            statuses, line, written = [], "", 0
            while meta.read_meta(server.database_dir).used < 3 * MIB:
                write_to(server, 10)
                written += 10
            while 2 not in statuses:
                write_to(server, 10)  # raises when slapd refuses
                written += 10
                line, *_ = (done := examined(server, state, "--check")).out.splitlines()
                statuses.append(done.status)
                assert done.status in (0, 1, 2), done
            assert 1 in statuses, statuses
            assert statuses == sorted(statuses)
            assert re.match(r"DOCTOR CRITICAL - dc=example,dc=com: .* of maxsize 4\.0 MiB are", line)
            told = numbers(line)
            assert int(told["mdb3_lag"]["value"]) == written
            available = int(told["mdb3_available"]["value"])
            assert available < int(told["mdb3_available"]["critical"].rstrip(":"))
            assert told["mdb3_available"]["unit"] == "B"

            shown = examined(server, state)
            assert shown.status == 1
            assert f"(process {reader.pid}), is {written} transactions behind" in shown.out
            assert f"    kill {reader.pid} || kill -9 {reader.pid}\n" in shown.out
            where = f"-H {shlex.quote(server.ldapi_uri)} -Y EXTERNAL"
            assert f"ditseed tune maxsize {where} -b dc=example,dc=com" in shown.out

            write_to(server, 3)  # it still succeeds
            with pytest.raises(ldap.OTHER):  # MDB_MAP_FULL
                write_to(server, 500)
            reader.send_signal(signal.SIGKILL)
            reader.wait()
            with pytest.raises(ldap.OTHER):  # a slot that nobody clears
                write_to(server, 1)
            fixed = examined(server, state, "--fix", "--json")
            assert fixed.facts["fixed"] == [f"{SUFFIX}: slots of dead readers cleared: 1"]
            assert fixed.facts["databases"][0]["readers"] == []
        write_to(server, 50)
        assert examined(server, state, "--check").status == 0


def test_a_slot_of_a_dead_process(slapd_instance: Slapd, state: dict[str, str]) -> None:
    with stopped_reader(slapd_instance) as reader:
        pass
    (found,) = of_rule(done := examined(slapd_instance, state, "--json"), "readers.dead")
    assert (done.status, found["severity"]) == (0, "note")  # it keeps nothing
    slapd_instance.ldapadd(TOP)
    with stopped_reader(slapd_instance) as reader:
        write_to(slapd_instance, 1)
    (found,) = of_rule(done := examined(slapd_instance, state, "--json"), "readers.dead")
    assert done.status == 1
    assert f"processes that are gone ({reader.pid})" in found["what"]
    assert found["mend"] == [f"ditseed doctor --config {slapd_instance.config_path} --fix"]
    fixed = examined(slapd_instance, state, "--fix").ok()
    assert "fixed: dc=example,dc=com: slots of dead readers cleared: 1" in fixed.out


def test_nosync_that_is_lent(slapd_instance: Slapd, state: dict[str, str]) -> None:
    """As a load has it while it runs."""
    where = ("-H", slapd_instance.ldapi_uri, "-Y", "EXTERNAL", "-b", SUFFIX)
    lend = ("--nosync", "on", "--lease", "1h", "--why", "load of March", "--apply")
    ditseed("tune", "sync", *where, *lend, env=state).ok()
    (found,) = of_rule(examined(slapd_instance, state, "--json"), "sync")
    assert found["what"] == "nosync, no checkpoint, lent for load of March"
    ditseed("tune", "sync", *where, "--nosync", "off", "--apply", env=state).ok()
    (found,) = of_rule(examined(slapd_instance, state, "--json"), "sync")
    assert found["severity"] == "ok"


@pytest.mark.long
def test_what_a_killed_run_left_is_put_back_by_fix(
    slapd_instance: Slapd, state: dict[str, str], tmp_path: Path
) -> None:
    server = slapd_instance
    path = write(tmp_path / "x.ldif", TOP, people(5))
    where = ("-H", server.ldapi_uri, "-Y", "EXTERNAL", "-b", SUFFIX)
    kill = {**state, "DITSEED_KILL_AT": "nosync.taken"}
    assert ditseed("add", path, *where, "--nosync", env=kill).status == -signal.SIGKILL
    done = examined(server, state, "--json")
    assert done.status == 1
    assert [one["severity"] for one in of_rule(done, "lease")] == ["warning"]
    assert [one["severity"] for one in of_rule(done, "sync")] == ["critical"]
    plugin = examined(server, state, "--check")
    assert plugin.status == 2
    assert numbers(plugin.out.splitlines()[0])["leases"]["value"] == "1"
    fixed = examined(server, state, "--fix")
    told = f"fixed: nosync of {SUFFIX} at {server.ldapi_uri}: put back"
    assert (fixed.status, told in fixed.out) == (0, True), fixed
    assert of_rule(examined(server, state, "--json"), "lease") == []


def test_what_cannot_be_looked_at_is_unknown(slapd_instance: Slapd, state: dict[str, str]) -> None:
    server = slapd_instance
    gone = ditseed("doctor", "--config", "/nowhere", "--check", env=state)
    assert (gone.status, gone.out.startswith("DOCTOR UNKNOWN - ")) == (3, True)
    lock = server.database_dir / "lock.mdb"
    lock.rename(server.home / "kept")  # slapd has it open
    lock.write_bytes(b"of another LMDB" * 1000)
    done = examined(server, state, "--check")
    assert (done.status, done.out.startswith("DOCTOR UNKNOWN - ")) == (3, True), done
    done = examined(server, state, "--json")
    assert (done.status, done.facts["well"]) == (1, False)
    assert f"{SUFFIX}: pages and readers" in [one["what"] for one in done.facts["not_looked_at"]]
    (server.home / "kept").rename(lock)


@pytest.mark.long
def test_an_index_that_the_configuration_has_and_the_file_lacks(state: dict[str, str], tmp_path: Path) -> None:
    """Added to slapd.conf while slapd was stopped; the command that is printed makes it."""
    with Slapd(Settings(), form="conf") as server:
        server.stop()
        server.slapadd(write(tmp_path / "x.ldif", TOP, people(20)))
        assert of_rule(examined(server, state, "--json"), "indexes")[0]["severity"] == "ok"
        conf = server.home / "slapd.conf"
        conf.write_text(conf.read_text() + "\nindex givenName,description eq\n")
        server.tool("slapcat", "-f", str(conf), "-l", "/dev/null")
        done = examined(server, state, "--json")
        (found,) = of_rule(done, "indexes")
        assert (done.status, found["severity"]) == (1, "warning")
        assert "givenName" in found["what"]
        _, command, _ = found["mend"]
        subprocess.run(command, shell=True, check=True, env=server.installation.environment())
        assert of_rule(examined(server, state, "--json"), "indexes")[0]["severity"] == "ok"


def test_a_consumer_that_is_behind_and_certificates(provider: Slapd, state: dict[str, str], tmp_path: Path) -> None:
    """The provider shows its contextCSN to accounts only; a certificate has expired; there is no backup yet."""
    tls = Authority(tmp_path / "ca").expired()
    settings = replication.as_consumer(provider.settings, tls=tls)
    server = replication.consumer(provider, settings)
    try:
        server.slapadd(provider.slapcat(), "-w")
        repo = tmp_path / "backups"
        repo.mkdir()
        done = examined(server, state, "--json", "-R", repo)
        assert done.status == 1
        (expired, authority) = of_rule(done, "certificate")
        assert (expired["severity"], authority["severity"]) == ("critical", "ok")
        assert [one["severity"] for one in of_rule(done, "backup")] == ["critical"]
        done = examined(server, state, "--json", "-R", tmp_path / "none")
        assert of_rule(done, "backup") == []
        assert f"{SUFFIX}: backups" in [one["what"] for one in done.facts["not_looked_at"]]
        account = ("-H", provider.uri, "-D", "cn=replicator")
        account += ("-y", str(provider.replicator_password_file))
        done = examined(server, state, "--json", *account)
        assert [one["severity"] for one in of_rule(done, "replication")] == ["ok"]
        write_to(provider, 1)
        old = ("20200101000000.000000Z#000000#001#000000",)
        edits.stamp(server.database_dir, SUFFIX, old)
        (late,) = of_rule(examined(server, state, "--json", *account), "replication")
        assert late["severity"] == "critical"
        assert f"behind {provider.uri}, by contextCSN" in late["what"]
        line = examined(server, state, "--check", *account).out.splitlines()[0]
        assert float(numbers(line)["mdb3_behind"]["value"]) > 1e8
        provider.stop()
        done = examined(server, state, "--json", *account)
        assert [one["severity"] for one in of_rule(done, "replication.dead")] == ["critical"]
    finally:
        server.close()


@pytest.mark.long
def test_a_provider_without_a_rule_of_limits(provider: Slapd, state: dict[str, str]) -> None:
    assert of_rule(examined(provider, state, "--json"), "limits") == []
    database = "olcDatabase={3}mdb,cn=config"
    provider.configure(f"dn: {database}\nchangetype: modify\ndelete: olcLimits\n")

    def severities() -> list[str]:
        return [one["severity"] for one in of_rule(examined(provider, state, "--json"), "limits")]

    assert severities() == ["note"]
    frontend = "olcDatabase={-1}frontend,cn=config"
    lift = "add: olcSizeLimit\nolcSizeLimit: unlimited\n"
    provider.configure(f"dn: {frontend}\nchangetype: modify\n{lift}")
    assert severities() == []
    own = lift.replace("unlimited", "1000")
    provider.configure(f"dn: {database}\nchangetype: modify\n{own}")
    assert severities() == ["note"]
