"""Indexes made again from a stored database: each table is the one that slapindex makes of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from fixtures.golden.case import Case
from fixtures.golden.tables import differences
from fixtures.slapd import Slapd
from loader import indexes
from loader.errors import NotProven
from loader.mdb import contents, edits
from loader.mdb.meta import DATA
from loader.operations.made_with import by_core
from loader.operations.verify import given_to_core
from loader.progress import Meter
from loader.server import configuration
from loader.sinks import changing as core
from loader.sinks.mdb import Resources
from tests.golden.everything import BY_NAME, CASES
from tests.support.golden import fresh, require_fitting, slapadd

pytestmark = pytest.mark.slapd

UNKNOWN = "authzTo"  # it has no index keys


def _parameter(case: Case) -> ParameterSet:
    return pytest.param(case, id=case.name, marks=[pytest.mark.heavy] if case.heavy else [])


@contextmanager
def loaded(case: Case, directory: Path) -> Iterator[Slapd]:
    ldif = case.write(directory) if case.oracle is None else case.write_oracle(directory)
    with closing(fresh(case)) as server:
        slapadd(server, ldif, *case.options)
        yield server


def configured(server: Slapd) -> list[str]:
    found = configuration.read(server.config_path).database(server.suffix)
    return [one.attribute for key, one in indexes.parse(found.indexes).items() if key != indexes.DEFAULT]


def rebuilt(server: Slapd, attributes: list[str], scratch: Path) -> None:
    """In the server's own database."""
    config = configuration.read(server.config_path)
    given = given_to_core(config, config.database(server.suffix), server.database_dir)
    by_core(given, server.database_dir, attributes, scratch, Meter("index"))


@pytest.mark.rows(6, "suffix-root-context")
@pytest.mark.parametrize("case", [_parameter(case) for case in CASES])
def test_equal_to_slapindex(case: Case, tmp_path: Path) -> None:
    require_fitting(case)
    with loaded(case, tmp_path) as server:
        attributes, ours = configured(server), server.database_dir
        if not attributes:
            pytest.skip("a case without an index")
        rebuilt(server, attributes, tmp_path)
        shutil.copytree(ours, tmp_path / "ours")
        edits.empty_indexes(ours, [name.partition(";")[0] for name in attributes])
        server.tool("slapindex", "-q", *server.config_arguments, "-b", server.suffix)
        found = differences(ours, tmp_path / "ours")
    assert not found, f"{case.shows}:\n" + "\n".join(found)


@pytest.mark.long
def test_only_those_that_are_asked_for(tmp_path: Path) -> None:
    """An index that was emptied is whole again, and one that was not named stays as it is, empty."""
    with loaded(BY_NAME["broad"], tmp_path) as server:
        before = contents.indexes(server.database_dir)
        edits.empty_indexes(server.database_dir, ["cn", "sn"])
        rebuilt(server, ["cn"], tmp_path)
        after = contents.indexes(server.database_dir)
    assert after == {**before, "sn": 0}
    assert before["cn"] > 0


def test_what_the_core_does_not_know_is_refused_before_anything_is_changed(tmp_path: Path) -> None:
    with loaded(BY_NAME["broad"], tmp_path) as server:
        place = server.database_dir
        config = configuration.read(server.config_path)
        database = config.database(server.suffix)
        odd = replace(database, indexes=(*database.indexes, f"{UNKNOWN} eq"))
        given, before = given_to_core(config, odd, place), (place / DATA).read_bytes()
        means = Resources(64 << 20, 2, tmp_path)
        for name in (UNKNOWN, "no-such-attribute"):
            with pytest.raises(NotProven):
                core.rebuild(place, given, (name,), means, Meter("index"))
        assert (place / DATA).read_bytes() == before
