"""What the tiers of bin/test leave out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tiers import ALL, COLLECTED, MAIN, QUICK, left_out, spread, unknown_rows

TESTS = """
import pytest

@pytest.mark.long
def test_long(): ...

@pytest.mark.slow
def test_slow(): ...

@pytest.mark.rows(2, "h")
@pytest.mark.long("b")
@pytest.mark.parametrize("row", "abcdefgh")
def test_rows(row): ...

@pytest.mark.parametrize("suite", ["forky", "trixie"])
def test_release(suite): ...
"""


@pytest.fixture
def items(tmp_path: Path, request: pytest.FixtureRequest) -> list[pytest.Item]:
    path = tmp_path / f"test_of_{tmp_path.name}.py"  # Python imports one module of a name
    path.write_text(TESTS)
    module = pytest.Module.from_parent(request.session, path=path)
    return [item for item in module.collect() if isinstance(item, pytest.Item)]


def test_what_each_tier_leaves_out(items: list[pytest.Item]) -> None:
    left = {tier: {item.name for item in left_out(tier, items)} for tier in (ALL, MAIN, QUICK)}
    assert left[ALL] == set()
    assert left[MAIN] == {"test_long", *(f"test_rows[{row}]" for row in "bcdfg"), "test_release[forky]"}
    assert left[QUICK] == left[MAIN] | {"test_slow"}
    assert left_out(MAIN, reversed(items)) == left_out(MAIN, items)


def test_the_rows_are_evenly_spread() -> None:
    assert spread("jihgfedcba", 3) == {"a", "d", "g"}
    assert (spread("abc", 0), spread("abc", 20)) == (set(), set("abc"))


def test_a_row_that_is_gone_is_named(items: list[pytest.Item]) -> None:
    assert unknown_rows(items) == set()
    gone = [item for item in items if item.name not in ("test_rows[b]", "test_rows[h]")]
    assert {name.rpartition("::")[2] for name in unknown_rows(gone)} == {"test_rows[b]", "test_rows[h]"}


def test_the_markers_name_rows_that_there_are(pytestconfig: pytest.Config) -> None:
    if any("::" in argument for argument in pytestconfig.args):
        pytest.skip("single tests were asked for")
    assert unknown_rows(pytestconfig.stash[COLLECTED]) == set()


def test_every_module_has_tests_in_bin_test_or_says_that_it_has_none(pytestconfig: pytest.Config) -> None:
    """A module that only `--all` runs is marked as a whole, so that nobody overlooks it."""
    if any("::" in argument for argument in pytestconfig.args):
        pytest.skip("single tests were asked for")
    collected = pytestconfig.stash[COLLECTED]
    left = left_out(MAIN, collected)
    modules = {item.nodeid.partition("::")[0] for item in collected}
    run = {item.nodeid.partition("::")[0] for item in collected if item not in left}
    parents = {item.nodeid.partition("::")[0]: item.parent for item in collected}
    marked = {name for name, parent in parents.items() if parent and parent.get_closest_marker("long")}
    assert modules - run - marked == set()
