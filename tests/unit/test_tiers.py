"""Which tests run: what the tiers of bin/test leave out, what is begun first, and which ones a change can affect."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support import changed, order
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


def test_the_markers_name_rows_that_there_are_and_no_module_is_left_out_silently(pytestconfig: pytest.Config) -> None:
    """A module that only `--all` runs is marked as a whole, so that nobody overlooks it."""
    if any("::" in argument for argument in pytestconfig.args):
        pytest.skip("single tests were asked for")
    collected = pytestconfig.stash[COLLECTED]
    assert unknown_rows(collected) == set()
    left = left_out(MAIN, collected)
    modules = {item.nodeid.partition("::")[0] for item in collected}
    run = {item.nodeid.partition("::")[0] for item in collected if item not in left}
    parents = {item.nodeid.partition("::")[0]: item.parent for item in collected}
    marked = {name for name, parent in parents.items() if parent and parent.get_closest_marker("long")}
    assert modules - run - marked == set()


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("lines", [0, 1, 4, 7])
@pytest.mark.parametrize("others", [1, 60])
def test_each_part_begins_with_some_of_the_longest(workers: int, lines: int, others: int) -> None:
    """Of each worker's part, as xdist deals out the list; and what a line of the table means stays together."""
    long = [f"{line}_{number}" for number in range(2) for line in order.LONGEST[:lines]]
    names = [*(f"tests/x.py::test_{number}" for number in range(others)), *long]
    found = order.begun_first(names, names, workers)
    assert Counter(found) == Counter(names)
    for number in range(workers if others > len(long) else 0):
        size = len(found) // (workers - number)
        part, found = found[:size], found[size:]
        mine = [name for name in part if name.startswith(order.LONGEST)]
        assert mine == part[: len(mine)]
        assert len(mine) == 2 * len(range(number, lines, workers))
        assert [one[:-2] for one in mine[::2]] == [one[:-2] for one in mine[1::2]]


SENT = "fixtures/ansible/roles/replica/tasks/send.yml"


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.long(
    "fixtures/deep.toml-tests/integration/test_generate.py-tests/unit/test_csn.py",
    "loader/native/learn/src/lib.rs-tests/cli/test_generate_cmd.py-tests/cli/test_verify_cmd.py",
)
@pytest.mark.parametrize(
    ("path", "within", "without"),
    [
        ("loader/cli/tune_cmd.py", "tests/cli/test_tune_cmd.py", "tests/golden/test_equal.py"),
        ("loader/units.py", "tests/unit/test_units.py", "tests/unit/test_csn.py"),
        ("loader/native/learn/src/lib.rs", "tests/cli/test_generate_cmd.py", "tests/cli/test_verify_cmd.py"),
        ("fixtures/golden/case.py", "tests/golden/test_equal.py", "tests/cli/test_tune_cmd.py"),
        ("tests/unit/test_dn.py", "tests/unit/test_dn.py", "tests/unit/test_csn.py"),
        ("docs/tune.md", "tests/test_documented.py", "tests/unit/test_csn.py"),
        (SENT, "tests/integration/test_ansible.py", "tests/unit/test_csn.py"),
        ("fixtures/deep.toml", "tests/integration/test_generate.py", "tests/unit/test_csn.py"),
        ("bin/fuzz", "tests/fuzz/test_short.py", "tests/unit/test_csn.py"),
    ],
)
def test_what_a_change_can_affect(path: str, within: str, without: str) -> None:
    found = changed.affected([path])
    assert within in found
    assert without not in found


@pytest.mark.slow
def test_a_change_of_a_base_affects_every_verb() -> None:
    for path in ("loader/native/common/src/error.rs", "loader/errors.py"):
        assert {"tests/golden/test_equal.py", "tests/integration/test_clone.py"} <= changed.affected([path])
    assert changed.affected(["setup.cfg"]) == set(changed.test_files())
