"""`replica seed --strategy clone` between data formats: for a consumer whose slapd could not open a copy."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from fixtures.golden.case import server
from fixtures.golden.of_2_7 import ALL, Made
from fixtures.golden.tables import differences
from fixtures.slapd import Slapd
from loader.errors import MaxsizeTooSmall, MdbDamaged, SchemaMissing
from loader.mdb import contents, edits, meta
from loader.progress import Progress
from loader.server import tools
from seeders.replica import seed
from seeders.replica.options import SeedOptions
from seeders.replica.strategies import Clone
from tests.support import killing
from tests.support.command import ditseed

pytestmark = pytest.mark.slapd

OLD = "19900101000000.000000Z#000000#001#000000"
MADE = ALL["most"]


@contextmanager
def _here(made: Made, *lines: str, **changed: object) -> Iterator[Slapd]:
    """A server of the slapd at hand, with the configuration of that database."""
    more = (*made.case.settings.global_lines, *lines)
    wanted = dataclasses.replace(made.case.settings, global_lines=more, **changed)  # type: ignore[arg-type]
    with closing(server(wanted)) as found:
        yield found


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A database of 2.7 that has stored a contextCSN, as a provider does when it stops."""
    return _stamped(MADE, tmp_path / "first")


def _stamped(made: Made, place: Path) -> Path:
    made.unpack(place)
    suffix = made.case.settings.suffix
    newest = contents.newest_csns(place, suffix)
    edits.stamp(place, suffix, sorted(newest.values()))
    return place


def _seed(source: Path, target: Slapd, *more: object) -> tuple[object, ...]:
    where = ("--config", target.config_path, "-b", target.suffix)
    return ("replica", "seed", "--strategy", "clone", "--from", source, *where, *more)


@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
def test_there_and_back(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second database is the first one again, or holds the same where there was a glue entry. On the way back the
    slapd of here is said to be a 2.7."""
    made = ALL[name]
    first = _stamped(made, tmp_path / "first")
    with _here(made) as ours, _here(made, "index_hash64 on") as newer:
        planned = ditseed(*_seed(first, ours, "--dry-run", "--json")).ok().facts
        assert planned["converted"] == "data format 3 to 1"
        assert not list(ours.database_dir.iterdir())
        facts = ditseed(*_seed(first, ours, "--json")).ok().facts
        assert (facts["converted"], facts["held_back"]) == ("data format 3 to 1", 0)
        assert facts["entries"] == planned["entries"] == contents.entry_count(first)
        assert meta.read_meta(ours.database_dir).format == 1
        assert contents.context_csns(ours.database_dir) == contents.context_csns(first)
        assert ours.slapcat()
        monkeypatch.setattr(tools, "release", lambda: (2, 7, 0))
        back = SeedOptions(
            strategy="clone", config_path=newer.config_path, suffix=newer.suffix, source=(ours.database_dir,)
        )
        assert seed.seed(back, Progress("none"), {})["converted"] == "data format 1 to 3"
        assert meta.read_meta(newer.database_dir).format == 3
        ditseed("compare", first, newer.database_dir, "--with-context-csn").ok()
        found = differences(first, newer.database_dir)
        assert "made_again" in facts or not found, "\n".join(found)


@pytest.mark.long
def test_entries_newer_than_the_claim_are_held_back(first: Path) -> None:
    edits.stamp(first, MADE.case.settings.suffix, [OLD])
    with _here(MADE) as ours:
        facts = ditseed(*_seed(first, ours, "--json")).ok().facts
        assert facts["context_csns"] == [OLD]
        assert facts["held_back"] > 0
        compared = ("compare", first, ours.database_dir, "--ignore", "entryCSN")
        ditseed(*compared).ok()
        assert ditseed(*compared[:3]).status == 1
        ditseed("verify", "--config", ours.config_path, "--verify", "indexes").ok()


@pytest.mark.long
def test_killed_at_every_point_in_turn(first: Path) -> None:
    points = killing.points_of(Clone.steps)
    assert {"copy.middle", "compare.recorded", "publish.middle"} <= set(points)
    with _here(MADE) as ours:
        command = _seed(first, ours)
        for point in points:
            killing.killed(point, *command)
            inside = {path.name for path in ours.database_dir.iterdir()}
            assert inside <= {meta.DATA, "lock.mdb", killing.RUN_DIR}
        assert "publish: done before" in ditseed(*command).ok().err
        left = {path.name for path in (ours.database_dir / killing.RUN_DIR).iterdir()}
        assert left == {"lock", "now.json", "run.log"}
        ditseed("compare", first, ours.database_dir).ok()


@pytest.mark.rows(0, "most")
@pytest.mark.parametrize("name", ["bare", "most"])
def test_killed_and_damaged_before_it_is_compared(name: str, tmp_path: Path) -> None:
    """Of records that were copied, and of entries that were made again."""
    first = _stamped(ALL[name], tmp_path / "first")
    with _here(ALL[name]) as ours:
        command = _seed(first, ours)
        killing.killed("compare.start", *command)
        made = ours.database_dir / killing.RUN_DIR / "environment" / meta.DATA
        made.write_bytes(made.read_bytes().replace(b"#000000#001#", b"#000000#002#"))
        ditseed(*command).refused(MdbDamaged, "it differs from")
        assert not (ours.database_dir / meta.DATA).exists()


def test_a_schema_that_lacks_something_is_refused_before_anything_is_copied(tmp_path: Path) -> None:
    first = _stamped(ALL["bare"], tmp_path / "first")
    with _here(ALL["bare"], schema=()) as ours:
        for more in (("--dry-run",), ()):
            ditseed(*_seed(first, ours, *more)).refused(SchemaMissing)
            assert not (ours.database_dir / meta.DATA).exists()


@pytest.mark.long
def test_a_dry_run_refuses_a_map_that_is_too_small(first: Path) -> None:
    with _here(MADE, maxsize=128 << 10) as ours:
        ditseed(*_seed(first, ours, "--dry-run")).refused(MaxsizeTooSmall)


def test_a_plan_knows_that_it_converts(first: Path) -> None:
    with _here(MADE) as ours:
        where = ("--from", first, "--config", ours.config_path, "-b", ours.suffix)
        found = ditseed("replica", "seed", "--dry-run", *where, "--json").ok().facts
        (clone,) = [one for one in found["strategies"] if one["strategy"] == "clone"]
        (copy,) = [one for one in clone["steps"] if one["name"] == "copy"]
        assert copy["why"].startswith("data format 3 to 1: ")
