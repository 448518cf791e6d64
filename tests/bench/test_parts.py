"""What the benches stand on: measuring a command, ratios within a round, what makes a figure void, generated LDIF."""

from __future__ import annotations

import datetime
import itertools
import re
from pathlib import Path

import pytest

from fixtures.bench import data, measure, reading, servers, spread
from fixtures.bench.builds import Contender, build_quotients
from fixtures.bench.measure import BenchError, Usage
from fixtures.bench.runner import Run, Spread, by_name
from fixtures.opendj import missing_opendj
from fixtures.slapd import Slapd
from tests.bench.test_runs import CONTAINERS, facts
from tests.support.require import require

# --- measuring ---


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


@pytest.mark.alone
def test_children_count_together() -> None:
    """Two of 100 MiB at one time; getrusage tells of the greater one only."""
    script = "import time; x = bytearray(b'x') * (100 << 20); time.sleep(2)"
    done = measure.run(["sh", "-c", f'python3 -c "{script}" & python3 -c "{script}"; wait'], watch=True)
    assert (done.memory or 0) > 200 << 20
    assert done.usage.resident < 200 << 20


# --- the figures ---


def ratios(contenders: list[Contender], runs: list[Run]) -> dict[str, Spread | None]:
    groups = by_name(runs)
    return {one.what: one.spread(groups) for one in build_quotients(contenders)}


@pytest.fixture
def contenders(tmp_path: Path) -> list[Contender]:
    small, large = (data.data(data.small("lean"), entries, tmp_path) for entries in (998, 9998))
    slapadd, native = (Contender(engine, small) for engine in ("slapadd", "native"))
    return [slapadd, native, Contender("native", small, 1 << 20), Contender("native", large)]


@pytest.fixture
def runs(contenders: list[Contender]) -> list[Run]:
    """Three rounds of each; the second was disturbed, and went backwards, as it is run."""
    figures = dict(zip(contenders, ((20, 80, 22), (1, 4, 1), (2, 10, 3), (10, 50, 10)), strict=True))
    return [
        Run(one.name, number + 1, one.data.entries, Usage(figures[one][number], 1.0, 0.5, 1, 1))
        for number in range(3)
        for one in contenders[:: -1 if number == 1 else 1]
    ]


def test_quotients_are_of_one_round(contenders: list[Contender], runs: list[Run]) -> None:
    assert ratios(contenders, runs) == {
        "seconds of slapadd, 998 / native": Spread(20, 20, 22),
        "seconds of native, 998, in 1.0 MiB / without": Spread(2.5, 2, 3),
        "entries/s of native, 9,998 / 998": Spread(1.0, 0.8, 1.0),
    }


def test_a_round_that_was_broken_off_spoils_nothing(contenders: list[Contender], runs: list[Run]) -> None:
    """The third of native is missing, and all after it."""
    assert ratios(contenders, runs[:9])["seconds of slapadd, 998 / native"] == Spread(20, 20, 20)


# --- what has to hold for a figure to count ---


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


# --- the trees ---


@pytest.mark.parametrize(("name", "least", "attributes"), [("least", 180, 4), ("lean", 220, 5)])
def test_a_small_account_is_as_small_as_told(name: str, least: int, attributes: int) -> None:
    made = measure.run(data.small(name).command(1000)).out
    assert made.count("\ndn: ") == 1001
    assert least < len(made) / 1000 < least + 20
    assert made.strip().rpartition("\n\n")[2].count("\n") == attributes


def test_other_sources_of_the_generator_make_other_data() -> None:
    people = data.people("people")
    names = {path.name for path in people.made_by}
    assert {"maker.rs", "draw.rs", "people.toml", "first-names.txt"} <= names
    assert people.containers == CONTAINERS


# --- the times of the entries ---


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


@pytest.mark.parametrize("uuids", reading.UUIDS)
def test_each_entry_is_in_one_piece(uuids: str) -> None:
    between = reading.cuts(uuids, 8, 4)
    assert len(between) == 3
    assert between == sorted(between)
    first, *_, last = reading.filters(between)
    assert first == f"(!(entryUUID>={between[0]}))"
    assert last == f"(!(!(entryUUID>={between[2]})))"
    assert list(reading.filters([])) == ["(objectClass=*)"]


# --- generate, the one bench without a slapd ---


@pytest.mark.long
def test_both_make_as_many_entries_of_about_the_same_size(tmp_path: Path) -> None:
    require(missing_opendj())
    report = facts(tmp_path, "generate", "-n", 2000, "--contenders", "makeldif,ditseed")
    assert all(500 < one["size"] / one["entries"] < 700 for one in report["runs"])
    (ratio,) = report["ratios"]
    peer, ours = (one["usage"]["seconds"] for one in report["runs"])
    assert ratio["median"] == pytest.approx(peer / ours)
    assert not list(tmp_path.iterdir())


def test_generated_into_nothing(tmp_path: Path) -> None:
    words = ("-n", 500_000, "--contenders", "ditseed", "--to", "null")
    (one,) = facts(tmp_path, "generate", *words)["runs"]
    assert one["size"] == 0
    assert one["usage"]["resident"] < 200 << 20
