"""The table of what only `bin/test --all` runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.tiers import (
    ALL,
    COLLECTED,
    COVERING_TESTS,
    LONG_TESTS,
    LONG_UNITS,
    MAIN,
    QUICK,
    TABLE,
    Matrix,
    left_out,
    left_to_all,
    names_in,
)

ROOT = Path(__file__).parents[2]
LONG = list(names_in(LONG_TESTS))


@pytest.mark.parametrize("row", TABLE, ids=[row.where + row.holds for row in TABLE])
def test_a_row_names_tests_that_there_are_and_leaves_a_canary(row: Matrix) -> None:
    path, _, name = row.where.partition("::")
    files = [ROOT / path] if path.endswith(".py") else list((ROOT / path).rglob("test_*.py"))
    assert any(f"def {name.partition('[')[0]}" in file.read_text() for file in files)
    assert any(row.holds in file.read_text() for file in files)
    assert row.kept or (ROOT / row.instead).is_file()


@pytest.mark.parametrize("module", sorted({name.partition("::")[0] for name in LONG}))
def test_long_tests_are_there_and_leave_others(module: str) -> None:
    """Others: a row, or a test, of the same module, that no line names."""
    named = [name.partition("::")[2] for name in LONG if name.startswith(f"{module}::")]
    text = (ROOT / module).read_text()
    there = set(re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE))
    assert {name.partition("[")[0] for name in named} <= there
    assert there - {name for name in named if "[" not in name}
    assert left_to_all(f"{module}::{name}" for name in named) == {f"{module}::{name}" for name in named}


@pytest.mark.parametrize("name", sorted(names_in(COVERING_TESTS)))
def test_those_that_cover_what_others_do_not_are_run(name: str) -> None:
    module, _, function = name.partition("::")
    assert f"def {function.partition('[')[0]}(" in (ROOT / module).read_text()
    assert name not in LONG
    assert left_to_all([name]) == set()


def test_every_line_still_names_a_test(pytestconfig: pytest.Config) -> None:
    """Of the modules that were collected: a parameter that was renamed would quietly take its row off the lists."""
    if any("::" in argument for argument in pytestconfig.args):
        pytest.skip("single tests were asked for")
    collected = pytestconfig.stash[COLLECTED]
    whole = {name.partition("[")[0] for name in collected}
    modules = {name.partition("::")[0] for name in collected}
    listed = {name for file in (LONG_TESTS, COVERING_TESTS, LONG_UNITS) for name in names_in(file)}
    here = {name for name in listed if name.partition("::")[0] in modules}
    assert here - collected - whole == set()


def test_quick_leaves_long_unit_tests_to_main() -> None:
    named = set(names_in(LONG_UNITS))
    for name in named:
        module, _, function = name.partition("::")
        assert f"def {function.partition('[')[0]}(" in (ROOT / module).read_text()
    long, short = "tests/unit/test_changed.py::test_x", "tests/unit/test_tiers.py::test_y"
    assert left_out(QUICK, named | {short}) == named
    assert left_out(MAIN, [long, short]) == left_out(ALL, named) == set()


def test_the_same_are_kept_in_every_order() -> None:
    names = [f"tests/a.py::test_x[{letter}]" for letter in "abcdefghij"]
    row = Matrix("tests/a.py::test_x", 3, "")
    left = row.left_out([*names, "tests/b.py::test_x"])
    assert left == row.left_out(reversed(names))
    assert [name for name in names if name not in left] == [names[0], names[3], names[6]]
    assert Matrix("tests/a.py", 0, "").left_out(names) == set(names)
    assert Matrix("tests/a.py", 20, "").left_out(names) == set()


def test_a_row_counts_what_those_above_it_leave() -> None:
    names = [f"tests/golden/test_versions.py::test_x[{suite}]" for suite in ("forky", "trixie")]
    assert left_to_all(names) == {names[0]}


def test_what_no_row_names_is_not_left_out() -> None:
    assert left_to_all(["tests/unit/test_tiers.py::test_x"]) == set()
