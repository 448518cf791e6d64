"""Starts the longest tests first, so that no worker is still busy with one after all others have finished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")

# Beginnings of the IDs of tests that take more than ten seconds, mostly waiting (see `bin/test --costs FILE`).
LONGEST = (
    "tests/installed/",
    "tests/campaign/test_faults.py::test_the_same_command",
    "tests/campaign/test_swaps.py",
    "tests/compat/test_topologies.py",
    "tests/fuzz/test_short.py::test_hostile_files",
    "tests/golden/test_indexes.py::test_liblmdb_and_slapd_go_on_with_it",
    "tests/golden/test_verify.py",
    "tests/integration/test_bad_input.py::test_the_time_limit_of_the_provider",
    "tests/integration/test_catch_up.py::test_what_is_printed_mends_it",
    "tests/integration/test_filter.py::test_the_core_answers_as_slapd_does",
    "tests/integration/test_hidden.py::test_changes_between",
    "tests/integration/test_refresh.py",
    "tests/integration/test_providers.py",
    "tests/integration/test_run_reports.py::test_every_verb_ends_in_words",
    "tests/integration/test_secrets.py",
    "tests/integration/test_slow_network.py::test_a_second_away",
    "tests/integration/test_stock_debian.py",
    "tests/integration/test_storage_plan.py::test_its_script",
    "tests/integration/test_storage_watch.py",
    "tests/resume/test_export_cut.py",
    "tests/resume/test_kill.py::test_killed_at_every_point",
    "tests/resume/test_migrate.py",
)


def begun_first(items: Sequence[Item], names: Sequence[str], workers: int) -> list[Item]:
    """Returns the items in another order. `names`: their IDs.

    xdist's `worksteal` gives each worker an equal part of the list, and idle workers take tests from the end of another
    part. So each part begins with some of the longest tests. Tests that match the same line of LONGEST stay together,
    because they may share a fixture of their module.
    """
    groups: dict[str, list[Item]] = {}
    rest = []
    for item, name in zip(items, names, strict=True):
        line = next((one for one in LONGEST if name.startswith(one)), None)
        (rest if line is None else groups.setdefault(line, [])).append(item)
    found: list[Item] = []
    for number in range(workers):
        first = [item for group in list(groups.values())[number::workers] for item in group]
        room = max(0, (len(items) - len(found)) // (workers - number) - len(first))
        found += first + rest[:room]
        rest = rest[room:]
    return found + rest
