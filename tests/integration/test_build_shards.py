"""`ditseed build --engine slapadd --shards N`: what one slapadd would refuse is refused, and named in the input; and
`build -` with that engine."""

from __future__ import annotations

import gzip
import os
import re
import signal
import subprocess
import threading
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.golden.tables import differences
from fixtures.slapd import Slapd
from fixtures.trees import record, write_people
from loader.errors import EmptyInput, EntryRefused, LdifTruncated, LoaderError, NoSpace, UsageProblem
from tests.support.command import Done, ditseed, piped
from tests.support.disks import loop_filesystem

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
SHARDS = 3


@pytest.fixture
def records(tmp_path: Path) -> list[str]:
    """The suffix, containers, and 300 people, each without the blank line after it."""
    write_people(tmp_path / "people.ldif", SUFFIX, 300)
    return (tmp_path / "people.ldif").read_text().strip().split("\n\n")


def _write(path: Path, records: list[str]) -> Path:
    path.write_text("\n\n".join(records) + "\n\n")
    return path


def _line(path: Path, dn: str) -> int:
    return path.read_text().split("\n").index(f"dn: {dn}") + 1


def _build(target: Slapd, *words: object) -> Done:
    where = ("--config", target.config_path, "-b", SUFFIX, "--engine", "slapadd")
    return ditseed("build", *where, "--shards", SHARDS, *words)


def _refused(target: Slapd, done: Done, error: type[LoaderError], *words: str) -> None:
    assert done.refused(error, *words)
    assert not (target.database_dir / "data.mdb").exists()


def _dn(record: str) -> str:
    return record.partition("\n")[0].removeprefix("dn: ")


@pytest.mark.long("150")
@pytest.mark.parametrize("at", [-1, 150, 1])
def test_a_refused_entry_is_named_with_its_place(target: Slapd, records: list[str], tmp_path: Path, at: int) -> None:
    """A leaf of the last slice, of the second, and the container that is in all of them; the input in two files."""
    dn = _dn(records[at])
    records[at] = record(dn, [("objectClass", "person"), ("cn", "x")]).strip()
    one = _write(tmp_path / "1.ldif", records[:100])
    two = _write(tmp_path / "2.ldif", records[100:])
    done = _build(target, one, two)
    path = one if at == 1 else two
    _refused(target, done, EntryRefused, f"{dn} was refused", f"({path}, line {_line(path, dn)})")


@pytest.mark.long("places0", "places1")
@pytest.mark.parametrize("places", [(250, 251), (0, 200), (50, 299)])
def test_an_entry_twice_is_named(target: Slapd, records: list[str], tmp_path: Path, places: tuple[int, int]) -> None:
    """In one slice; one that all have; in two slices, which tells both places."""
    first, second = places
    dn = _dn(records[first])
    again = dn.upper().replace(",", " , ")
    records.insert(second, records[first].replace(dn, again))
    ldif = _write(tmp_path / "twice.ldif", records)
    done = _build(target, ldif)
    _refused(target, done, EntryRefused, "was refused")
    told = {int(line) for line in re.findall(r"twice.ldif, line (\d+)", done.err)}
    lines = [_line(ldif, dn), _line(ldif, again)]
    assert set() < told <= set(lines)
    if places == (50, 299):
        assert f"({ldif}, line {lines[0]} and {ldif}, line {lines[1]})" in done.err


def test_shards_are_for_slapadd_and_many_entries(target: Slapd, records: list[str], tmp_path: Path) -> None:
    build = ("build", _write(tmp_path / "plain.ldif", records), "--config", target.config_path, "-b", SUFFIX)
    _refused(target, ditseed(*build, "--shards", 2), UsageProblem)
    assert ditseed(*build, "--engine", "slapadd", "--json").ok().facts["shards"] == 1


# --- from a pipe: kept packed until it is loaded, and then gone --------------------------------------

SAME_TIME = {"SOURCE_DATE_EPOCH": "1767225600"}


@pytest.fixture(scope="module")
def ldif(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Complete, so that two loads of it are the same."""
    path = tmp_path_factory.mktemp("spool") / "people.ldif"
    write_people(path, SUFFIX, 500)
    with closing(Slapd()) as server:
        server.slapadd(path)
        path.write_text(server.slapcat())
    return path


def _piped(target: Slapd, text: bytes, *words: object, source: object = "-", **env: str) -> Done:
    where = ("--config", target.config_path, "-b", SUFFIX, "--engine", "slapadd")
    return piped(text, "build", source, *where, *words, env={**SAME_TIME, **env})


def _spooled(target: Slapd) -> list[Path]:
    return list((target.database_dir / ".ditseed-build").glob("spool/*"))


@pytest.mark.long
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("packed", [False, True])
def test_as_from_a_file(target: Slapd, ldif: Path, shards: int, packed: bool) -> None:
    text = gzip.compress(ldif.read_bytes()) if packed else ldif.read_bytes()
    done = _piped(target, text, "--shards", shards).ok()
    assert re.search(r"spool: the stream is stored compressed in .*\.ditseed-build/spool .* free\)", done.err)
    assert not _spooled(target)
    with closing(Slapd()) as other:
        _piped(other, b"", "--shards", shards, source=ldif).ok()
        assert not differences(target.database_dir, other.database_dir, frozenset())


@pytest.mark.long
def test_a_named_pipe_between_files(target: Slapd, ldif: Path, tmp_path: Path) -> None:
    entries = ldif.read_text().split("\n\n")
    pipe, rest = tmp_path / "pipe", tmp_path / "rest.ldif"
    os.mkfifo(pipe)
    rest.write_text("\n\n".join(entries[100:]))
    feeding = threading.Thread(target=pipe.write_text, args=["\n\n".join(entries[:100]) + "\n\n"])
    feeding.start()
    done = _piped(target, b"", rest, "--shards", 2, source=pipe).ok()
    feeding.join()
    assert "entries" in done.out
    assert target.slapcat() == ldif.read_text()


@pytest.mark.long
@pytest.mark.parametrize("point", ["spool.middle", "scan.start", "slices.middle", "merge.middle"])
def test_killed_and_begun_again(target: Slapd, ldif: Path, point: str) -> None:
    """The pipe brings it once more; nothing of the first is left."""
    text = ldif.read_bytes()
    killed = _piped(target, text, "--shards", 2, DITSEED_KILL_AT=point)
    assert killed.status == -signal.SIGKILL
    (left,) = _spooled(target)
    assert left.stat().st_mode & 0o777 == 0o600
    _piped(target, text, "--shards", 2).ok()
    assert not _spooled(target)
    assert target.slapcat() == ldif.read_text()


def test_what_is_refused_can_be_looked_up(target: Slapd, ldif: Path) -> None:
    bad = record(f"cn=bad,{SUFFIX}", [("objectClass", "person"), ("cn", "bad")])
    done = _piped(target, b"# by hand\n" + ldif.read_bytes() + bad.encode(), "--shards", 2)
    done.refused(EntryRefused)
    (kept,) = _spooled(target)
    (line,) = re.findall(rf"\({re.escape(str(kept))}, line (\d+)\)", done.err)
    told = subprocess.check_output(["zstdcat", kept], text=True).split("\n")[int(line) - 1]
    assert told == f"dn: cn=bad,{SUFFIX}"


def test_wrong_input(target: Slapd, ldif: Path) -> None:
    text = ldif.read_bytes()
    for given, error in [(b"", EmptyInput), (text + b"\n\nditseed: the LDIF ends early\n\n", LdifTruncated)]:
        _refused(target, _piped(target, given, "--shards", 2), error, "standard input")
        assert not _spooled(target)


def test_a_full_disk(ldif: Path) -> None:
    text = ldif.read_bytes() + b"".join(map(_noise, range(12)))
    with loop_filesystem(8) as full, closing(Slapd()) as target:
        _piped(target, text, "--target", full, "--shards", 2).refused(NoSpace, "spool")
        assert not list(full.glob(".ditseed-build/spool/*"))
        assert not (full / "data.mdb").exists()


def _noise(number: int) -> bytes:
    """An entry of 1.3 MiB that zstd makes no smaller than one."""
    pairs = [("objectClass", "device"), ("cn", f"large{number}"), ("jpegPhoto", os.urandom(1 << 20))]
    return record(f"cn=large{number},{SUFFIX}", pairs).encode()
