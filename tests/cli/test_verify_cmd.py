"""`ditseed verify` as an operator meets it: its words, its JSON, its exit statuses."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from loader.errors import EXIT_DIFFERENT, NoSuchPath, NotLmdb, UsageProblem
from loader.mdb.environment import require_table
from tests.support.command import ditseed
from tests.support.mapped import opened

pytestmark = pytest.mark.slapd


@pytest.fixture
def broken(people_server: Slapd, tmp_path: Path) -> Path:
    """A copy whose index of uid has lost a key."""
    path = Path(shutil.copy(people_server.database_dir / "data.mdb", tmp_path / "broken.mdb"))
    with opened(path, writable=True) as environment:
        index = require_table(environment, "uid")
        with environment.begin(write=True) as transaction, transaction.cursor(index) as cursor:
            assert cursor.first()
            assert transaction.delete(cursor.key(), db=index)
    return path


def test_beside_a_running_slapd(people_server: Slapd) -> None:
    done = ditseed("verify", "--config", people_server.config_path).ok()
    facts = dict(line.split("  ", 1) for line in done.out.splitlines())
    assert facts["verdict"].strip() == "sound"
    assert facts["level"].strip() == "indexes"
    assert facts["entries"].strip() == "1,029"
    assert "verify: " in done.err


def test_without_configuration_it_looks_as_far_as_the_tree(people_server: Slapd) -> None:
    done = ditseed("verify", people_server.database_dir, "--json", "--progress", "none").ok()
    assert done.facts["level"] == "tree"
    assert done.facts["sound"]
    assert done.facts["problems"] == done.facts["notes"] == []
    assert done.err == ""


@pytest.mark.long
def test_drift_is_told_with_attribute_and_entry(people_server: Slapd, broken: Path) -> None:
    where = (broken, "--config", people_server.config_path)
    assert ditseed("verify", broken).ok().status == 0, "the tree is sound"
    done = ditseed("verify", *where, "--json")
    assert done.status == EXIT_DIFFERENT
    (problem,) = done.facts["problems"]
    assert (problem["kind"], problem["count"]) == ("indexes.missing", 1)
    (told,) = problem["examples"]
    assert told["attribute"] == "uid"
    assert told["dn"].startswith("uid=")
    words = ditseed("verify", *where).out
    assert done.facts["mending"] in words
    assert done.facts["mending"].endswith(f"{people_server.config_path} -b {people_server.suffix} uid")
    assert re.search(r"^verdict +1 problems$", words, re.MULTILINE)
    assert f"{told['dn']}: uid: key" in words


def test_what_keeps_from_looking_has_a_status_of_its_own(people_server: Slapd, tmp_path: Path) -> None:
    rubbish = tmp_path / "data.mdb"
    rubbish.write_bytes(b"x" * 10_000)
    for arguments, error, words in [
        ((tmp_path / "none",), NoSuchPath, "no such file"),
        ((rubbish,), NotLmdb, "not an LMDB database"),
        ((), UsageProblem, "say what to verify"),
        ((people_server.database_dir, "--verify", "indexes"), UsageProblem, "needs --config"),
    ]:
        ditseed("verify", *arguments).refused(error, words)
