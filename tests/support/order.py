"""The longest tests are begun first, so that no worker ends with one of them alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")

# Beginnings of IDs: what takes more than ten seconds, much of it waiting. `bin/test --costs FILE` tells.
LONGEST = (
    "tests/installed/",
    "tests/campaign/test_faults.py::test_the_same_command",
    "tests/campaign/test_symlinks.py",
    "tests/compat/test_topologies.py",
    "tests/fuzz/test_short.py::test_hostile_files",
    "tests/golden/test_indexes_file.py::test_liblmdb_and_slapd_go_on_with_it",
    "tests/golden/test_verify.py::test_a_database_that_slapd_has_worked_on_is_sound",
    "tests/golden/test_verify.py::test_every_damage_that_matters_is_reported",
    "tests/integration/test_bad_input.py::test_the_time_limit_of_the_provider",
    "tests/integration/test_catch_up.py::test_what_is_printed_mends_it",
    "tests/integration/test_filter.py::test_the_core_answers_as_slapd_does",
    "tests/integration/test_hidden.py::test_changes_between",
    "tests/integration/test_refresh.py",
    "tests/integration/test_reports.py::test_every_verb_ends_in_words",
    "tests/integration/test_secrets.py::test_a_broken_connection",
    "tests/integration/test_secrets.py::test_a_killed_export",
    "tests/integration/test_secrets.py::test_an_export_shows",
    "tests/integration/test_slow_network.py::test_a_second_away",
    "tests/integration/test_stock_debian.py",
    "tests/integration/test_storage_plan.py::test_its_script",
    "tests/integration/test_storage_watch.py::test_the_delayed_leg",
    "tests/resume/test_export_cut.py",
    "tests/resume/test_kill.py::test_killed_at_every_point",
    "tests/resume/test_migrate.py",
)


def begun_first(items: Sequence[Item], names: Sequence[str], workers: int) -> list[Item]:
    """The items in another order. names: their IDs.

    xdist's `worksteal` gives each worker a part of the list, one after the other and as long as each other, and takes
    from the end of a part what another worker has time for: so each part begins with some of the longest.
    """
    first = [item for item, name in zip(items, names, strict=True) if name.startswith(LONGEST)]
    rest = [item for item, name in zip(items, names, strict=True) if not name.startswith(LONGEST)]
    found: list[Item] = []
    for number in range(workers):
        size = (len(items) - len(found)) // (workers - number)
        mine = first[number::workers]
        found += mine + rest[: size - len(mine)]
        rest = rest[size - len(mine) :] if size > len(mine) else rest
    return found
