"""bin/bench in its short form: it runs, compares like with like, and notices when it does not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fixtures.bench import data, lean, measure, report
from fixtures.bench.contenders import Contender, Result
from fixtures.bench.measure import BenchError, Usage
from fixtures.limits import missing_memory_group
from tests.support.command import environment
from tests.support.require import require

BENCH = Path(__file__).parents[2] / "bin" / "bench"
ENTRIES = 2000


def run(directory: Path, *options: object) -> subprocess.CompletedProcess[str]:
    words = [BENCH, "build", "--rounds", 1, "--dir", directory, *options]
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, env=environment())


def facts(directory: Path, *options: object) -> Any:
    """The JSON of a run that went well."""
    out = directory / "out.json"
    done = run(directory, "-n", ENTRIES, "--json", out, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())


# --- whole runs -----------------------------------------------------------------------------------


@pytest.mark.slapd
def test_both_engines_build_the_same_number_of_entries(tmp_path: Path) -> None:
    found = facts(tmp_path)
    assert [one["engine"] for one in found["contenders"]] == ["slapadd", "native"]
    for one in found["runs"]:
        assert one["entries"] == ENTRIES + 2  # the suffix and ou=people
        assert one["seconds"] > 0 < one["cpu"]
        assert one["resident"] > 1 << 20 < one["written"]
        assert one["size"] > 1 << 20
    (ratio,) = found["ratios"]
    slapadd, native = (one["seconds"] for one in found["runs"])
    assert ratio["median"] == ratio["low"] == ratio["high"] == pytest.approx(slapadd / native)
    assert found["machine"].keys() >= {"cpu", "kernel", "slapd", "ditseed", "commit", "file_system"}
    assert found["plan"]["ldif_bytes"][0] > 500 * ENTRIES
    assert "index cn,sn,givenName eq,sub" in found["plan"]["slapd_conf"]["native"]
    assert found["runs"][1]["phases"]


@pytest.mark.slapd
def test_only_the_ldif_and_the_figures_stay(tmp_path: Path) -> None:
    facts(tmp_path, "--engines", "native")
    (kept,) = tmp_path.glob("people-*.ldif")
    assert {path.name for path in tmp_path.iterdir()} == {kept.name, "out.json"}
    before = kept.stat().st_mtime_ns
    facts(tmp_path, "--engines", "native", "--keep")
    assert kept.stat().st_mtime_ns == before
    assert len(list(tmp_path.glob("run-*/native/data.mdb"))) == 1


@pytest.mark.slapd
def test_lean_accounts_through_a_pipe(tmp_path: Path) -> None:
    found = facts(tmp_path, "--lean", "--pipe", "-n", 2 * ENTRIES)
    entries = [one["entries"] for one in found["runs"]]
    assert entries == [ENTRIES + 2] * 2 + [2 * ENTRIES + 2] * 2
    assert all(one["generator_cpu"] > 0 for one in found["runs"])
    assert [one["entries"] for one in found["generator"]] == [ENTRIES + 2, 2 * ENTRIES + 2]
    assert list(tmp_path.glob("*.ldif")) == []
    assert sum("entries/s" in one["what"] for one in found["ratios"]) == 2


@pytest.mark.slapd
def test_slapadd_with_a_thread_that_reads_ahead(tmp_path: Path) -> None:
    found = facts(tmp_path, "--engines", "slapadd-mt,native")
    assert [one["entries"] for one in found["runs"]] == [ENTRIES + 2] * 2
    assert "\ntool-threads 2\n" in found["plan"]["slapd_conf"]["slapadd-mt"]
    assert [one["what"] for one in found["ratios"]] == ["seconds of slapadd-mt, 2,000 / native"]


@pytest.mark.slapd
@pytest.mark.alone
def test_within_a_limit_and_without(tmp_path: Path) -> None:
    require(missing_memory_group())
    found = facts(tmp_path, "--engines", "native", "--memory-limit", "256M", "--cold")
    free, limited = found["runs"]
    assert free["peak"] is None
    assert 1 << 20 < limited["peak"] <= 256 << 20
    (ratio,) = found["ratios"]
    assert ratio["median"] == pytest.approx(limited["seconds"] / free["seconds"])


@pytest.mark.slapd
@pytest.mark.parametrize("engine", ["slapadd", "native"])
def test_a_database_with_too_few_entries_is_no_result(tmp_path: Path, engine: str) -> None:
    data.data(data.LEAN, 4, tmp_path).keep()
    (made,) = tmp_path.glob("lean-4-*.ldif")
    made.rename(data.data(data.LEAN, 5, tmp_path).path)
    done = run(tmp_path, "--engines", engine, "--lean", "-n", 5)
    assert done.returncode != 0
    assert f"{engine}, 5: 6 entries in the database, not 7" in done.stderr


def test_engines_that_there_are_not(tmp_path: Path) -> None:
    done = run(tmp_path, "--engines", "native,ldapadd")
    assert done.returncode != 0
    assert "there are slapadd, slapadd-mt, native" in done.stderr


# --- measuring ------------------------------------------------------------------------------------


def test_what_fails_is_no_figure() -> None:
    with pytest.raises(BenchError, match=r"ended with 3:\nwhy"):
        measure.run(["sh", "-c", "echo why >&2; exit 3"])


def test_half_an_input_is_no_figure() -> None:
    with pytest.raises(BenchError, match="ended with 4"):
        measure.run(["cat"], ["sh", "-c", "echo half; exit 4"])


def test_a_process_and_what_it_waited_for_are_counted(tmp_path: Path) -> None:
    script = "x = bytearray(b'x') * (200 << 20); open('out', 'wb').write(x[: 50 << 20])"
    done = measure.run(["sh", "-c", f'cd {tmp_path}; python3 -c "{script}"; echo done'])
    assert done.out == "done\n"
    assert done.usage.resident > 200 << 20
    assert done.usage.written >= 50 << 20
    assert done.usage.cpu > 0


# --- the figures ----------------------------------------------------------------------------------


def result(contender: Contender, number: int, seconds: float) -> Result:
    usage = Usage(seconds, user=1.0, system=0.5, resident=1, written=1)
    return Result(contender, number, usage, None, 0.0, None, 1, contender.data.entries, {})


@pytest.fixture
def runs(tmp_path: Path) -> list[Result]:
    """Three rounds of each; the second was disturbed."""
    small, large = (data.data(data.LEAN, entries, tmp_path) for entries in (998, 9998))
    slapadd, native = (Contender(engine, small) for engine in ("slapadd", "native"))
    limited, more = Contender("native", small, 1 << 20), Contender("native", large)
    figures = {slapadd: (20, 80, 22), native: (1, 4, 1), limited: (2, 10, 3), more: (10, 50, 10)}
    # The second round backwards, as it is run.
    return [
        result(one, number + 1, figures[one][number])
        for number in range(3)
        for one in list(figures)[:: -1 if number == 1 else 1]
    ]


def test_quotients_are_of_one_round(runs: list[Result]) -> None:
    found = {one.what: one.spread for one in report.ratios(runs)}
    assert found == {
        "seconds of slapadd, 998 / native": report.Spread(20, 20, 22),
        "seconds of native, 998, in 1.0 MiB / without": report.Spread(2.5, 2, 3),
        "entries/s of native, 9,998 / 998": report.Spread(1.0, 0.8, 1.0),
    }


def test_a_round_that_was_broken_off_spoils_nothing(runs: list[Result]) -> None:
    """The third of native is missing, and all after it."""
    found = {one.what: one.spread for one in report.ratios(runs[:9])}
    assert found["seconds of slapadd, 998 / native"] == report.Spread(20, 20, 20)


# --- lean accounts --------------------------------------------------------------------------------


def records(accounts: int, seed: int = 1) -> list[bytes]:
    return b"".join(lean.blocks(accounts, seed)).split(b"\n\n")[:-1]


@pytest.mark.parametrize("accounts", [1, 999, 1000, 1001, 8000, 8001])
def test_an_account_follows_from_its_number(accounts: int) -> None:
    found = records(accounts)
    assert len(found) == accounts + lean.CONTAINERS
    assert found == records(17_000)[: len(found)]


def test_accounts_differ_in_everything_that_names_them() -> None:
    found = [dict(line.split(b": ", 1) for line in one.split(b"\n")) for one in records(12_000)[2:]]
    for name in (b"dn", b"uid", b"mail", b"entryUUID", b"entryCSN"):
        assert len({one[name] for one in found}) == 12_000
    assert found[11_017] == {
        b"dn": b"uid=u000011017,ou=accounts,dc=example,dc=com",
        b"objectClass": lean.CLASS.encode(),
        b"uid": b"u000011017",
        b"mail": b"u000011017@mail.example.com",
        b"entryUUID": found[11_017][b"entryUUID"],
        b"entryCSN": b"20260101000000.011017Z#000000#000#000000",
    }


def test_a_csn_goes_on_after_a_second() -> None:
    shown = bytes(lean.Grid(1).show(61_234))  # the digits of the grid before count for nothing
    assert b"entryCSN: 20260101000101.234000Z#" in shown
    assert b"uid=u061234999," in shown


def test_a_seed_changes_the_uuids_alone() -> None:
    one, other = records(5, seed=1), records(5, seed=2)
    changed = {
        line.split(b":")[0]
        for before, after in zip(one, other, strict=True)
        for line, new in zip(before.split(b"\n"), after.split(b"\n"), strict=True)
        if line != new
    }
    assert changed == {b"entryUUID"}
