"""Which tests `bin/test` runs, and which only `bin/test --all` does: a table of matrices, and a list of long tests.
Other lists have the tests that stay in `bin/test` all the same, as they run code that nothing else there runs, and the
unit tests that `bin/test --quick` leaves to `bin/test`.

Of the tests whose ID begins as a row says, and that no row above has left out, `kept` run in `bin/test`: evenly spread
over the sorted IDs, so that they are the same in every order and on every worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

OPTION = "--tier"
COLLECTED = pytest.StashKey[frozenset[str]]()  # IDs of all tests of the modules that were asked for
QUICK, MAIN, ALL = "quick", "main", "all"
LONG_TESTS = Path(__file__).with_name("long_tests.txt")
COVERING_TESTS = Path(__file__).with_name("covering_tests.txt")
LONG_UNITS = Path(__file__).with_name("long_units.txt")


@dataclass(frozen=True)
class Matrix:
    """where: the beginning of IDs; holds: what else is in them. instead: what runs in `bin/test` where none of these
    does."""

    where: str
    kept: int
    why: str
    instead: str = ""
    holds: str = ""

    def left_out(self, names: Iterable[str]) -> set[str]:
        """Those of `names` that only --all runs."""
        found = sorted(name for name in names if name.startswith(self.where) and self.holds in name)
        chosen = {index * len(found) // self.kept for index in range(self.kept)}
        return {name for index, name in enumerate(found) if index not in chosen}


_RELEASE = "slapd of another release in a root directory of its own"
_CASES = "the golden cases, which golden/test_equal.py runs all"
_CAMPAIGN = "a campaign, here in short"
_MATRIX = "the same code with the next row"
_LONG_LISTS = "65,536 entries and more"
_INTERRUPTED = "each verb in each phase; the code that waits is one"

# Each has a root directory of its own, which takes half a minute to make on a new machine. Debian 13's stays.
_OTHER_RELEASES = tuple(
    Matrix("tests/", 0, _RELEASE, "tests/golden/test_published.py", suite)
    for suite in ("bullseye", "bookworm", "forky")
)

TABLE = (
    *_OTHER_RELEASES,
    Matrix("tests/installed/test_main_job.py", 0, "builds packages", "tests/unit/test_packaged.py"),
    Matrix("tests/installed/test_packages.py", 0, "builds packages", "tests/unit/test_packaged.py"),
    Matrix(
        "tests/integration/test_storage_watch_ocfs2.py", 0, "a VM of its own", "tests/integration/test_storage_watch.py"
    ),
    Matrix(
        "tests/integration/test_other_servers.py",
        0,
        "OpenDJ in a JVM, 389 Directory Server",
        "tests/integration/test_export.py",
    ),
    Matrix("tests/campaign/test_symlinks.py::test_nothing_outside_is_touched", 1, _CAMPAIGN),
    Matrix("tests/campaign/test_faults.py::test_each_call", 0, _CAMPAIGN, "tests/campaign/test_faults.py"),
    Matrix(
        "tests/campaign/test_faults.py::test_the_same_command_ends_as_if_nothing_had_been[add",
        0,
        _CAMPAIGN,
        "tests/resume/test_kill_add.py",
    ),
    Matrix("tests/campaign/test_faults.py::test_the_same_command", 1, _CAMPAIGN),
    Matrix(
        "tests/golden/test_verify.py::test_more_damages",
        0,
        "more damages of the same kinds",
        "tests/golden/test_verify.py",
    ),
    Matrix(
        "tests/golden/test_damages_of_2_7.py::test_more_damages",
        0,
        "more damages of the same kinds",
        "tests/golden/test_damages_of_2_7.py",
    ),
    Matrix(
        "tests/fuzz/test_short.py::test_more_hostile_files",
        0,
        "more inputs of the same kind",
        "tests/fuzz/test_short.py",
    ),
    Matrix("tests/golden/test_migrated.py::test_there_and_back", 1, _MATRIX),
    Matrix("tests/integration/test_seed_converted.py::test_there_and_back", 1, _MATRIX),
    *(
        Matrix(
            f"tests/integration/{name}",
            0,
            "a conversion at every point, or of servers of both releases",
            "tests/integration/test_seed_converted.py",
        )
        for name in ("test_seed_converted.py::test_killed", "test_seed_converted.py::test_entries", "test_upgrade.py")
    ),
    Matrix("tests/golden/test_indexes_of_2_7.py", 2, _MATRIX),
    Matrix("tests/integration/test_backup_remote.py::test_restored", 1, _MATRIX),
    Matrix("tests/integration/test_backup_remote.py::test_a_location", 2, _MATRIX),
    Matrix("tests/integration/test_backup_remote.py::test_a_package", 1, _MATRIX),
    *(
        Matrix(
            f"tests/integration/test_backup_remote.py::test_{name}",
            0,
            "on S3 and over SFTP, cut off, killed, hostile",
            "tests/integration/test_backup_remote.py",
        )
        for name in (
            *("each_verb", "either", "the_server", "sshd", "run_killed", "one_at", "a_changed"),
            *("a_manifest", "names", "a_host", "what_else", "no_secret", "nothing_stays"),
        )
    ),
    *(
        Matrix(
            f"tests/integration/test_backup_ldif.py::test_{name}",
            0,
            "backups of LDIF, through the other verbs",
            "tests/integration/test_backup_ldif.py",
        )
        for name in ("each", "slapadd", "beside", "a_flipped", "killed", "what_is")
    ),
    *(
        Matrix(
            f"tests/integration/test_backup_sets.py::test_{name}",
            0,
            "sets of backups killed, pruned, refused, far away",
            "tests/integration/test_backup_sets.py",
        )
        for name in ("where", "without", "encrypted", "incr", "a_killed", "one_dir", "what_is", "on_another")
    ),
    Matrix("tests/integration/test_backup_encrypted.py::test_each_recipient", 1, _MATRIX),
    Matrix("tests/integration/test_backup_encrypted.py::test_one_flipped", 2, _MATRIX),
    *(
        Matrix(
            f"tests/integration/test_backup_encrypted.py::test_{name}",
            0,
            "encrypted: each verb, on S3, killed, looked through",
            "tests/integration/test_backup_encrypted.py",
        )
        for name in ("on_another", "without", "nothing_of", "killed", "extract", "an_identity")
    ),
    Matrix("tests/bench/test_runs.py::test_both_make_as", 0, "OpenDJ's makeldif in a JVM", "tests/bench/test_runs.py"),
    Matrix("tests/bench/test_runs.py", 8, "what bin/bench compares with"),
    Matrix("tests/golden/test_shards.py::test_equal_to_one_slapadd", 5, _CASES),
    Matrix("tests/golden/test_shards.py::test_random_trees", 1, _MATRIX),
    Matrix(
        "tests/golden/test_shards.py::test_lists_that_become_ranges", 0, "65,535 entries", "tests/golden/test_shards.py"
    ),
    Matrix("tests/golden/test_indexes.py::test_equal_to_slapindex", 6, _CASES),
    Matrix("tests/golden/test_spellings.py", 8, _MATRIX),
    Matrix("tests/golden/test_versions.py", 6, _RELEASE),
    Matrix("tests/golden/test_glued.py::test_every_database", 6, _MATRIX),
    Matrix("tests/golden/test_refused.py::test_what_slapadd_says", 8, "the list against slapadd"),
    Matrix("tests/integration/test_build.py", 36, "six ways to build; each test, some of the ways"),
    Matrix("tests/integration/test_build_spool.py", 5, _MATRIX),
    *(
        Matrix(
            f"tests/integration/test_run_reports.py::test_{name}",
            0,
            "the page and the metrics of another verb or ending, or in a browser",
            "tests/integration/test_run_reports.py",
        )
        for name in (
            *("a_browser", "a_failed", "a_run", "a_directory", "a_seeding", "a_glued"),
            *("an_add", "an_export", "what_was"),
        )
    ),
    Matrix("tests/integration/test_index_use.py::test_which_index", 8, _MATRIX),
    Matrix("tests/integration/test_index_costs.py::test_the_bytes_are", 1, _MATRIX),
    Matrix("tests/integration/test_index_costs.py::test_the_bytes_of_a_kind_are", 1, _MATRIX),
    Matrix(
        "tests/integration/test_index_costs.py::test_keys_that_became",
        0,
        _LONG_LISTS,
        "tests/integration/test_index_costs.py",
    ),
    Matrix("tests/integration/test_copies.py::test_a_copy", 6, _MATRIX),
    Matrix("tests/integration/test_copies.py::test_a_refresh", 3, _MATRIX),
    Matrix("tests/integration/test_copies.py::test_longer_lists", 0, _LONG_LISTS, "tests/golden/test_equal.py"),
    Matrix(
        "tests/unit/mdb/test_hold_back.py::test_a_key_of_too_many", 0, _LONG_LISTS, "tests/unit/mdb/test_context_csn.py"
    ),
    Matrix("tests/integration/test_export_mdb.py::test_every_golden_database", 10, _CASES),
    Matrix("tests/integration/test_hostile_text.py::test_the_diagnostic", 12, _MATRIX),
    Matrix("tests/integration/test_hostile_text.py::test_hostile_names", 7, _MATRIX),
    Matrix("tests/integration/test_hostile_text.py::test_names_of_files", 6, _MATRIX),
    Matrix("tests/integration/test_never_answers.py::test_ctrl_c", 8, _INTERRUPTED),
    Matrix("tests/integration/test_never_answers.py::test_a_time_limit", 3, _INTERRUPTED),
    Matrix("tests/integration/test_truncated.py::test_damaged_before", 10, _MATRIX),
    Matrix("tests/integration/test_truncated.py::test_cut_in_the_middle", 1, _MATRIX),
    Matrix("tests/integration/test_truncated.py::test_that_cannot_be_read", 4, _MATRIX),
    Matrix("tests/integration/test_suffix_spellings.py", 6, _MATRIX),
    Matrix("tests/integration/test_providers.py::test_one_is_killed[", 1, _MATRIX),
    Matrix("tests/integration/test_tls_refused.py::test_a_bad", 8, _MATRIX),
    Matrix("tests/integration/test_tls_refused.py::test_a_good", 3, _MATRIX),
    Matrix("tests/integration/test_catch_up.py", 10, _RELEASE),
    Matrix("tests/integration/test_refresh_versions.py", 1, _RELEASE),
    Matrix(
        "tests/integration/test_refresh.py::test_what_syncrepl_itself_cannot_follow",
        0,
        "five refreshes beside a restless provider",
        "tests/integration/test_refresh.py",
    ),
    Matrix("tests/integration/test_refresh.py::test_a_provider_that_never_rests", 1, _MATRIX),
    Matrix("tests/integration/test_refresh.py::test_changes_of_every_kind", 1, _MATRIX),
    Matrix("tests/integration/test_refresh.py::test_killed_and_run_again", 1, _MATRIX),
    Matrix(
        "tests/integration/test_refresh.py::test_killed_at_any_moment",
        0,
        _INTERRUPTED,
        "tests/integration/test_refresh.py",
    ),
    Matrix("tests/integration/test_chroots.py", 2, _RELEASE),
    Matrix(
        "tests/integration/test_container.py",
        0,
        "the container of fixtures/container",
        "tests/integration/test_harness.py",
    ),
    Matrix(
        "tests/integration/test_makeldif.py", 0, "OpenDJ's makeldif in a JVM", "tests/unit/synthetic/test_makeldif.py"
    ),
    Matrix(
        "tests/integration/test_templates.py::test_opendj_imports_it",
        0,
        "OpenDJ in a JVM",
        "tests/integration/test_templates.py",
    ),
    Matrix(
        "tests/integration/test_replica_plan.py::test_a_slow_link",
        0,
        "a seeding over a slow link",
        "tests/integration/test_replica_plan.py",
    ),
    Matrix(
        "tests/integration/test_ansible.py",
        0,
        "ansible-core from PyPI, which takes a second for each task",
        "tests/unit/test_ansible_collection.py",
    ),
    Matrix("tests/compat/test_topologies.py::test_topology", 1, _MATRIX),
    Matrix("tests/golden/test_glued.py::test_no_csn", 2, _MATRIX),
    Matrix("tests/golden/test_glued.py::test_the_context_csn", 2, _MATRIX),
    Matrix("tests/integration/test_glued.py::test_a_seeded_glued_consumer", 1, _MATRIX),
    Matrix("tests/integration/test_forecast_of_server.py::test_few", 1, _MATRIX),
    Matrix("tests/integration/test_sync_leases.py::test_lent", 1, _MATRIX),
    Matrix("tests/integration/test_sync_leases.py::test_the_command", 1, _MATRIX),
    Matrix("tests/integration/test_tune.py::test_other_versions", 2, _RELEASE),
    Matrix("tests/integration/test_tune.py::test_killed_while_it_indexes", 1, _MATRIX),
    Matrix("tests/golden/test_verify.py::test_databases_of_other_versions", 1, _RELEASE),
    Matrix("tests/integration/test_awkward.py::test_all_of_it_is_exported", 1, _MATRIX),
    Matrix("tests/integration/test_hidden.py::test_hidden_attributes_are_refused", 3, _MATRIX),
    Matrix("tests/integration/test_secrets.py::test_a_killed_export_leaves_none", 2, _MATRIX),
    Matrix("tests/integration/test_hidden.py::test_hiding_is_found", 1, _MATRIX),
    Matrix("tests/integration/test_runbook.py::test_the_runbook_seeds", 2, _MATRIX),
    Matrix("tests/integration/test_secrets.py::test_an_export_shows_the_password", 1, _MATRIX),
    Matrix("tests/integration/test_seed_live.py::test_a_consumer_that_provides", 1, _MATRIX),
    Matrix("tests/integration/test_seed_live.py::test_a_replica_of_a_restless", 1, _MATRIX),
    Matrix("tests/integration/test_seed_live.py::test_a_provider_without", 1, _MATRIX),
    Matrix("tests/integration/test_seed_online.py::test_killed_and_begun_again", 2, _INTERRUPTED),
    Matrix("tests/integration/test_bad_input.py::test_a_limit_of_the_provider", 3, _MATRIX),
    Matrix("tests/compat/test_backends.py::test_backend", 7, _MATRIX),
    Matrix("tests/integration/test_limits.py::test_what_is_printed_lifts_it", 5, _MATRIX),
    Matrix("tests/integration/test_empty_suffix.py::test_a_replica_goes_on", 2, _MATRIX),
    Matrix("tests/cli/test_tune_cmd.py::test_killed_and_run_again", 4, _MATRIX),
    Matrix("tests/integration/test_harness.py", 4, "what fixtures/ offers to tests"),
    Matrix("tests/integration/test_seed_moved.py::test_renamed_while_it_is_read", 4, _MATRIX),
    Matrix("tests/integration/test_partial.py", 10, _MATRIX),
    Matrix("tests/integration/test_private_configuration.py::test_nothing_else", 4, _MATRIX),
    Matrix("tests/integration/test_private_configuration.py::test_every_name", 5, _MATRIX),
    Matrix("tests/integration/test_overlays.py::test_what_is_exported", 5, _MATRIX),
    Matrix("tests/integration/test_stock_debian.py::test_online", 1, _RELEASE),
    Matrix("tests/integration/test_stock_debian.py::test_the_runbook", 1, _RELEASE),
    Matrix("tests/integration/test_stock_debian.py::test_add_as_root", 1, _RELEASE),
    Matrix("tests/integration/test_truncated.py::test_tune_of", 6, _MATRIX),
    Matrix("tests/resume/test_kill.py::test_killed_at_every_point", 1, _MATRIX),
    Matrix("tests/integration/test_backup.py::test_restore_killed", 1, _MATRIX),
    Matrix("tests/integration/test_backup_faults.py::test_run_killed", 1, _MATRIX),
    Matrix("tests/integration/test_backup_faults.py::test_drill_killed", 1, _MATRIX),
    Matrix("tests/integration/test_backup_faults.py::test_the_disk_fills", 1, _MATRIX),
    Matrix("tests/integration/test_backup_faults.py::test_the_repository", 1, _MATRIX),
    Matrix("tests/resume/test_kill.py::test_killed_at_random_moments", 2, _MATRIX),
    Matrix("tests/resume/test_kill.py::test_another_strategy_takes_over", 1, _MATRIX),
    Matrix("tests/resume/test_kill.py::test_stopped_by_a_signal", 2, _MATRIX),
    Matrix("tests/resume/test_export_cut.py::test_cut_at_random", 1, _MATRIX),
    Matrix(
        "tests/integration/test_storage_layers.py",
        0,
        "other kinds of layers in the storage VM",
        "tests/integration/test_storage_check.py",
    ),
    Matrix("tests/integration/test_storage_plan.py::test_its_script", 1, _MATRIX),
    Matrix(
        "tests/integration/test_storage_mended.py::test_what_is_printed",
        0,
        "two minutes in the storage VM",
        "tests/integration/test_storage_check.py",
    ),
    Matrix(
        "tests/integration/test_storage_plan.py::test_redundant",
        0,
        "half a minute in the storage VM",
        "tests/unit/test_storage_plan.py",
    ),
    Matrix(
        "tests/integration/test_storage_plan.py::test_plan_takes_the_names",
        0,
        "LVM's own answers to names, in the storage VM",
        "tests/unit/test_storage_plan.py",
    ),
    Matrix(
        "tests/integration/test_storage_migrate.py::test_from_ext4_to_xfs",
        0,
        "half a minute in the storage VM",
        "tests/resume/test_migrate.py",
    ),
    Matrix("tests/integration/test_storage_bench.py::test_what_a_stop_leaves", 1, _MATRIX),
    Matrix("tests/resume/test_migrate.py::test_killed_and_run_again", 1, _MATRIX),
    Matrix("tests/resume/test_migrate.py::test_killed_and_rolled_back", 1, _MATRIX),
    Matrix("tests/resume/test_migrate.py::test_a_rollback_is_killed", 1, _MATRIX),
    Matrix("tests/resume/test_migrate.py::test_what_was_written_after", 1, _MATRIX),
    Matrix("tests/resume/test_kill_build.py::test_killed_at_every_point", 1, _MATRIX),
    Matrix("tests/resume/test_kill_build.py::test_killed_once", 4, _MATRIX),
    Matrix("tests/compat/test_definitions.py::test_syntax", 5, _MATRIX),
    Matrix("tests/compat/test_definitions.py::test_rule", 7, _MATRIX),
    Matrix("tests/compat/test_overlays.py", 8, _MATRIX),
    Matrix("tests/compat/test_overlays_seeded.py", 4, _MATRIX),
    Matrix("tests/compat/test_options.py", 3, _MATRIX),
    Matrix("tests/unit/test_spread.py::test_pieces_are_even", 3, _MATRIX),
    Matrix("tests/unit/test_spread.py::test_less_is_known", 3, _MATRIX),
    Matrix("tests/unit/test_changed.py::test_what_a_change_can_affect", 3, _MATRIX),
    Matrix("tests/unit/mdb/test_format3.py::test_a_copy_has_all", 3, _MATRIX),
    Matrix("tests/unit/server/test_session.py::test_a_bad_certificate", 4, _MATRIX),
    Matrix("tests/resume/test_export_cut.py::test_killed_at_random_moments_while", 1, _MATRIX),
    Matrix("tests/integration/test_damaged_pages.py::test_whoever_reads_it", 1, _MATRIX),
    Matrix("tests/integration/test_seed_online.py::test_it_converges", 1, _MATRIX),
    Matrix("tests/integration/test_glued.py::test_killed_anywhere", 1, _MATRIX),
    Matrix("tests/integration/test_catch_up.py::test_it_comes_as_foreseen", 1, _MATRIX),
    Matrix("tests/integration/test_secrets.py::test_a_load_shows", 1, _MATRIX),
    Matrix("tests/integration/test_backup.py::test_ended_while_it_streams", 1, _MATRIX),
    Matrix("tests/integration/test_generate_learn.py::test_databases_of_both", 1, _MATRIX),
)


def left_out(tier: str, names: Iterable[str]) -> set[str]:
    """Those of `names` that `tier` leaves to a longer one."""
    listed = set(names)
    if tier == ALL:
        return set()
    left = left_to_all(listed)
    return left | _listed(LONG_UNITS, listed) if tier == QUICK else left


def left_to_all(names: Iterable[str]) -> set[str]:
    """Those of `names` that `bin/test` leaves to `bin/test --all`."""
    listed = set(names)
    left: set[str] = set()
    for row in TABLE:
        left |= row.left_out(listed - left)
    return (left | _listed(LONG_TESTS, listed)) - _listed(COVERING_TESTS, listed)


def _listed(file: Path, names: set[str]) -> set[str]:
    known = set(names_in(file))
    return {name for name in names if name in known or name.partition("[")[0] in known}


def names_in(file: Path) -> Iterator[str]:
    """IDs of `file`; without brackets, of all rows of a test."""
    module = ""
    for line in file.read_text().splitlines():
        if line.startswith("tests/"):
            module = line
        elif line.startswith(" "):
            yield f"{module}::{line.strip()}"
