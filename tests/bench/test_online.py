"""bin/bench export and add in their short forms: they run, check what came out, and notice when it is wrong."""

from __future__ import annotations

import datetime
import itertools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fixtures.bench import data, measure, servers, spread
from fixtures.bench.measure import BenchError
from fixtures.slapd import Slapd
from tests.support.command import environment

BENCH = Path(__file__).parents[2] / "bin" / "bench"
ENTRIES = 2000
CONTAINERS = 2  # the suffix and ou=people


def run(directory: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [BENCH, *words, "--rounds", 1, "--dir", directory]
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, env=environment()
    )


def facts(directory: Path, *words: object) -> Any:
    """The JSON of a run that went well."""
    out = directory / "out.json"
    done = run(directory, *words, "--json", out)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())


def ratio(found: Any, what: str) -> float:
    """Of one round."""
    (spread,) = [one for one in found["ratios"] if one["what"] == what]
    assert spread["median"] == spread["low"] == spread["high"]
    return float(spread["median"])


# --- whole runs -----------------------------------------------------------------------------------


@pytest.mark.slapd
def test_all_read_the_same_server_to_its_end(short_tmp: Path) -> None:
    found = facts(short_tmp, "export", "-n", ENTRIES, "--csn", "bulk", "--csn", "shuffled")
    runs = {one["name"]: one for one in found["runs"]}
    kinds = ("ldapsearch", "ditseed", "ditseed-zstd")
    assert list(runs) == [f"{who}, {csn}" for csn in ("bulk", "shuffled") for who in kinds]
    for one in runs.values():
        assert one["entries"] == ENTRIES + CONTAINERS
        assert one["usage"]["seconds"] > 0 < one["usage"]["cpu"]
        assert one["memory"] > 0  # sampled, and so short a run may be seen at its very beginning only
    assert sum(one["server_cpu"] for one in runs.values()) > 0  # counted in hundredths
    peer, ours = runs["ldapsearch, bulk"]["usage"], runs["ditseed, bulk"]["usage"]
    seconds = peer["seconds"] / ours["seconds"]
    assert ratio(found, "seconds of ldapsearch / ditseed, bulk") == pytest.approx(seconds)
    cpu = ours["cpu"] / peer["cpu"]
    assert ratio(found, "client CPU of ditseed, bulk / ldapsearch") == pytest.approx(cpu)
    kept = {path.name.rsplit("-", 1)[0] for path in short_tmp.glob("*.ldif")}
    assert kept == {f"people-bulk-{ENTRIES}", f"people-shuffled-{ENTRIES}"}
    assert list(short_tmp.glob("run-*")) == []


@pytest.mark.slapd
def test_all_read_the_same_database_to_its_end(short_tmp: Path) -> None:
    found = facts(short_tmp, "slapcat", "-n", ENTRIES)
    runs = {one["name"]: one for one in found["runs"]}
    assert list(runs) == ["slapcat", "ditseed", "ditseed-zstd"]
    assert all(one["entries"] == ENTRIES + CONTAINERS for one in runs.values())
    seconds = runs["slapcat"]["usage"]["seconds"] / runs["ditseed"]["usage"]["seconds"]
    assert ratio(found, "seconds of slapcat / ditseed") == pytest.approx(seconds)
    assert list(short_tmp.glob("run-*")) == []


@pytest.mark.slapd
def test_all_add_to_a_server_of_their_own(short_tmp: Path) -> None:
    found = facts(short_tmp, "add", "-n", ENTRIES, "--ldapadd-entries", 50)
    runs = {one["name"]: one for one in found["runs"]}
    entries = {name: one["entries"] - CONTAINERS for name, one in runs.items()}
    assert entries == {"ldapadd": 50, "ditseed": ENTRIES, "ldapadd-nosync": ENTRIES, "ditseed-nosync": ENTRIES}

    def rate(name: str) -> float:
        return float(runs[name]["entries"] / runs[name]["usage"]["seconds"])

    for suffix in ("", "-nosync"):
        ours, peer = f"ditseed{suffix}", f"ldapadd{suffix}"
        expected = rate(ours) / rate(peer)
        assert ratio(found, f"entries/s of {ours} / {peer}") == pytest.approx(expected)
    assert list(short_tmp.glob("run-*")) == []


@pytest.mark.slapd
def test_a_slow_disk_is_waited_for_at_every_add(short_tmp: Path) -> None:
    words = ("--ldapadd-entries", 20, "--contenders", "ldapadd", "--flush", 100)
    (one,) = facts(short_tmp, "add", "-n", 20, *words)["runs"]
    assert one["usage"]["seconds"] > one["entries"] * 0.1


@pytest.mark.slapd
@pytest.mark.parametrize("contender", ["ldapsearch", "ditseed"])
def test_another_number_of_entries_read_is_no_result(short_tmp: Path, contender: str) -> None:
    data.data(data.provided("bulk"), 4, short_tmp).keep()
    (made,) = short_tmp.glob("people-bulk-4-*.ldif")
    made.rename(data.data(data.provided("bulk"), 5, short_tmp).path)
    done = run(short_tmp, "export", "-n", 5, "--csn", "bulk", "--contenders", contender)
    assert done.returncode != 0
    assert f"{contender}, bulk: 6 entries, not 7" in done.stderr
    assert list(short_tmp.glob("run-*")) == []


@pytest.mark.slapd
def test_another_number_of_entries_added_is_no_result(short_tmp: Path) -> None:
    data.data(data.people("people"), 4, short_tmp).keep()
    (made,) = short_tmp.glob("people-4-*.ldif")
    made.rename(data.data(data.people("people"), 5, short_tmp).path)
    done = run(short_tmp, "add", "-n", 5, "--contenders", "ldapadd-nosync")
    assert done.returncode != 0
    assert "ldapadd-nosync: 6 entries in the database, not 7" in done.stderr


def test_contenders_that_there_are_not(tmp_path: Path) -> None:
    done = run(tmp_path, "add", "--contenders", "ditseed,slapadd")
    assert done.returncode != 0
    assert "there are ldapadd, ditseed, ldapadd-nosync, ditseed-nosync" in done.stderr


# --- what has to hold for a figure to count -------------------------------------------------------


def test_entries_that_differ_are_no_result(tmp_path: Path) -> None:
    one, other = tmp_path / "one.ldif", tmp_path / "other.ldif"
    one.write_text("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n")
    other.write_text("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\nl: Oslo\n")
    servers.require_equal(one, one, "somebody")
    with pytest.raises(BenchError, match=r"(?s)somebody: not equal.*dc=example,dc=com"):
        servers.require_equal(one, other, "somebody")


def changes(attribute: str, value: str) -> str:
    """LDIF that sets an attribute of the test server's database."""
    lines = ("dn: olcDatabase={3}mdb,cn=config", "changetype: modify", f"replace: {attribute}")
    return "\n".join((*lines, f"{attribute}: {value}", "-")) + "\n"


@pytest.mark.slapd
def test_a_lease_that_was_never_taken_or_stays_is_no_result() -> None:
    with Slapd() as server:
        before = servers.configured(server)
        with pytest.raises(BenchError, match="somebody: nosync was never on"):
            servers.require_leased(server, before, "somebody")
        for setting in (("olcDbNoSync", "TRUE"), ("olcDbEnvFlags", "nosync")):
            server.configure(changes(*setting))
            with pytest.raises(BenchError, match="somebody: nosync is still on"):
                servers.require_leased(server, before, "somebody")
            server.configure(changes("olcDbNoSync", "FALSE"))
            server.configure(changes("olcDbEnvFlags", "nordahead"))
            servers.require_leased(server, before, "somebody")


@pytest.mark.alone
def test_children_count_together() -> None:
    """Two of 100 MiB at one time; getrusage tells of the greater one only."""
    script = "import time; x = bytearray(b'x') * (100 << 20); time.sleep(2)"
    done, memory = measure.run_watched(["sh", "-c", f'python3 -c "{script}" & python3 -c "{script}"; wait'])
    assert memory > 200 << 20
    assert done.usage.resident < 200 << 20


# --- the times of the entries ---------------------------------------------------------------------


def changed(entries: int, shuffled: bool) -> list[datetime.datetime]:
    text = b"".join(spread.blocks(entries, 1, shuffled)).decode()
    found = re.findall(r"modifyTimestamp: (\d{14})Z\nentryCSN: (\d{14})\.0{6}Z#", text)
    assert len(found) == text.count("dn: ") == entries + CONTAINERS
    assert all(modified == csn for modified, csn in found)
    return [datetime.datetime.strptime(csn, "%Y%m%d%H%M%S") for _, csn in found]


def test_every_entry_has_a_second_of_its_own_in_ten_years() -> None:
    found = changed(2500, shuffled=False)
    assert len(set(found)) == 2502
    assert found == sorted(found)
    assert datetime.timedelta(days=3640) < found[-1] - found[0] < datetime.timedelta(days=3650)


@pytest.mark.parametrize("entries", [1, 2, 998, 2500])
def test_the_same_seconds_in_another_order(entries: int) -> None:
    assert sorted(changed(entries, shuffled=True)) == changed(entries, shuffled=False)


def test_neighbours_are_years_apart() -> None:
    found = changed(998, shuffled=True)
    gaps = [abs(one - next) for one, next in itertools.pairwise(found)]
    assert min(gaps) > datetime.timedelta(days=3 * 365)


def test_only_times_differ_from_a_bulk_load() -> None:
    def shown(lines: list[str]) -> list[str]:
        return [line for line in lines if not re.match(r"\w+Timestamp: |entryCSN: ", line)]

    bulk = data.provided("bulk")
    made = measure.run(bulk.command(10)).out.splitlines()
    spread_out = b"".join(spread.blocks(10, data.SEED, shuffled=False)).decode().splitlines()
    assert shown(made) == shown(spread_out)
    assert made != spread_out
