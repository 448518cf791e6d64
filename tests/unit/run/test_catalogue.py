"""The catalogue: what it says is done stays done, whatever ends the process, and nothing else is."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loader.errors import CatalogueDamaged, CatalogueVersion, RunMismatch
from loader.run import catalogue
from loader.run.catalogue import Catalogue

OPTIONS = {"uri": "ldap://provider", "page": 1000, "inputs": [["/a", 1]], "suffix": None}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Catalogue]:
    one = Catalogue(tmp_path / "run")
    yield one
    one.close()


def reopened(one: Catalogue) -> Catalogue:
    one.close()
    return Catalogue(one.directory)


def test_the_run_directory_is_ours_alone(opened: Catalogue) -> None:
    assert opened.directory.stat().st_mode & 0o777 == 0o700


def test_a_new_run_begins_and_the_same_options_go_on(opened: Catalogue) -> None:
    assert opened.begin("export", OPTIONS) is False
    again = reopened(opened)
    assert again.begin("export", OPTIONS) is True
    again.close()


@pytest.mark.parametrize(
    ("verb", "options", "named"),
    [
        ("export", {**OPTIONS, "page": 500}, "page"),
        ("export", {**OPTIONS, "page": 500, "suffix": "o=x"}, "page, suffix"),
        ("export", {**OPTIONS, "inputs": [["/a", 2]]}, "inputs"),
        ("export", {**OPTIONS, "more": 1}, "more"),
        ("build", OPTIONS, "verb"),
    ],
)
def test_other_options_are_refused_and_named(
    opened: Catalogue, verb: str, options: dict[str, object], named: str
) -> None:
    opened.begin("export", OPTIONS)
    with pytest.raises(RunMismatch) as caught:
        opened.begin(verb, options)
    assert f"other options ({named})" in str(caught.value)
    assert opened.begin("export", OPTIONS) is True, "a refusal changes nothing"


def test_a_step_is_done_once_it_is_finished(opened: Catalogue) -> None:
    assert opened.found("scan") is None
    opened.finish("scan", {"entries": 3, "names": ["cn"]}, 3, 1.5)
    again = reopened(opened)
    assert again.found("scan") == {"entries": 3, "names": ["cn"]}
    (done,) = again.steps()
    assert (done.name, done.entries, done.seconds) == ("scan", 3, 1.5)
    again.close()


def test_a_step_that_found_nothing_is_done_all_the_same(opened: Catalogue) -> None:
    opened.finish("schema", {}, 0, 0.0)
    assert opened.found("schema") == {}


def test_steps_come_in_the_order_they_were_done(opened: Catalogue) -> None:
    for name in ("scan", "load", "check"):
        opened.finish(name, {}, 0, 0.0)
    assert [step.name for step in opened.steps()] == ["scan", "load", "check"]


def test_partitions_belong_to_their_step(opened: Catalogue) -> None:
    opened.finish_partition("read", "000", {"entries": 5})
    opened.finish_partition("read", "001", {"entries": 7})
    opened.finish_partition("other", "000", {"entries": 1})
    opened.finish_partition("read", "000", {"entries": 6})
    again = reopened(opened)
    assert again.partitions("read") == {"000": {"entries": 6}, "001": {"entries": 7}}
    again.close()


WRITER = """
import os, signal, sys
from pathlib import Path
from loader.run.catalogue import Catalogue
one = Catalogue(Path(sys.argv[1]))
one.begin("export", {})
for number in range(1000):
    one.finish_partition("read", str(number), {"entries": number})
    os.write(1, f"{number}\\n".encode())
"""


def test_after_kill_9_all_that_was_promised_stands(tmp_path: Path) -> None:
    """Killed at a moment that nobody chose, while it writes."""
    argv = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        promised = [writer.stdout.readline() for _ in range(20)]
        writer.kill()
        promised += writer.stdout.readlines()
    assert writer.returncode == -signal.SIGKILL
    again = Catalogue(tmp_path)
    found = again.partitions("read")
    again.close()
    assert found.keys() >= {word.strip() for word in promised if word.endswith("\n")}
    assert len(found) < 1000


def test_another_format_is_refused(opened: Catalogue) -> None:
    opened.close()
    with sqlite3.connect(opened.directory / catalogue.FILE) as database:
        database.execute(f"PRAGMA user_version={catalogue.FORMAT + 1}")
    database.close()
    with pytest.raises(CatalogueVersion, match=f"format {catalogue.FORMAT + 1}"):
        Catalogue(opened.directory)


@pytest.mark.parametrize("content", [b"rubbish" * 1000, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_one_is_an_error_with_a_way_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / catalogue.FILE).write_bytes(content)
    with pytest.raises(CatalogueDamaged) as caught:
        Catalogue(tmp_path)
    assert "--restart" in str(caught.value.advice())
    catalogue.forget(tmp_path)
    again = Catalogue(tmp_path)
    assert again.begin("export", OPTIONS) is False
    again.close()


def test_to_forget_what_never_was_is_fine(tmp_path: Path) -> None:
    catalogue.forget(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE step SET facts = '{\"entries\": 7}'",
        "UPDATE step SET facts = x'00'",
        "UPDATE step SET facts = 'rubbish'",
        "UPDATE step SET finished = 0",
        "UPDATE step SET finished = 'never'",
        "UPDATE step SET name = 'publish'",
        "UPDATE step SET seal = ''",
        "UPDATE partition SET facts = '{\"entries\": 0}'",
        "UPDATE partition SET step = 'read', name = 'other'",
        "UPDATE run SET options = '{}'",
        "UPDATE run SET verb = 'build'",
        "INSERT INTO run SELECT * FROM run",
        "DELETE FROM run",
        "DROP TABLE step; CREATE TABLE step (name, facts)",
        "DROP TABLE run; CREATE VIEW run AS SELECT 1 AS id",
    ],
)
def test_what_was_changed_since_is_not_believed(opened: Catalogue, change: str) -> None:
    """What a step found years ago decides what is done today."""
    opened.begin("export", OPTIONS)
    opened.finish("read", {"entries": 5}, 5, 1)
    opened.finish_partition("read", "a", {"entries": 5})
    opened.close()
    with sqlite3.connect(opened.directory / catalogue.FILE) as database:
        database.executescript(change)
    database.close()
    with pytest.raises(CatalogueDamaged) as caught:
        everything(opened.directory)
    assert "--restart" in str(caught.value.advice())


def everything(directory: Path) -> None:
    again = Catalogue(directory)
    try:
        again.begin("export", OPTIONS)
        again.has_work()
        again.ended()
        for step in ("read", "publish"):
            again.found(step)
            again.partitions(step)
    finally:
        again.close()


def test_the_row_of_another_run_is_not_believed(opened: Catalogue, tmp_path: Path) -> None:
    other = Catalogue(tmp_path / "other")
    for one in (opened, other):
        one.begin("export", OPTIONS)
    other.finish("read", {"entries": 5}, 5, 1)
    other.close()
    opened.close()
    with sqlite3.connect(opened.directory / catalogue.FILE) as database:
        database.execute("ATTACH ? AS other", [str(tmp_path / "other" / catalogue.FILE)])
        database.execute("INSERT INTO step SELECT * FROM other.step")
    database.close()
    with pytest.raises(CatalogueDamaged):
        everything(opened.directory)
