"""`ditseed build - --engine slapadd`: what comes through a pipe is kept packed until it is loaded, and then is gone."""

from __future__ import annotations

import gzip
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.golden.tables import differences
from fixtures.limits import loop_filesystem, missing_loop_filesystem
from fixtures.slapd import Slapd
from fixtures.trees import record, write_people
from loader.errors import EmptyInput, EntryRefused, LdifTruncated, NoSpace, UsageProblem
from tests.support.command import Done, piped
from tests.support.require import require

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
SAME_TIME = {"SOURCE_DATE_EPOCH": "1767225600"}


@pytest.fixture
def target() -> Iterator[Slapd]:
    with closing(Slapd()) as server:
        yield server


@pytest.fixture(scope="module")
def ldif(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Complete, so that two loads of it are the same."""
    path = tmp_path_factory.mktemp("spool") / "people.ldif"
    write_people(path, SUFFIX, 500)
    with closing(Slapd()) as server:
        server.slapadd(path)
        path.write_text(server.slapcat())
    return path


def _build(target: Slapd, text: bytes, *words: object, source: object = "-", **env: str) -> Done:
    where = ("--config", target.config_path, "-b", SUFFIX, "--engine", "slapadd")
    return piped(text, "build", source, *where, *words, env={**SAME_TIME, **env})


def _spooled(target: Slapd) -> list[Path]:
    return sorted((target.database_dir / ".ditseed-build").glob("spool/*"))


@pytest.mark.long
@pytest.mark.parametrize("packed", [False, True])
def test_as_from_a_file(target: Slapd, ldif: Path, packed: bool) -> None:
    text = gzip.compress(ldif.read_bytes()) if packed else ldif.read_bytes()
    done = _build(target, text).ok()
    assert re.search(r"spool: what comes is kept packed in .*\.ditseed-build/spool .* free\)", done.err)
    assert not _spooled(target)
    with closing(Slapd()) as other:
        _build(other, b"", source=ldif).ok()
        assert not differences(target.database_dir, other.database_dir, frozenset())


@pytest.mark.long
def test_a_named_pipe_between_files(target: Slapd, ldif: Path, tmp_path: Path) -> None:
    entries = ldif.read_text().split("\n\n")
    pipe, rest = tmp_path / "pipe", tmp_path / "rest.ldif"
    os.mkfifo(pipe)
    rest.write_text("\n\n".join(entries[100:]))
    feeding = threading.Thread(target=pipe.write_text, args=["\n\n".join(entries[:100]) + "\n\n"])
    feeding.start()
    done = _build(target, b"", rest, source=pipe).ok()
    feeding.join()
    assert "entries" in done.out
    assert target.slapcat() == ldif.read_text()


@pytest.mark.long
@pytest.mark.parametrize("point", ["spool.middle", "scan.start", "load.middle"])
def test_killed_and_begun_again(target: Slapd, ldif: Path, point: str) -> None:
    """The pipe brings it once more; nothing of the first is left."""
    text = ldif.read_bytes()
    killed = _build(target, text, DITSEED_KILL_AT=point)
    assert killed.status == -signal.SIGKILL
    (left,) = _spooled(target)
    assert left.stat().st_mode & 0o777 == 0o600
    _build(target, text).ok()
    assert not _spooled(target)
    assert target.slapcat() == ldif.read_text()


def test_what_is_refused_can_be_looked_up(target: Slapd, ldif: Path) -> None:
    bad = record(f"cn=bad,{SUFFIX}", [("objectClass", "person"), ("cn", "bad")])
    done = _build(target, b"# by hand\n" + ldif.read_bytes() + bad.encode())
    assert done.status == EntryRefused.exit_status, done
    assert f"cn=bad,{SUFFIX}" in done.err
    (kept,) = _spooled(target)
    assert f"dn: cn=bad,{SUFFIX}" in subprocess.check_output(["zstdcat", kept], text=True)


def test_wrong_input(target: Slapd, ldif: Path) -> None:
    text = ldif.read_bytes()
    for given, error in [(b"", EmptyInput), (text + b"\n\nditseed: the LDIF ends early\n\n", LdifTruncated)]:
        done = _build(target, given)
        assert done.status == error.exit_status, done
        assert "standard input" in done.err
        assert not _spooled(target)
        assert not (target.database_dir / "data.mdb").exists()
    asked = _build(target, text, "--dry-run")
    assert asked.status == UsageProblem.exit_status
    assert "into a file first" in asked.err


def test_a_full_disk(ldif: Path) -> None:
    """What does not fit is said, and does not stay."""
    require(missing_loop_filesystem())
    text = ldif.read_bytes() + b"".join(map(_noise, range(12)))
    with loop_filesystem(8) as full, closing(Slapd()) as target:
        done = _build(target, text, "--target", full)
        assert done.status == NoSpace.exit_status, done
        assert "spool" in done.err
        assert not list(full.glob(".ditseed-build/spool/*"))
        assert not (full / "data.mdb").exists()


def _noise(number: int) -> bytes:
    """An entry of 1.3 MiB that zstd makes no smaller than one."""
    photo = ("jpegPhoto", os.urandom(1 << 20))
    name = f"large{number}"
    text = record(f"cn={name},{SUFFIX}", [("objectClass", "device"), ("cn", name), photo])
    return text.encode()
