"""Every bench in its short form: it runs, compares like with like, checks what came out, and leaves only the LDIF; then
what the benches stand on: measuring a command, ratios within a round, what makes a figure void, generated LDIF."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fixtures import replication
from fixtures.bench import data, measure, reading, seed, servers
from fixtures.bench.backups import WAYS
from fixtures.bench.builds import Contender, build_quotients
from fixtures.bench.copies import CLONES
from fixtures.bench.measure import BenchError, Usage
from fixtures.bench.runner import Run, Spread, by_name
from fixtures.limits import missing_memory_group
from fixtures.opendj import missing_opendj
from fixtures.ports import free_port
from fixtures.slapd import Slapd
from fixtures.slapd_config import DATABASE
from tests.support.command import environment
from tests.support.require import require

ROOT = Path(__file__).resolve().parents[2]
CONTAINERS = 2  # the suffix and ou=people
pytestmark = pytest.mark.slapd


def run(directory: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [ROOT / "bin" / "bench", *words, "--dir", directory]
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, env=environment())


def printed(directory: Path, *words: object) -> str:
    """By a run that went well."""
    done = run(directory, *words)
    assert done.returncode == 0, done.stderr
    assert not list(directory.glob("run-*"))
    return done.stdout + done.stderr


def facts(directory: Path, *words: object) -> Any:
    """The JSON of one round that went well."""
    out = directory / "out.json"
    printed(directory, *words, "--rounds", 1, "--json", out)
    report = json.loads(out.read_text())
    out.unlink()
    return report


def names(report: Any) -> list[str]:
    return [one["name"] for one in report["runs"]]


def sides(report: Any, what: str) -> list[float]:
    """The figures that a ratio divides: `CPU of A / B`, `seconds of A, bulk / B` or `clone: seconds of A / B`."""
    match = re.fullmatch(r"(?:(.*): )?(?:client )?(seconds|CPU|entries/s) of (.*) / (.*)", what)
    assert match, what
    verb, figure, *pair = match.groups()
    kind = next((name.partition(", ")[2] for name in pair if ", " in name), "")
    found = []
    for name in pair:
        (one,) = (one for one in report["runs"] if one["name"] in (name, f"{name}, {kind}", f"{verb}, {name}"))
        usage = one["usage"]
        rate = one["entries"] / usage["seconds"]
        found.append({"seconds": usage["seconds"], "CPU": usage["cpu"], "entries/s": rate}[figure])
    return found


# --- build, shards, from ---


@pytest.mark.long
def test_peers_prints_rows_for_each_job(tmp_path: Path) -> None:
    words = ("peers", "-n", 1000, "--rounds", 1, "--jobs", "load,dump,copy", "--json", tmp_path / "out.json")
    text = printed(tmp_path, *words)
    for job in ("Load LDIF into a new database", "Write a database as LDIF", "Copy a database"):
        rows = re.search(rf"^\| {job} \| .*\n(\| \| .*\n)+", text, re.MULTILINE)
        assert rows
        assert re.search(r" (native, 1,000|ditseed|ditseed-checked) \| \d+\.\d\d ", rows[0])
        assert re.search(r" (slapadd, 1,000|slapcat|mdb_copy) \| .* \| [\d.]+ times as fast \|$", rows[0], re.MULTILINE)
        assert re.search(rf"^- {job}: `bin/bench ", text, re.MULTILINE)
    assert set(json.loads((tmp_path / "out.json").read_text())) >= {"load", "dump", "copy"}


def test_the_ldif_stays_for_the_next_build(tmp_path: Path) -> None:
    report = facts(tmp_path, "build", "-n", 2000)
    for one in report["runs"]:
        assert one["usage"]["resident"] > 1 << 20 < one["usage"]["written"]
    assert report["machine"].keys() >= {"cpu", "kernel", "slapd", "ditseed", "commit", "file_system"}
    assert report["plan"]["ldif_bytes"][0] > 500 * 2000
    assert report["runs"][1]["phases"]
    (kept,) = tmp_path.iterdir()
    before = kept.stat().st_mtime_ns
    facts(tmp_path, "build", "-n", 2000, "--engines", "native")
    assert kept.stat().st_mtime_ns == before


@pytest.mark.long
def test_lean_accounts_through_a_pipe(tmp_path: Path) -> None:
    report = facts(tmp_path, "build", "--lean", "--pipe", "-n", 2000, "-n", 4000)
    assert [one["entries"] for one in report["runs"]] == [2002, 2002, 4002, 4002, 2002, 4002]
    assert names(report)[4:] == ["generator alone, 2,000", "generator alone, 4,000"]
    assert all(one["generator_cpu"] > 0 for one in report["runs"][:4])
    assert not list(tmp_path.iterdir())
    assert sum("entries/s" in one["what"] for one in report["ratios"]) == 2


@pytest.mark.long
@pytest.mark.alone
def test_within_a_limit_and_without(tmp_path: Path) -> None:
    require(missing_memory_group())
    report = facts(tmp_path, "build", "-n", 2000, "--engines", "native", "--memory-limit", "256M", "--cold")
    free, limited = report["runs"]
    assert free["memory"] is None
    assert 1 << 20 < limited["memory"] <= 256 << 20
    (ratio,) = report["ratios"]
    assert ratio["median"] == pytest.approx(limited["usage"]["seconds"] / free["usage"]["seconds"])


@pytest.mark.long
def test_a_least_account_takes_what_the_docs_count_with(tmp_path: Path) -> None:
    """docs/performance.md, for a hundred million."""
    one, _ = facts(tmp_path, "build", "--engines", "native", "--least", "--pipe", "-n", 100_000)["runs"]
    assert one["size"] / 100_000 == pytest.approx(457, rel=0.03)


def test_a_build_without_ldif_is_measured_and_its_server_asked(tmp_path: Path) -> None:
    (one,) = facts(tmp_path, "from", "-n", 2000, "--operations", 200)["runs"]
    assert one["entries"] == 2000 + 100 + 4 + 4
    assert one["asked"] == 200
    assert one["usage"]["seconds"] > 0 < one["answering"]
    assert not list(tmp_path.iterdir())


@pytest.mark.long
@pytest.mark.parametrize(
    ("tree", "words", "message"),
    [
        ("bulk", ("export", "--csn", "bulk", "--contenders", "ldapsearch"), "ldapsearch, bulk: 6 entries, not 7"),
        ("bulk", ("export", "--csn", "bulk", "--contenders", "ditseed"), "ditseed, bulk: 6 entries, not 7"),
        ("people", ("add", "--contenders", "ldapadd-nosync"), "ldapadd-nosync: 6 entries in the database, not 7"),
        ("lean", ("build", "--engines", "slapadd", "--lean"), "slapadd, 5: 6 entries in the database, not 7"),
        ("lean", ("build", "--engines", "native", "--lean"), "native, 5: 6 entries in the database, not 7"),
    ],
)
def test_another_number_of_entries_is_no_result(
    short_tmp: Path, tree: str, words: tuple[str, ...], message: str
) -> None:
    kind = {"bulk": data.PROVIDED["bulk"], "people": data.people("people"), "lean": data.LEAN}[tree]
    made = data.data(kind, 4, short_tmp)
    made.keep()
    made.path.rename(data.data(kind, 5, short_tmp).path)
    done = run(short_tmp, *words, "-n", 5)
    assert done.returncode != 0
    assert message in done.stderr
    assert not list(short_tmp.glob("run-*"))


# --- benches whose contenders do the same on the same entries ---

EXPORT = "export -n 2000 --csn bulk --csn spread"
BACKUP = "backup -n 1000 --contenders {},ditseed"
VERBS = ("build", "export", "clone", "clone-compact", "seed-clone")
CLONED = ("mdb_copy / ditseed", "mdb_copy-c / ditseed-compact")
CHECKED = ("ditseed-checked / ditseed", "ditseed-compact-checked / ditseed-compact")
# Words, contenders, and how many ratios.
COMPARED: list[tuple[str, Sequence[str], int]] = [
    (EXPORT, [f"{who}, {csn}" for csn in ("bulk", "spread") for who in ("ldapsearch", "ditseed", "ditseed-zstd")], 8),
    ("add -n 2000 --ldapadd-entries 50", ("ldapadd", "ditseed", "ldapadd-nosync", "ditseed-nosync"), 2),
    ("shards -n 2000 --shards 2", ("slapadd, 2,000", "ditseed, 2 shards"), 1),
    ("shards -n 2000 --shards 0", ("slapadd, 2,000", "ditseed, its choice of shards"), 1),
    ("build -n 2000", ("slapadd, 2,000", "native, 2,000"), 1),
    ("slapcat -n 2000", ("slapcat", "ditseed", "ditseed-zstd"), 4),
    ("clone -n 2000 --built-by ditseed", list(CLONES), 4),
    ("clone -n 2000 --built-by slapadd", list(CLONES), 4),
    ("clone -n 2000 --memory-limit 96M --contenders mdb_copy-c,ditseed-compact", ("mdb_copy-c", "ditseed-compact"), 1),
    ("migrate -n 500", ("slapcat|slapadd", "ditseed"), 2),
    ("migrate -n 500 --lean --contenders ditseed", ("ditseed",), 0),
    # Each of these entries has 39 index keys, which do not wait in memory.
    ("migrate -n 100000 --contenders ditseed --memory-limit 144M", ("ditseed",), 0),
    (
        "versions -n 1000 --other ROOT --line 'multival default 3,1'",
        [f"{verb}, {who}" for verb in VERBS for who in ("this", "other")],
        2 * len(VERBS),
    ),
    *((BACKUP.format(way), [one for one in WAYS if one in (way, "ditseed")], 1) for way in WAYS if way != "ditseed"),
    ("generate -n 2000 --contenders makeldif,ditseed", ("makeldif", "ditseed"), 1),
]


def require_parts(bench: str, words: str) -> None:
    for program in {"clone": ("mdb_copy",), "backup": ("mdb_copy", "zstd")}.get(bench, ()):
        require(None if shutil.which(program) else f"{program} is not installed")
    require(missing_memory_group() if "--memory-limit" in words else None)
    require(missing_opendj() if bench == "generate" else None)
    peer = WAYS[words.partition("--contenders ")[2].partition(",")[0]].program if bench == "backup" else "sh"
    if shutil.which(peer) is None:
        pytest.skip(f"{peer} is not installed, and nothing of ditseed needs it")


@pytest.mark.rows(0, EXPORT, BACKUP.format("mdb_copy-zstd"))
@pytest.mark.parametrize(("words", "contenders", "ratios"), COMPARED, ids=[words for words, *_ in COMPARED])
def test_contenders_are_compared(short_tmp: Path, words: str, contenders: Sequence[str], ratios: int) -> None:
    bench, _, size, *_ = chosen = shlex.split(words.replace("ROOT", str(ROOT)))
    require_parts(bench, words)
    report = facts(short_tmp, *chosen)
    assert names(report) == [*contenders]
    for one in report["runs"]:
        assert one["entries"] == (50 if one["name"] == "ldapadd" else int(size)) + CONTAINERS
        assert one["usage"]["seconds"] > 0 < one["usage"]["cpu"]
        # Sampled, and so short a run may be seen at its very beginning only.
        assert bench != "export" or one["memory"] > 0
        assert one.get("size", 1) > 0
        assert bench != "generate" or 500 < one["size"] / one["entries"] < 700
    if bench in ("export", "add"):
        assert sum(one["server_cpu"] for one in report["runs"]) > 0  # counted in hundredths
    assert (report["plan"].get("limit") or 0) == int(words.partition("--memory-limit ")[2].partition("M")[0] or 0) << 20
    assert len(report["ratios"]) == ratios
    for one in report["ratios"]:
        above, below = sides(report, one["what"])
        assert one["median"] == one["low"] == one["high"] == pytest.approx(above / below)
        assert bench != "clone" or one["what"].removeprefix("seconds of ") in (*CLONED, *CHECKED)
    kept = {path.name.rsplit("-", 1)[0] for path in short_tmp.iterdir()}
    known = {"export": {"people-bulk-2000", "people-spread-2000"}, "build": {"people-2000"}, "generate": set()}
    assert kept == known.get(bench, kept)


# --- daily ---


@pytest.mark.long
def test_backups_of_a_server_that_changes(short_tmp: Path) -> None:
    output = printed(short_tmp, "daily", "-n", "500", "--days", "1", "--contenders", "ditseed")
    assert "round 1: ditseed" in output
    assert "first s  a day s" in output
    assert not list(short_tmp.iterdir())


# --- seed ---


@pytest.mark.long
@pytest.mark.alone
def test_a_consumer_is_seeded_while_the_provider_changes_and_catches_up_at_once(short_tmp: Path) -> None:
    report = facts(short_tmp, "seed", "-n", 30_000, "--no-export")
    (seeding,) = [one for one in report["runs"] if one["name"] == "seeding"]
    assert seeding["equal"]
    assert seeding["caught_up"] is not None
    assert seeding["sent"] <= seeding["changes"]
    assert seeding["entries"] > 29_900
    whole = [one for one in report["runs"] if re.match(r"  \S", one["name"])]  # no phases
    steps = {one["name"].strip(): one["usage"]["seconds"] for one in whole}
    assert 0 < sum(steps.values()) < seeding["usage"]["seconds"]
    assert not steps.keys() & {"read", "arrange", "scan", "load"}  # one pass
    alone = [one["usage"]["seconds"] for one in report["runs"] if one["name"] == "reading alone"]
    (ratio,) = report["ratios"]
    assert ratio["median"] == pytest.approx(seeding["usage"]["seconds"] / (sum(alone) / 2))
    assert 0 < seeding["memory"] < 3 << 30
    assert not list(short_tmp.iterdir())


@pytest.mark.long
def test_a_provider_that_is_kept_is_used_again(short_tmp: Path) -> None:
    kept = short_tmp / "kept"
    words = ("seed", "-n", 2000, "--uuids", "time", "--no-session-log", "--keep", kept)
    first = {one["name"]: one for one in facts(short_tmp, *words)["runs"]}
    built = (kept / "bench.json").stat().st_mtime_ns
    second = {one["name"]: one for one in facts(short_tmp, *words)["runs"]}
    assert (kept / "bench.json").stat().st_mtime_ns == built
    assert first["seeding"]["equal"]
    assert second["seeding"]["equal"]
    assert second["reading alone"]["entries"] > 2000 + CONTAINERS  # the writer of the first left some
    assert first["export: its step read"]["usage"]["seconds"] > 0
    done = run(short_tmp, "seed", "-n", 2001, "--uuids", "time", "--keep", kept)
    assert done.returncode != 0
    assert "'accounts': 2000" in done.stderr


@pytest.mark.long
def test_who_cannot_reach_its_provider_does_not_catch_up(short_tmp: Path) -> None:
    with replication.provider(directory=short_tmp / "provider") as source:
        source.ldapadd("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n")
        nowhere = f"ldap://127.0.0.1:{free_port()}"
        with closing(replication.consumer(source, uri=nowhere, directory=short_tmp / "consumer")) as target:
            assert seed.catch_up(source, target, patience=0.2) is None


# --- refusals ---


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("build", "--engines", "native,ldapadd"), "there are slapadd, slapadd-2.4, "),
        (("build", "--least", "--lean"), "two trees"),
        (("build", "--pipe", "--cold"), "with --pipe there is none"),
        (("add", "--contenders", "ditseed,slapadd"), "there are ldapadd, ditseed, ldapadd-nosync, ditseed-nosync"),
        (("versions", "--other", ROOT, "--verbs", "build,mend"), "seed-clone"),
        (("versions", "--other", ROOT / "docs"), "no bin/ditseed"),
        (("seed", "-n", 10**12), "1,000,000,000,000 accounts and their seeding need"),
    ],
)
def test_what_is_refused(tmp_path: Path, words: tuple[object, ...], message: str) -> None:
    done = run(tmp_path, *words)
    assert done.returncode == 3
    assert message in done.stderr
    assert not list(tmp_path.iterdir())


# --- measuring ---


def test_what_fails_is_no_figure() -> None:
    with pytest.raises(BenchError, match=r"ended with 3:\nwhy"):
        measure.run(["sh", "-c", "echo why >&2; exit 3"])
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


def test_quotients_are_of_one_round(tmp_path: Path) -> None:
    small, large = (data.data(data.LEAN, entries, tmp_path) for entries in (998, 9998))
    slapadd, native, limited = (
        Contender("slapadd", small),
        Contender("native", small),
        Contender("native", small, 1 << 20),
    )
    # Three rounds of each; the second was disturbed, and went backwards, as it is run.
    figures = {slapadd: (20, 80, 22), native: (1, 4, 1), limited: (2, 10, 3), Contender("native", large): (10, 50, 10)}
    runs = [
        Run(one.name, number + 1, one.data.entries, Usage(figures[one][number], 1.0, 0.5, 1, 1))
        for number in range(3)
        for one in [*figures][:: -1 if number == 1 else 1]
    ]
    quotients = build_quotients([*figures])
    assert {one.what: one.spread(by_name(runs)) for one in quotients} == {
        "seconds of slapadd, 998 / native": Spread(20, 20, 22),
        "seconds of native, 998, in 1.0 MiB / without": Spread(2.5, 2, 3),
        "entries/s of native, 9,998 / 998": Spread(1.0, 0.8, 1.0),
    }
    # A round that was broken off spoils nothing: the third of native is missing, and all after it.
    assert quotients[0].spread(by_name(runs[:9])) == Spread(20, 20, 20)


# --- what has to hold for a figure to count ---


def test_entries_that_differ_are_no_result(tmp_path: Path) -> None:
    one, other = tmp_path / "one.ldif", tmp_path / "other.ldif"
    one.write_text("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n")
    other.write_text("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\nl: Oslo\n")
    servers.require_equal(one, one, "somebody")
    with pytest.raises(BenchError, match=r"(?s)somebody: not equal.*dc=example,dc=com"):
        servers.require_equal(one, other, "somebody")


def test_a_lease_that_was_never_taken_or_stays_is_no_result() -> None:
    change = f"dn: {DATABASE}\nchangetype: modify\nreplace: olcDbNoSync\nolcDbNoSync: %s\n-\n"
    change += "replace: olcDbEnvFlags\nolcDbEnvFlags: %s\n-\n"
    with Slapd() as server:
        before = servers.configured(server)
        with pytest.raises(BenchError, match="somebody: nosync was never on"):
            servers.require_leased(server, before, "somebody")
        for setting in (("TRUE", "nordahead"), ("FALSE", "nosync")):
            server.configure(change % setting)
            with pytest.raises(BenchError, match="somebody: nosync is still on"):
                servers.require_leased(server, before, "somebody")
            server.configure(change % ("FALSE", "nordahead"))
            servers.require_leased(server, before, "somebody")


# --- the trees ---


@pytest.mark.parametrize(("tree", "least", "attributes"), [(data.LEAST, 180, 4), (data.LEAN, 220, 5)])
def test_a_small_account_is_as_small_as_told(tree: data.Tree, least: int, attributes: int) -> None:
    made = measure.run(tree.command(1000)).out
    assert made.count("\ndn: ") == 1001
    assert least < len(made) / 1000 < least + 20
    assert made.strip().rpartition("\n\n")[2].count("\n") == attributes


def test_other_sources_of_the_generator_make_other_data() -> None:
    people = data.people("people")
    names = {path.name for path in people.made_by}
    assert {"maker.rs", "draw.rs", "people.toml", "first-names.txt"} <= names
    assert people.containers == CONTAINERS


def test_entries_of_a_directory_that_grew_were_changed_over_years() -> None:
    """slapd indexes entryCSN by the second, so a search for a range of times unites that many lists."""
    changed = re.findall(r"entryCSN: (\d{14})", measure.run(data.PROVIDED["spread"].command(2000)).out)
    assert len(set(changed)) > 1990
    assert {one[:4] for one in changed} == {str(year) for year in range(2012, 2026)}


@pytest.mark.parametrize("uuids", reading.UUIDS)
def test_each_entry_is_in_one_piece(uuids: str) -> None:
    between = reading.cuts(uuids, 8, 4)
    assert len(between) == 3
    assert between == sorted(between)
    first, *_, last = reading.filters(between)
    assert first == f"(!(entryUUID>={between[0]}))"
    assert last == f"(!(!(entryUUID>={between[2]})))"
    assert list(reading.filters([])) == ["(objectClass=*)"]


def test_generated_into_nothing(tmp_path: Path) -> None:
    words = ("-n", 500_000, "--contenders", "ditseed", "--to", "null")
    (one,) = facts(tmp_path, "generate", *words)["runs"]
    assert one["size"] == 0
    assert one["usage"]["resident"] < 200 << 20
