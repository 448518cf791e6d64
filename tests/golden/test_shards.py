"""The golden cases through several slapadds: merged, they are what one slapadd makes of the same records in that order,
shared entries first."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.golden import shapes
from fixtures.golden.case import Case, server, settings
from fixtures.golden.random_trees import case as random_case
from fixtures.golden.records import SUFFIX
from fixtures.golden.tables import differences
from fixtures.trees import write_people
from loader.ldif import with_counters
from loader.operations.build import BuildOptions
from loader.progress import Meter
from loader.sinks.slapadd import Slice, SlicedLdif
from tests.golden.everything import BY_NAME, CASES, PARAMETERS
from tests.support.command import ditseed
from tests.support.golden import build, fresh, require_fitting, slapadd

pytestmark = pytest.mark.slapd

# A chain or three entries: there is nothing to divide.
_FORMS = {case.name for case in CASES if case.name.startswith("ldif-")}
UNDIVIDED = {"deep", "context-late", "group"} | _FORMS - {"ldif-spaces", "ldif-tabs", "ldif-raw"}
# What the engine refuses, divided or not: a suffix in another spelling, lines that slapadd does not read.
REFUSED = {"suffix-spaces", "ldif-narrow-names"}
# What one slapadd loads, however many are asked for.
ALONE = {case.name for case in CASES if case.name.startswith("suffix-root")}
# One key has 65,535 entries and one more attempt of the last: a range in one run, here the list itself.
REPEATED = "ranges"


def one_stream(case: Case, ldif: Path, directory: Path) -> Path | None:
    """All that several slapadds are fed, for one of them; None where there are no slices."""
    source = SlicedLdif([ldif], [case.settings.suffix], directory / "shared.ldif")
    plan = source.plan(1, Meter("plan"))
    if plan.unknown or plan.leaves < 2:
        return None
    server_id = int(case.options[case.options.index("-S") + 1]) if "-S" in case.options else 0
    last_mod = "lastmod off" not in case.settings.database_lines
    now = BuildOptions(Path(), (ldif,)).input_time() if last_mod else None
    own = (plan.shared, plan.cuts[0], plan.leaves)
    whole = Slice(source, *own, now, server_id=server_id, first=0, stamp=None, aliases=shapes.SAME)
    stream = directory / "stream.ldif"
    with stream.open("wb") as file, with_counters(Meter("feed")) as counters:
        assert whole.feed(file.fileno(), counters) == (plan.leaves, False)
    return stream


def compared(case: Case, directory: Path, count: int = 3) -> tuple[list[str], bool]:
    """What differs, and whether there were slices."""
    ldif = case.write(directory)
    stream = one_stream(case, ldif, directory)
    with closing(fresh(case)) as oracle, closing(fresh(case)) as ours:
        slapadd(oracle, stream or case.write_oracle(directory), *case.options)
        how = ("--shards", count, "--json")
        facts = build(ours, ldif, *how, *case.options, engine="slapadd").ok().facts
        unforeseen = frozenset() if stream else case.unforeseen
        found = differences(oracle.database_dir, ours.database_dir, unforeseen)
        return found, facts["shards"] != 1


@pytest.mark.rows(3)
@pytest.mark.long("sorted-places")
@pytest.mark.parametrize("case", [one for one in PARAMETERS if one.id not in REFUSED | ALONE | {REPEATED}])
def test_equal_to_one_slapadd(case: Case, tmp_path: Path) -> None:
    require_fitting(case)
    found, divided = compared(case, tmp_path)
    assert divided == (case.name not in UNDIVIDED)
    assert not found, f"{case.shows}:\n" + "\n".join(found)


@pytest.mark.long
def test_lists_that_become_ranges_across_slices(tmp_path: Path) -> None:
    """Only the key that got one attempt more than entries is another: as a list, which is no less right."""
    found, divided = compared(BY_NAME[REPEATED], tmp_path)
    assert divided
    first, key = found
    assert first.startswith("name: row")
    assert re.match(r"name: key \w+: 3 IDs \[0, 2, 65536\] != 65535 IDs \[2, 3, 4, 5\]", key)


@pytest.mark.rows(2)
@pytest.mark.parametrize("seed", range(1, 5))
def test_random_trees(seed: int, tmp_path: Path) -> None:
    found, _ = compared(random_case(seed), tmp_path, 2 + seed)
    assert not found, "\n".join(found)


def test_nothing_gets_lost_or_changed_on_the_way(tmp_path: Path) -> None:
    """What slapadds are fed is the input, in another order."""
    case = BY_NAME["broad"]
    ldif = case.write(tmp_path)
    stream = one_stream(case, ldif, tmp_path)
    assert stream is not None
    ditseed("compare", ldif, stream).ok()


@pytest.mark.long
def test_an_input_with_parents_in_front_stays_as_it_is(tmp_path: Path) -> None:
    """Then the result is that of slapadd with the input itself."""
    write_people(tmp_path / "people.ldif", SUFFIX, 400)
    wanted = settings("objectClass,uid eq", "cn,sn pres,eq,sub")
    with closing(server(wanted)) as one:
        one.slapadd(tmp_path / "people.ldif")
        (tmp_path / "whole.ldif").write_text(one.slapcat())
    case = Case("whole", "", wanted, (tmp_path / "whole.ldif").read_text)
    with closing(fresh(case)) as oracle, closing(fresh(case)) as ours:
        slapadd(oracle, tmp_path / "whole.ldif")
        done = build(ours, tmp_path / "whole.ldif", "--shards", 7, "--json", engine="slapadd").ok()
        assert done.facts["shards"] == 7
        assert not differences(oracle.database_dir, ours.database_dir)
