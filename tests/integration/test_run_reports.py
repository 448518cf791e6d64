"""`--report` and `--metrics` of real runs: the figures of --json, and how a run ended that failed; and what each verb
prints."""

from __future__ import annotations

import json
import re
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fixtures import glued
from fixtures.glued import GROUPS, SubordinateDatabase
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import write_people
from loader.cli.report import readable_facts
from loader.errors import LoaderError, NoSuchPath, PackageMissing, UsageProblem
from tests.support.adding import SUFFIX, TOP, command, people, person, unit
from tests.support.command import ditseed
from tests.support.pages import Element, Page, outside
from tests.support.require import require
from tests.support.seeding import Pair, consumer_of, pair
from tests.support.stopping import stopped_at

pytestmark = pytest.mark.slapd

PEOPLE = 500


@pytest.fixture(scope="module")
def ldif(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ldif") / "people.ldif"
    write_people(path, SUFFIX, PEOPLE)
    return path


def wanted(place: Path) -> tuple[object, ...]:
    return ("--report", place / "run.html", "--metrics", place / "run.prom")


def build_words(target: Slapd, *more: object) -> tuple[object, ...]:
    return ("build", *more, "--config", target.config_path, "-b", target.suffix)


def tables_of(page: Page) -> list[Element]:
    return [one for one in page.named("table") if one.attributes.get("class") == "tables"]


def metrics(place: Path) -> dict[str, dict[tuple[str, ...], float]]:
    """Name without its beginning -> other labels than the verb's -> value."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families((place / "run.prom").read_text()):
        for one in family.samples:
            labels = tuple(value for name, value in one.labels.items() if name != "verb")
            found.setdefault(one.name.removeprefix("ditseed_run_"), {})[labels] = one.value
    return found


def single(place: Path) -> dict[str, float]:
    return {name: found[()] for name, found in metrics(place).items() if () in found}


def page_of(place: Path) -> Page:
    """Which refers to nothing outside."""
    page = Page.read(place / "run.html")
    assert outside(page) == []
    found = [one.attributes["id"] for one in page.elements if "id" in one.attributes]
    assert len(found) == len(set(found))
    return page


def assert_agree(place: Path, page: Page, facts: dict[str, Any], verb: str) -> None:
    told = single(place)
    assert page.value("figure-entries") == told["entries"] == facts.get("entries", facts.get("read"))
    assert page.value("figure-duration") == told["duration_seconds"]
    assert (told["success"], told["exit_status"]) == (1, 0)
    assert f'verb="{verb}"' in (place / "run.prom").read_text()
    steps = metrics(place)["step_seconds"]
    shown = [one.text for one in page.within("steps", "th") if one.text in {s for (s,) in steps}]
    assert set(shown) == {name for (name,) in steps}
    assert sum(steps.values()) <= told["duration_seconds"]
    assert told["end_timestamp_seconds"] >= told["start_timestamp_seconds"]
    assert page.by_id("asked").text.count(verb) >= 1


def test_a_build(target: Slapd, ldif: Path, tmp_path: Path) -> None:
    done = ditseed(*build_words(target, ldif), "--json", *wanted(tmp_path)).ok()
    page, facts = page_of(tmp_path), done.facts
    assert_agree(tmp_path, page, facts, "build")
    assert page.value("figure-entries-per-second") == facts["rate"]
    assert page.value("figure-bytes") == single(tmp_path)["bytes"] == ldif.stat().st_size
    assert page.value("rejected") == single(tmp_path)["rejects"] == 0
    steps = metrics(tmp_path)["step_seconds"]
    assert sum(steps.values()) == pytest.approx(facts["seconds"], rel=0.5, abs=0.1)  # between two steps it may wait
    assert list(steps) == [("config",), ("load",), ("check",), ("publish",)]
    (table,) = tables_of(page)
    assert all(name in table.text for name in facts["tables"])
    bytes_of_tables = sum(float(one.attributes["value"]) for one in page.named("data") if "id" not in one.attributes)
    assert bytes_of_tables >= facts["bytes"]
    assert len(page.within("rates", "tr")) >= 2
    assert len(page.within("rates", "i")) >= 2
    assert stat.S_IMODE((tmp_path / "run.html").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "run.prom").stat().st_mode) == 0o644
    assert {one.name for one in target.database_dir.iterdir()} == {"data.mdb", ".ditseed-build"}
    assert {one.name for one in tmp_path.iterdir()} == {"run.html", "run.prom"}


def test_what_was_done_before_is_not_told_as_done_now(target: Slapd, ldif: Path, tmp_path: Path) -> None:
    for more in ((), wanted(tmp_path)):
        ditseed(*build_words(target, ldif), *more).ok()
    page = page_of(tmp_path)
    assert page.by_id("steps").text.count("done before") == 4
    assert "nothing was done now" in page.by_id("asked").text
    assert "step_seconds" not in metrics(tmp_path)


@pytest.mark.long
def test_a_failed_build_says_how_it_ended(target: Slapd, tmp_path: Path) -> None:
    path = tmp_path / "x.ldif"
    path.write_text(TOP + people(3) + person("bad", sn=None))
    done = ditseed(*build_words(target, path, "--json"), *wanted(tmp_path))
    error = done.facts["error"]
    page = page_of(tmp_path)
    shown = page.by_id("error").text
    assert done.status == error["status"] == 46
    assert all(error[name] in shown for name in ("code", "message", "hint"))
    assert "exit status 46" in page.source
    assert all(word in page.by_id("steps").text for word in ("load", "failed"))
    told = single(tmp_path)
    assert (told["success"], told["exit_status"]) == (0, 46)
    assert "rejects" not in told
    assert ("load",) in metrics(tmp_path)["step_seconds"]


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("directory", NoSuchPath),
        ("extra", PackageMissing),
        ("device", UsageProblem),
        ("same", UsageProblem),
        ("dry-run", UsageProblem),
    ],
)
def test_refused_before_anything_is_done(
    target: Slapd, ldif: Path, tmp_path: Path, what: str, error: type[LoaderError]
) -> None:
    """The metrics tell of it, too."""
    places = {"directory": tmp_path / "no" / "run.html", "device": Path("/dev/null"), "same": tmp_path / "run.prom"}
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(
        "import importlib.util\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'jinja2' else find(name, *more)\n"
    )
    env = {"PYTHONPATH": str(tmp_path / "hidden")} if what == "extra" else None
    chosen = ("--report", places.get(what, tmp_path / "run.html"), "--metrics", tmp_path / "run.prom")
    more = ["--dry-run"] if what == "dry-run" else []
    assert ditseed(*build_words(target, ldif, *more), *chosen, env=env).refused(error)
    assert not list(target.database_dir.iterdir())
    assert not (tmp_path / "run.html").exists()
    if what != "dry-run":
        told = single(tmp_path)
        assert (told["success"], told["exit_status"], told["entries"]) == (0, error.exit_status, 0)


@pytest.mark.long
def test_a_run_that_is_stopped(target: Slapd, ldif: Path, tmp_path: Path) -> None:
    stopped = stopped_at("load.recorded", *build_words(target, ldif), *wanted(tmp_path))
    assert stopped.end(signal.SIGTERM).status == 128 + signal.SIGTERM
    page, told = page_of(tmp_path), single(tmp_path)
    assert "cancelled" in page.by_id("error").text
    assert (told["success"], told["exit_status"]) == (0, 143)
    assert told["entries"] == page.value("figure-entries") >= PEOPLE


def test_a_directory_that_goes_meanwhile(target: Slapd, ldif: Path, tmp_path: Path) -> None:
    """The build is done, and the exit status tells that its report is missing."""
    place = tmp_path / "place"
    place.mkdir()
    stopped = stopped_at("load.recorded", *build_words(target, ldif), "--report", place / "run.html")
    place.rmdir()
    stopped.end().refused(NoSuchPath, "the run itself had ended with exit status 0")
    assert (target.database_dir / "data.mdb").exists()


@pytest.mark.long
def test_an_add(slapd_instance: Slapd, tmp_path: Path) -> None:
    path = tmp_path / "x.ldif"
    path.write_text(TOP + people(50) + person("bad", sn=None))
    words = command(slapd_instance, path, "--max-rejects", 1, "--json")
    done = ditseed(*words, *wanted(tmp_path))
    assert done.status == 1, done.err
    page, told = page_of(tmp_path), single(tmp_path)
    assert page.value("figure-entries") == told["entries"] == done.facts["read"] == 52
    assert page.value("rejected") == told["rejects"] == done.facts["rejected"] == 1
    assert (told["success"], told["exit_status"], done.facts["rejects"] in page.source) == (1, 1, True)
    assert "cn=bad" in page.by_id("rejects").text
    assert list(metrics(tmp_path)["step_seconds"]) == [("start",), ("scan",), ("load",)]
    path.write_text(unit("more") + person("bad", sn=None))
    done = ditseed(*command(slapd_instance, path, "--json"), "--restart", *wanted(tmp_path))
    assert done.status == 64, "refused"
    assert single(tmp_path)["rejects"] == page_of(tmp_path).value("rejected") == 1


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("pair"), PEOPLE) as made:
        made.prepare("ldif")
        yield made


@pytest.mark.long
def test_exports_and_seedings(both: Pair, tmp_path: Path) -> None:
    """The password of the file is nowhere."""
    server = ("export", *both.bind, "-b", both.provider.suffix, "-o", tmp_path / "out", "--json")
    done = ditseed(*server, *wanted(tmp_path)).ok()
    page = page_of(tmp_path)
    assert_agree(tmp_path, page, done.facts, "export")
    assert str(both.provider.replicator_password_file) in page.by_id("asked").text
    assert both.provider.replicator_password_file.read_text().strip() not in page.source
    assert single(tmp_path)["bytes"] > 100 * PEOPLE

    database = ("export", both.provider.database_dir, "--json", *wanted(tmp_path), "-o")
    facts = ditseed(*database, tmp_path / "other").ok().facts
    assert_agree(tmp_path, page_of(tmp_path), facts, "export")
    done = ditseed(*database, "-").ok()
    facts = json.loads(done.err[done.err.index('{"report"') :])
    assert_agree(tmp_path, page_of(tmp_path), facts, "export")

    for strategy in ("search", "clone"):
        with consumer_of(both) as other:
            done = ditseed(*other.seed(strategy), "--json", *wanted(tmp_path)).ok()
        assert_agree(tmp_path, page_of(tmp_path), done.facts, "replica seed")
        assert "id2e" in page_of(tmp_path).source


@pytest.mark.long
def test_a_glued_tree(tmp_path: Path) -> None:
    below = (SubordinateDatabase(GROUPS),)
    units = [f"ou=people,{glued.SUFFIX}", GROUPS, f"ou=a,{GROUPS}"]
    (tmp_path / "x.ldif").write_text(TOP + "".join(unit(one[3:].split(",")[0], one.partition(",")[2]) for one in units))
    with closing(Slapd(glued.settings(tmp_path, below, Settings(suffix=glued.SUFFIX)))) as target:
        done = ditseed(*build_words(target, tmp_path / "x.ldif", "--json"), *wanted(tmp_path)).ok()
    page = page_of(tmp_path)
    assert_agree(tmp_path, page, done.facts, "build")
    assert len(tables_of(page)) == 2
    headings = [one.text for one in page.named("h2") if one.text.startswith("Tables of")]
    assert sorted(headings) == sorted(f"Tables of {one['directory']}" for one in done.facts["databases"])


BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BLUE = (0x00, 0x72, 0xB2)  # colour of the bars in a report


def browse(browser: str, path: Path) -> tuple[list[str], int]:
    """Opens a page. Returns the console's lines, and how many pixels are blue."""
    from matplotlib import image

    shot = path.with_suffix(".png")
    words = (
        *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--enable-logging=stderr", f"--user-data-dir={path.parent}/profile"),
        *("--window-size=1000,2400", f"--screenshot={shot}", path.as_uri()),
    )
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    pixels = (image.imread(shot)[:, :, :3] * 255).round()
    return re.findall(r"^.*CONSOLE.*$", done.stderr, re.MULTILINE), int((pixels == BLUE).all(axis=2).sum())


@pytest.mark.long
def test_a_browser_shows_it(target: Slapd, ldif: Path, tmp_path: Path) -> None:
    """The bars are painted, and the console has no complaint; of a page that wants more it has one."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), "")
    require(None if browser else f"no browser: none of {', '.join(BROWSERS)} (Debian: chromium)")
    ditseed(*build_words(target, ldif), *wanted(tmp_path)).ok()
    complaints, blue = browse(browser, tmp_path / "run.html")
    assert complaints == []
    assert blue > 2_000
    strange = tmp_path / "strange.html"
    strange.write_text((tmp_path / "run.html").read_text() + "<script>alert(1)</script>")
    complaints, _ = browse(browser, strange)
    assert any("Content Security Policy" in line for line in complaints)


# --- what each verb prints to a person at its end: words and numbers, no dictionary or list of Python's ----

# Brackets, and the words for what is not there or is so. DNs and paths of these tests have none of them.
_PYTHON = re.compile(r"[\[\]{}]|\b(?:None|True|False)\b|Path\(|'[^' ]*'[,:]")


def commands(both: Pair, new: Slapd, scratch: Path) -> Iterator[tuple[object, ...]]:
    """In an order in which each has something to do."""
    source, data = both.provider, both.provider.database_dir
    server = ("-H", source.ldapi_uri, "-Y", "EXTERNAL", "-b", source.suffix)
    consumer = ("--config", both.consumer.config_path)
    one = scratch / "one.ldif"
    one.write_text(f"dn: ou=new,{source.suffix}\nobjectClass: organizationalUnit\nou: new\n")
    build = ("build", both.export_dir, "--config", new.config_path)
    for words in (
        ("export", *both.bind, "-b", source.suffix, "-o", scratch / "a"),
        ("export", data, "-o", scratch / "b"),
        ("add", one, *server),
        build,
    ):
        yield (*words, "--dry-run")
        yield words
    yield (*build, "--replace", "--engine", "slapadd", "--restart")
    for strategy in ("search", "ldif", "clone"):
        yield (*both.seed(strategy), "--replace", "--dry-run")
        yield (*both.seed(strategy), "--replace", "--restart")
        yield ("replica", "status", *consumer, "-b", both.consumer.suffix)
    repo = ("-R", scratch / "repo")
    yield ("-v", "backup", "run", "--init", "--from", data, *repo)
    for words in (
        ("replica", "refresh", *both.bind, *consumer, "-b", both.consumer.suffix),
        ("clone", data, scratch / "c"),
        ("migrate", data, scratch / "m", "--config", new.config_path),
        ("backup", "restore", "latest", *repo, "--target", scratch / "d"),
    ):
        yield (*words, "--dry-run")
        yield words
    yield ("compare", data, scratch / "b")
    yield ("compare", data, both.export_dir)
    yield ("verify", data)
    yield ("backup", "list", *repo)
    yield ("backup", "check", *repo)
    yield ("generate", "people", "-n", "10", "-o", scratch / "e")
    yield ("generate", "templates")
    for what in ("maxsize", "indexes", "sync"):
        yield ("tune", what, *server)
    yield ("tune", "maxsize", *server, "--maxsize", "2G")


@pytest.mark.long
def test_every_verb_ends_in_words(both: Pair, target: Slapd, tmp_path: Path) -> None:
    wrong, run = [], 0
    for words in commands(both, target, tmp_path):
        done = ditseed(*words)
        assert done.status in (0, 1), (words, done)
        run += 1
        lines = [line for line in done.out.splitlines() if _PYTHON.search(line)]
        wrong += [(words[:3], line) for line in lines if "olc" not in line]
    assert run > 30
    assert not wrong, "\n".join(map(str, wrong))


def test_facts_of_any_kind_are_words() -> None:
    facts = {
        "context_csns": ["one", "two"],
        "phases": {"read": 1.0},
        "prepared": [],
        "transactions": True,
        "nothing": None,
        "notes": {"a": [1, 2], "b": {"c": False}},
        "bytes": 2048,
    }
    assert readable_facts(facts) == {
        "contextCSN": "one, two",
        "prepared": "none",
        "transactions": "yes",
        "notes": "a 1, 2, b c no",
        "bytes": "2.0 KiB",
    }
