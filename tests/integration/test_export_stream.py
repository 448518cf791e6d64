"""`ditseed export DIR -o -`: the same LDIF through a pipe, and no reader takes a part of it for the whole."""

from __future__ import annotations

import itertools
import pty
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.golden.tables import differences
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import write_hard_tree, write_people
from loader.errors import Cancelled, LdifTruncated, MdbDamaged, NoSpace, ReaderGone, UsageProblem
from loader.mdb import meta
from tests.support.command import Done, arguments_of, ditseed, environment, start
from tests.support.dumped import records, together

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
BROKEN = "ditseed: the LDIF ends early"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    """A stopped server with people, everything that is hard, and containers that stand below newer ones."""
    home = tmp_path_factory.mktemp("stopped")
    write_people(home / "people.ldif", SUFFIX, 3000)
    write_hard_tree(home / "hard.ldif", SUFFIX)
    with closing(Slapd(Settings(), form="conf")) as made:
        made.slapadd(home / "people.ldif", "-w")
        made.slapadd((home / "hard.ldif").read_text().split("\n\n", 1)[1])
        units = [f"ou=u{number},{SUFFIX}" for number in range(4)]
        made.start()
        made.ldapmodify("".join(map(_unit, units)))
        for lower, upper in itertools.pairwise([f"ou=people,{SUFFIX}", *units]):
            made.ldapmodify(_move(lower, upper))
        made.stop()
        yield made


def _unit(dn: str) -> str:
    name = dn.partition(",")[0].partition("=")[2]
    return f"dn: {dn}\nchangetype: add\nobjectClass: organizationalUnit\nou: {name}\n\n"


def _move(dn: str, above: str) -> str:
    rdn = dn.partition(",")[0]
    return f"dn: {dn}\nchangetype: modrdn\nnewrdn: {rdn}\ndeleteoldrdn: 0\nnewsuperior: {above}\n\n"


def _words(source: Slapd, *more: object) -> tuple[object, ...]:
    return ("export", source.database_dir, "-o", "-", "--progress", "none", *more)


def _stream(source: Slapd, *more: object) -> Done:
    return ditseed(*_words(source, *more))


def _piped(*commands: list[str]) -> Done:
    """Through real pipes of a shell, as in the manual."""
    line = " | ".join(shlex.join(command) for command in commands)
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, env=environment())
    return Done(done.returncode, done.stdout, done.stderr)


def _slapadd(server: Slapd) -> list[str]:
    where = [*server.config_arguments, "-b", SUFFIX]
    return [str(word) for word in server.installation.command("slapadd", "-q", *where)]


# --- the same as files ----------------------------------------------------------------------------


@pytest.mark.long
def test_as_the_files(stopped: Slapd, tmp_path: Path) -> None:
    """Byte for byte, whatever the jobs and the compression; nothing else is on stdout."""
    out = tmp_path / "out"
    made = ditseed("export", stopped.database_dir, "-o", out, "--compress", "none", "--json").ok()
    files = "".join(path.read_text() for path in sorted(out.glob("*.ldif")))
    assert any("newer entry is above" in note for note in made.facts["notes"])
    for jobs in (1, 2, 7):
        assert _stream(stopped, "--jobs", jobs).ok().out == files
    unpacked = _piped(arguments_of(*_words(stopped, "--compress", "zstd")), ["zstdcat"]).ok()
    assert unpacked.out == files
    told = _stream(stopped, "--json").ok().err
    assert f'"content_checksum": "{made.facts["content_checksum"]}"' in told
    assert f'"entries": {made.facts["entries"]}' in told


@pytest.mark.long
def test_into_slapadd_and_build(stopped: Slapd) -> None:
    with closing(Slapd(Settings(), form="conf")) as theirs, closing(Slapd(Settings(), form="conf")) as ours:
        export = arguments_of(*_words(stopped))
        _piped(export, _slapadd(theirs)).ok()
        where = ("--config", ours.config_path, "-b", SUFFIX)
        _piped(export, arguments_of("build", "-", *where)).ok()
        assert sorted(records(theirs.slapcat())) == sorted(together(record) for record in records(stopped.slapcat()))
        assert not differences(theirs.database_dir, ours.database_dir, frozenset())


def test_a_branch_of_a_running_server(stopped: Slapd) -> None:
    stopped.start()
    made = records(_stream(stopped, "-b", f"ou=groups,{SUFFIX}").ok().out)
    stopped.stop()
    assert made
    assert all(record[0].endswith(f"ou=groups,{SUFFIX}") for record in made)


# --- a part is not taken for the whole --------------------------------------------------------------


def _damaged(stopped: Slapd, directory: Path) -> Path:
    """A page of entries is gone, in the middle of what is read."""
    path = stopped.database_dir / "data.mdb"
    with path.open("rb") as whole:  # looks as large as its map
        data = bytearray(whole.read(meta.read_meta(path).used))
    page = data.rfind(b"user0002900@example.com") // 4096 * 4096
    data[page + 8 : page + 64] = b"\xff" * 56
    (directory / "data.mdb").write_bytes(data)
    return directory


@pytest.mark.long
def test_a_damaged_source(stopped: Slapd, tmp_path: Path) -> None:
    source = _damaged(stopped, tmp_path)
    words = ("export", source, "-o", "-", "--progress", "none")
    done = ditseed(*words)
    assert done.status == MdbDamaged.exit_status, done
    assert BROKEN in done.out
    with closing(Slapd(Settings(), form="conf")) as target:
        loaded = _piped(arguments_of(*words), [*_slapadd(target)])
        assert "could not parse entry" in loaded.err
        where = ("--config", target.config_path, "-b", SUFFIX, "--target", tmp_path / "new")
        built = _piped(arguments_of(*words), arguments_of("build", "-", *where))
        assert LdifTruncated.code in built.err
        assert not (tmp_path / "new" / "data.mdb").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped(stopped: Slapd, number: signal.Signals) -> None:
    """Its reader is slow, so that it waits in the middle."""
    process = start(*_words(stopped))
    assert process.stdout is not None
    process.stdout.read(1)
    process.send_signal(number)
    time.sleep(3)  # it hears the signal within 50 ms, later on a busy machine; then it waits 30 s for its reader
    rest, told = process.communicate()
    assert process.returncode == 128 + number
    assert Cancelled.code in told
    assert rest.endswith("\n\n")
    assert BROKEN in rest


def test_a_reader_that_goes(stopped: Slapd) -> None:
    done = _piped(arguments_of(*_words(stopped)), ["head", "-c", "1000"])
    assert done.status == ReaderGone.exit_status
    assert "hint: Look for the reason in its own messages" in done.err
    assert len(done.out) == 1000


def test_wrong_uses(stopped: Slapd) -> None:
    line = shlex.join(arguments_of(*_words(stopped)))
    for redirected, error, words in [
        ("> /dev/full", NoSpace, "standard output"),
        (">&-", UsageProblem, "closed"),
        ("--restart", UsageProblem, "--restart is only for"),
        ("--timeout read=5", UsageProblem, "--timeout is only for"),
        ("--page 9", UsageProblem, "--page is only for a server"),
    ]:
        done = subprocess.run(f"{line} {redirected}", shell=True, capture_output=True, text=True, env=environment())
        assert done.returncode == error.exit_status, done
        assert words in done.stderr
        assert "Traceback" not in done.stderr
        assert not done.stdout
    of_server = ditseed("export", "-H", "ldapi:///", "-b", SUFFIX, "-o", "-")
    assert of_server.status == UsageProblem.exit_status
    assert "give a directory" in of_server.err
    assert not Path("-").exists()


def test_no_packed_bytes_on_a_terminal(stopped: Slapd) -> None:
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0), open(theirs, "wb", buffering=0) as terminal:
        done = subprocess.run(
            arguments_of(*_words(stopped, "--compress", "zstd")),
            stdout=terminal,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
    assert done.returncode == UsageProblem.exit_status
    assert "which is a terminal" in done.stderr
