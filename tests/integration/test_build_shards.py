"""`ditseed build --engine slapadd --shards N`: what one slapadd would refuse is refused, and named in the input."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import record, write_people
from tests.support.command import Done, ditseed
from tests.support.trees import tree

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
SHARDS = 3


@pytest.fixture
def target() -> Iterator[Slapd]:
    with closing(Slapd()) as server:
        yield server


@pytest.fixture
def records(tmp_path: Path) -> list[str]:
    """The suffix, containers, and 300 people, each without the blank line after it."""
    write_people(tmp_path / "people.ldif", SUFFIX, 300)
    return (tmp_path / "people.ldif").read_text().strip().split("\n\n")


def _write(path: Path, records: list[str]) -> Path:
    path.write_text("\n\n".join(records) + "\n\n")
    return path


def _line(path: Path, dn: str, which: int = 0) -> int:
    """Of the record of `dn` in a file, the first or another."""
    lines = path.read_text().split("\n")
    return [at for at, line in enumerate(lines, 1) if line == f"dn: {dn}"][which]


def _build(target: Slapd, *words: object) -> Done:
    where = ("--config", target.config_path, "-b", SUFFIX, "--engine", "slapadd")
    return ditseed("build", *where, "--shards", SHARDS, *words)


def _refused(target: Slapd, done: Done, status: int) -> None:
    assert done.status == status, done
    assert "hint:" in done.err
    assert "Traceback" not in done.err
    assert not (target.database_dir / "data.mdb").exists()


def _dn(record: str) -> str:
    return record.partition("\n")[0].removeprefix("dn: ")


@pytest.mark.long("150")
@pytest.mark.parametrize("at", [-1, 150, 1])
def test_an_entry_that_slapd_refuses_is_named_with_its_place(
    target: Slapd, records: list[str], tmp_path: Path, at: int
) -> None:
    """A leaf of the last slice, of the second, and the container that is in all of them; the input in two files."""
    dn = _dn(records[at])
    records[at] = record(dn, [("objectClass", "person"), ("cn", "x")]).strip()
    one = _write(tmp_path / "1.ldif", records[:100])
    two = _write(tmp_path / "2.ldif", records[100:])
    done = _build(target, one, two)
    _refused(target, done, 46)
    path = one if at == 1 else two
    assert f"{dn} was refused" in done.err
    assert f"({path}, line {_line(path, dn)})" in done.err


@pytest.mark.long("places0", "places1")
@pytest.mark.parametrize("places", [(250, 251), (50, 299), (0, 200)])
def test_an_entry_that_is_there_twice_is_named(
    target: Slapd, records: list[str], tmp_path: Path, places: tuple[int, int]
) -> None:
    """In one slice, in two of them, and one that all have."""
    first, second = places
    dn = _dn(records[first])
    records.insert(second, records[first])
    ldif = _write(tmp_path / "twice.ldif", records)
    done = _build(target, ldif)
    _refused(target, done, 46)
    assert f"{dn} was refused" in done.err
    lines = {_line(ldif, dn), _line(ldif, dn, 1)}
    told = {int(line) for line in re.findall(r"twice.ldif, line (\d+)", done.err)}
    assert told
    assert told <= lines


def test_twice_in_two_slices_tells_both_places(target: Slapd, records: list[str], tmp_path: Path) -> None:
    dn = _dn(records[50])
    again = records[50].replace(dn, dn.upper().replace(",", " , "))
    ldif = _write(tmp_path / "twice.ldif", [*records, again])
    done = _build(target, ldif)
    _refused(target, done, 46)
    place = ldif.read_text().count("\n", 0, ldif.read_text().index(again)) + 1
    assert f"({ldif}, line {_line(ldif, dn)} and {ldif}, line {place})" in done.err


def test_a_parent_that_is_nowhere(target: Slapd, records: list[str], tmp_path: Path) -> None:
    records.append(record(f"cn=x,ou=nowhere,{SUFFIX}", [("objectClass", "device")]).strip())
    done = _build(target, _write(tmp_path / "orphan.ldif", records))
    _refused(target, done, 43)


@pytest.mark.long
def test_any_order_of_the_input_gives_the_same_entries(target: Slapd, records: list[str], tmp_path: Path) -> None:
    with closing(Slapd()) as reference:
        reference.slapadd(_write(tmp_path / "plain.ldif", records))
        whole = reference.slapcat()
    mixed = whole.strip().split("\n\n")
    random.Random(5).shuffle(mixed)
    done = _build(target, _write(tmp_path / "mixed.ldif", mixed), "--json")
    assert done.ok().facts["shards"] == SHARDS
    assert done.facts["shared"] == 19  # containers that have entries
    assert tree(target.slapcat()) == tree(whole)


@pytest.mark.long
def test_what_is_made_is_made_once(target: Slapd, records: list[str], tmp_path: Path) -> None:
    """Each process alone would make the same CSNs."""
    _build(target, _write(tmp_path / "plain.ldif", records)).ok()
    found = target.slapcat()
    for name in ("entryCSN", "entryUUID"):
        values = re.findall(rf"^{name}: (.*)", found, re.MULTILINE)
        assert len(values) == len(set(values)) == len(records)


def test_nothing_is_left_lying_about(target: Slapd, records: list[str], tmp_path: Path) -> None:
    _build(target, _write(tmp_path / "plain.ldif", records)).ok()
    run_dir = target.database_dir / ".ditseed-build"
    assert {path.name for path in run_dir.iterdir()} == {"lock", "now.json", "run.log"}


def test_a_map_that_is_too_small(records: list[str], tmp_path: Path) -> None:
    ldif = _write(tmp_path / "plain.ldif", records)
    with closing(Slapd(Settings(maxsize=1 << 18))) as target:
        _refused(target, _build(target, ldif), 26)


def test_few_entries_are_not_divided_unasked(target: Slapd, records: list[str], tmp_path: Path) -> None:
    ldif = _write(tmp_path / "plain.ldif", records)
    where = ("--config", target.config_path, "-b", SUFFIX, "--engine", "slapadd")
    assert ditseed("build", ldif, *where, "--json").ok().facts["shards"] == 1


def test_shards_are_for_slapadd(target: Slapd, records: list[str], tmp_path: Path) -> None:
    ldif = _write(tmp_path / "plain.ldif", records)
    done = ditseed("build", ldif, "--config", target.config_path, "-b", SUFFIX, "--shards", 2)
    _refused(target, done, 3)
