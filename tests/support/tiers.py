"""Decides by markers which tests `bin/test` and `bin/test --quick` leave out. `bin/test --all` runs all.

`long`: only `--all` runs the test, because it takes more than 0.6 processor seconds. `rows(N, "ID", ...)`: of a
parametrised test, `bin/test` runs N rows, evenly spread over their sorted IDs, and the named rows, because they run
lines that no other test does. `slow`: a unit test of more than a fifth of a processor second, which `--quick` leaves
out. `long("ID", ...)` and `slow("ID", ...)` apply only to the rows that they name. `bin/test --costs FILE` measures
each test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest

OPTION = "--tier"
COLLECTED = pytest.StashKey[tuple[pytest.Item, ...]]()  # all tests of the requested modules
QUICK, MAIN, ALL = "quick", "main", "all"

# Releases of OpenLDAP that only --all tests: on a new machine, making their root directory takes half a minute.
RELEASES = ("bullseye", "bookworm", "forky")


def left_out(tier: str, items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Returns the items that `tier` leaves to a longer tier. `items`: all tests of their modules."""
    if tier == ALL:
        return set()
    parametrised: dict[str, list[pytest.Item]] = defaultdict(list)
    left = set()
    for item in items:
        if _is(item, "long") or any(release in item.name for release in RELEASES):
            left.add(item)
        elif item.get_closest_marker("rows"):
            parametrised[item.nodeid.partition("[")[0]].append(item)
        if tier == QUICK and _is(item, "slow"):
            left.add(item)
    for rows in parametrised.values():
        marker = rows[0].get_closest_marker("rows")
        assert marker is not None
        count, *named = marker.args
        chosen = spread([item.nodeid for item in rows], count)
        left |= {item for item in rows if item.nodeid not in chosen and _row(item) not in named}
    return left


def spread(names: Sequence[str], count: int) -> set[str]:
    """Returns `count` names, evenly spread over their sorted order."""
    found = sorted(names)
    return {found[index * len(found) // count] for index in range(count)}


def unknown_rows(items: Iterable[pytest.Item]) -> set[str]:
    """Returns rows that a marker names but no test has: a renamed parameter would silently change its tier."""
    rows, named = set(), set()
    for item in items:
        test = item.nodeid.partition("[")[0]
        rows.add((test, _row(item)))
        for name in ("long", "rows", "slow"):
            for marker in item.iter_markers(name):
                named |= {(test, row) for row in marker.args[name == "rows" :]}
    return {f"{test}[{row}]" for test, row in named - rows}


def _is(item: pytest.Item, name: str) -> bool:
    return any(not marker.args or _row(item) in marker.args for marker in item.iter_markers(name))


def _row(item: pytest.Item) -> str:
    return item.name.partition("[")[2].removesuffix("]")
