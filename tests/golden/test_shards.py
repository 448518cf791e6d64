"""The golden cases through several slapadds: merged, they are what one slapadd makes of the same records in that order,
shared entries first."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from fixtures.golden.case import Case
from fixtures.golden.random_trees import case as random_case
from fixtures.golden.tables import differences
from fixtures.slapd import Slapd
from loader.operations.build.inputs import moment
from loader.progress import Meter
from loader.sinks import shards
from loader.sinks.shards import Making, Slice, Source
from tests.golden.everything import BY_NAME, CASES
from tests.support.command import ditseed
from tests.support.golden import fresh, slapadd

pytestmark = pytest.mark.slapd

# Their input has parents that only the schema finds, an entry of no name, or too few entries: one slapadd does it.
UNDIVIDED: frozenset[str] = frozenset()
# One key of it has 65,535 entries and one more attempt of the last: a range in one run, here the list itself.
REPEATED = "ranges"


def one_stream(case: Case, ldif: Path, directory: Path) -> Path | None:
    """All that several slapadds are fed, for one of them; None where there are no slices."""
    source = Source([ldif], [case.settings.suffix], directory / "shared.ldif")
    plan = shards.plan(source, 1, Meter("plan"))
    if plan.unknown or plan.leaves < 2:
        return None
    server_id = int(case.options[case.options.index("-S") + 1]) if "-S" in case.options else 0
    last_mod = "lastmod off" not in case.settings.database_lines
    making = Making(moment([ldif]) if last_mod else None, server_id, None, "")
    whole = Slice(source, plan.shared, plan.cuts[0], plan.leaves, making)
    stream = directory / "stream.ldif"
    with stream.open("wb") as file:
        assert whole.feed(file.fileno(), Meter("feed")) == (plan.leaves, False)
    return stream


def build(target: Slapd, ldif: Path, case: Case, count: int) -> dict[str, object]:
    where = ("--config", target.config_path, "-b", target.suffix)
    how = ("--engine", "slapadd", "--shards", count, "--json", *case.options)
    return ditseed("build", ldif, *where, *how).ok().facts


def compared(case: Case, directory: Path, count: int = 3) -> tuple[list[str], bool]:
    """What differs, and whether there were slices."""
    ldif = case.write(directory)
    stream = one_stream(case, ldif, directory)
    with closing(fresh(case)) as oracle, closing(fresh(case)) as ours:
        slapadd(oracle, stream or case.write_oracle(directory), *case.options)
        facts = build(ours, ldif, case, count)
        unforeseen = frozenset() if stream else case.unforeseen
        found = differences(oracle.database_dir, ours.database_dir, unforeseen)
        return found, facts["shards"] != 1


def _parameter(case: Case) -> ParameterSet:
    return pytest.param(case, id=case.name, marks=[pytest.mark.heavy] if case.heavy else [])


@pytest.mark.parametrize("case", [_parameter(case) for case in CASES])
def test_equal_to_one_slapadd(case: Case, tmp_path: Path) -> None:
    found, divided = compared(case, tmp_path)
    print("DIVIDED", case.name, divided)
    assert not found, "\n".join(found)
