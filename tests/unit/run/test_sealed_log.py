"""The log of a run: what it says is done stays done, whatever ends the process, and nothing else is; its
lock: one run at a time, and the lock goes with its holder."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from loader.errors import CatalogueDamaged, FileUnsafe, Locked, NoSpace, RunMismatch
from loader.run.log import FILE, Catalogue, Log, Row, exclusive, forget, locking_process
from tests.support.processes import announced

OPTIONS = {"uri": "ldap://provider", "page": 1000, "inputs": [["/a", 1]], "suffix": None}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Catalogue]:
    (tmp_path / "run").mkdir(mode=0o700)
    with closing(Catalogue(tmp_path / "run")) as one:
        yield one


def reopened(one: Catalogue) -> Catalogue:
    """A log has its file open only once it has written to it."""
    one.close()
    return Catalogue(one.directory)


def steps(one: Catalogue) -> list[str]:
    return [step.name for step in reopened(one).steps()]


def lines(one: Catalogue) -> list[bytes]:
    return one.path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_the_file_is_ours_alone_whatever_the_umask(opened: Catalogue, umask: int) -> None:
    before = os.umask(umask)
    try:
        opened.begin("export", OPTIONS)
    finally:
        os.umask(before)
    assert opened.path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("options", [OPTIONS, {"inputs": ["/srv/\udcff.ldif"]}], ids=["usual", "not UTF-8"])
def test_a_new_run_begins_and_the_same_options_go_on(opened: Catalogue, options: dict[str, object]) -> None:
    assert opened.begin("export", options) is False
    assert reopened(opened).begin("export", options) is True


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
    with pytest.raises(RunMismatch, match=rf"other options \({named}\)"):
        opened.begin(verb, options)
    assert opened.begin("export", OPTIONS) is True, "a refusal changes nothing"


def test_a_step_is_done_once_it_is_finished(opened: Catalogue) -> None:
    assert opened.facts_of("scan", dict) is None
    opened.finish("scan", {"entries": 3, "names": ["cn"]}, 3, 1.5)
    opened.finish("schema", {}, 0, 0.0)  # it found nothing, and is done all the same
    opened.finish("copy", {}, 0, 0)
    opened.undo("copy")
    again = reopened(opened)
    assert [(step.name, step.entries, step.seconds) for step in again.steps()] == [("scan", 3, 1.5), ("schema", 0, 0.0)]
    facts = [again.facts_of(name, dict) for name in ("scan", "schema", "copy")]
    assert facts == [{"entries": 3, "names": ["cn"]}, {}, None]


def test_partitions_belong_to_their_step(opened: Catalogue) -> None:
    opened.finish_partition("read", "000", {"entries": 5})
    opened.finish_partition("read", "001", {"entries": 7})
    opened.finish_partition("other", "000", {"entries": 1})
    opened.finish_partition("read", "000", {"entries": 6})
    assert reopened(opened).partitions("read", dict) == {"000": {"entries": 6}, "001": {"entries": 7}}


WRITER = """
import os, signal, sys
from pathlib import Path
from loader.run.log import Catalogue
one = Catalogue(Path(sys.argv[1]))
one.begin("export", {})
for number in range(1000):
    one.finish_partition("read", str(number), {"entries": number})
    os.write(1, f"{number}\\n".encode())
"""


def test_after_kill_9_all_that_was_promised_stands(tmp_path: Path) -> None:
    """Killed at a moment that nobody chose, while it writes."""
    with announced(WRITER, tmp_path) as writer:
        assert writer.stdout is not None
        promised = [writer.stdout.readline() for _ in range(20)]
        writer.kill()
        promised += writer.stdout.readlines()
    assert writer.returncode == -signal.SIGKILL
    found = Catalogue(tmp_path).partitions("read", dict)
    assert found.keys() >= {word.strip() for word in promised if word.endswith("\n")}
    assert len(found) < 1000


@pytest.mark.parametrize(
    "damaged",
    [
        *(lambda last, cut=cut: last[:-cut] for cut in (1, 20, 200)),
        lambda last: bytes(100) + last[100:],  # a power failure may keep the end of a line and not its beginning
    ],
    ids=["cut 1", "cut 20", "cut 200", "block never written"],
)
def test_a_last_line_that_is_not_whole_is_dropped_and_written_over(
    opened: Catalogue, damaged: Callable[[bytes], bytes]
) -> None:
    opened.finish("read", {"entries": 5}, 5, 1)
    opened.finish("load", {"text": "x" * 300}, 5, 1)
    first, last = lines(opened)
    opened.path.write_bytes(first + damaged(last))
    again = reopened(opened)
    assert (again.facts_of("read", dict), again.facts_of("load", dict)) == ({"entries": 5}, None)
    again.finish("load", {}, 0, 0)
    assert steps(again) == ["read", "load"]


def test_whoever_looks_changes_nothing(opened: Catalogue) -> None:
    """The line that is cut short may be one that another process is writing."""
    opened.finish("read", {}, 5, 1)
    content = opened.path.read_bytes() + b"half of a li"
    opened.path.write_bytes(content)
    assert Catalogue(opened.directory).facts_of("read", dict) == {}
    assert opened.path.read_bytes() == content


def test_a_row_that_does_not_fit_on_the_disk_leaves_nothing(opened: Catalogue) -> None:
    opened.finish("read", {}, 5, 1)
    content = opened.path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(content) + 100, hard))
    try:
        with pytest.raises((NoSpace, OSError)):
            opened.finish("load", {"text": "x" * 300}, 5, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert opened.path.read_bytes() == content
    opened.finish("load", {}, 0, 0)
    assert steps(opened) == ["read", "load"]


def test_threads_write_whole_lines(opened: Catalogue) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: opened.finish_partition("read", str(n), {"n": n}), range(100)))
    assert reopened(opened).partitions("read", dict) == {str(n): {"n": n} for n in range(100)}


def test_no_link_is_followed(opened: Catalogue, tmp_path: Path) -> None:
    target = tmp_path / "of somebody else"
    target.write_bytes(b"")
    os.link(target, opened.path)
    with pytest.raises(FileUnsafe):
        opened.finish("read", {}, 0, 0)
    assert target.read_bytes() == b""


def test_a_damaged_one_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"rubbish\n" * 1000)
    for _ in range(2):  # the second time nothing is there
        forget(tmp_path)
        assert Catalogue(tmp_path).steps() == []


def exchanged(before: bytes, after: bytes) -> Callable[[list[bytes]], list[bytes]]:
    def change(rows: list[bytes]) -> list[bytes]:
        assert before in b"".join(rows)
        return [row.replace(before, after) for row in rows]

    return change


@pytest.mark.parametrize(
    "change",
    [
        exchanged(b'"name": "load"', b'"name": "publish"'),
        exchanged(b'"entries": 5', b'"entries": 7'),
        exchanged(b'"verb": "export"', b'"verb": "build"'),
        exchanged(b'"page": 1000', b'"page": 500'),
        exchanged(b'"undone": true', b'"undone": false'),
        exchanged(b'"kind": "partition of read"', b'"kind": "step"'),
        exchanged(b" {", b"  {"),
        exchanged(b"\n", b"\r\n"),
        lambda rows: rows[1:],
        lambda rows: [rows[0], *rows[2:]],
        lambda rows: [*rows[:-2], rows[-1]],
        lambda rows: [rows[0], rows[2], rows[1], *rows[3:]],
        lambda rows: [rows[0], *rows],
        lambda rows: [*rows, rows[-1]],
        lambda rows: [*rows, b"\n"],
        lambda rows: [*rows, b"{}\n"],
    ],
)
def test_what_was_changed_since_is_not_believed(
    opened: Catalogue, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    """What a step found years ago decides what is done today."""
    opened.begin("export", OPTIONS)
    opened.finish("read", {"entries": 5}, 5, 1)
    opened.finish_partition("read", "a", {"entries": 5})
    opened.undo("read")
    opened.finish("load", {}, 5, 1)
    opened.path.write_bytes(b"".join(change(lines(opened))))
    with pytest.raises(CatalogueDamaged) as caught:
        Catalogue(opened.directory)
    assert "--restart" in str(caught.value.advice())


def test_the_row_of_another_run_is_not_believed(opened: Catalogue, tmp_path: Path) -> None:
    other = Catalogue(tmp_path)
    for one in (opened, other):
        one.begin("export", OPTIONS)
    other.finish("read", {"entries": 5}, 5, 1)
    other.close()
    opened.path.write_bytes(b"".join([*lines(opened), lines(other)[-1]]))
    with pytest.raises(CatalogueDamaged):
        Catalogue(opened.directory)


def test_a_log_that_is_not_strict_skips_what_is_damaged(tmp_path: Path) -> None:
    with closing(Log(tmp_path, "x.log")) as log:
        log.append(*(Row("change", str(n), {"n": n}) for n in range(3)))
    log.path.write_bytes(log.path.read_bytes().replace(b'{"n": 1}', b'{"n": 8}'))
    assert [row.facts["n"] for row in Log(tmp_path, "x.log", strict=False).of("change")] == [0, 2]
    assert all(json.loads(line.partition(b" ")[2]) for line in log.path.read_bytes().splitlines())


LOCK_HOLDER = """
import sys, time
from pathlib import Path
from loader.run.log import exclusive
with exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_one_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with announced(LOCK_HOLDER, lock) as holder:
        with pytest.raises(Locked, match=rf"process {holder.pid}\)"), exclusive(lock):
            pytest.fail("held twice")
        holder.kill()
    with pytest.raises(KeyError), exclusive(lock):  # kill -9 freed it
        raise KeyError
    with exclusive(lock):  # and an error
        pass


def test_who_holds_it_is_told_without_holding_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert locking_process(lock) is None
    lock.write_text("999999999999\n")  # nothing is left of a number that was longer
    with exclusive(lock):
        assert locking_process(lock) == int(lock.read_text()) == os.getpid()
        # The number in the file may be that of a container; ours is told. No process number is as large as this one.
        lock.write_text("4194305\n")
        assert locking_process(lock) == os.getpid()
    assert locking_process(lock) is None
