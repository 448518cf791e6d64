"""A data.mdb that is cut, empty, damaged or cannot be read, also in the middle of the work: an error with code and hint
from every verb that reads one. A mapped file would end the process by SIGBUS, without a word."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import people, write_people
from loader import errors
from loader.errors import EXIT_DIFFERENT, EXIT_OK, Internal, LoaderError, MdbDamaged
from loader.mdb import meta
from tests.support.command import Done, ditseed, start
from tests.support.require import require
from tests.support.seeding import bind
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

PEOPLE = 20_000
KNOWN = {
    kind.exit_status: kind.code
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, LoaderError) and kind is not Internal
}


def copy_sparse(source: Path, target: Path) -> None:
    """A database file is as large as slapd maps it, and mostly holes; here it ends with what is in use."""
    subprocess.run(["cp", "--sparse=always", source, target], check=True)
    os.truncate(target, meta.read_meta(source).used)


@dataclass(frozen=True)
class Place:
    """A database directory to be damaged, an undamaged one, and an empty consumer of it."""

    directory: Path
    good: Path
    consumer: Slapd
    scratch: Path

    @property
    def data(self) -> Path:
        return self.directory / meta.DATA

    def commands(self) -> dict[str, tuple[object, ...]]:
        out = self.scratch / "out"
        target = ("--config", self.consumer.config_path, "-b", self.consumer.suffix)
        return {
            "export": ("export", self.directory, "-o", out),
            "export -": ("export", self.directory, "-o", "-"),
            "compare": ("compare", self.directory, self.good),
            "compare second": ("compare", self.good, self.directory),
            "verify": ("verify", self.directory, "--verify", "pages"),
            "verify tree": ("verify", self.directory, "--verify", "tree"),
            "clone": ("clone", self.directory, out, "--reflink", "never"),
            "clone --compact": ("clone", self.directory, out, "--compact"),
            "clone -": ("clone", self.directory, "-"),  # into a receiver
            "backup": ("backup", "run", "--init", "--from", self.directory, "-R", self.scratch / "repo"),
            "seed": ("replica", "seed", "--strategy", "clone", "--from", self.directory, *target),
            "migrate": ("migrate", self.directory, self.consumer.database_dir, *target),
        }


VERBS = "export,export -,compare,compare second,verify,verify tree,clone,clone --compact,clone -,backup,seed,migrate"
each_verb = pytest.mark.parametrize("verb", VERBS.split(","))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    ldif = tmp_path_factory.mktemp("people") / "people.ldif"
    with closing(Slapd(Settings(maxsize=1 << 30, server_id=1))) as made:
        write_people(ldif, made.suffix, PEOPLE)
        made.slapadd(ldif, "-w")
        yield made


@pytest.fixture
def place(server: Slapd, tmp_path: Path) -> Iterator[Place]:
    directory, good = tmp_path / "db", tmp_path / "good"
    for one in (directory, good):
        one.mkdir()
        copy_sparse(server.database_dir / meta.DATA, one / meta.DATA)
    with closing(replication.consumer(server, server.settings)) as replica:
        yield Place(directory, good, replica, tmp_path)


def _told(done: Done) -> None:
    """An error of the list with its hint; no signal ended it."""
    assert done.status in KNOWN, done
    assert f"[{KNOWN[done.status]}]" in done.err, done
    assert re.search(r"^hint: .{10}", done.err, re.MULTILINE), done
    assert "Traceback" not in done.err, done


def _ended(process: subprocess.Popen[bytes]) -> Done:
    out, err = process.communicate()
    return Done(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def _done(place: Place, verb: str, process: subprocess.Popen[bytes]) -> Done:
    """What is sent goes into another ditseed; the first of the two that fails counts."""
    if verb != "clone -":
        return _ended(process)
    with process:
        assert process.stderr is not None
        receiver = ditseed("clone", "-", place.scratch / "out", stdin=process.stdout)
        said = process.stderr.read().decode()
    return Done(process.returncode, "", said) if process.returncode else receiver


def _cut(part: float) -> Callable[[Path], None]:
    return lambda data: os.truncate(data, int(meta.read_meta(data).used * part) // 4096 * 4096)


def _directory(data: Path) -> None:
    data.unlink()
    data.mkdir()


def _scribble(*ranges: tuple[int, int]) -> Callable[[Path], None]:
    def damage(data: Path) -> None:
        with data.open("r+b") as file:
            for begin, end in ranges:
                file.seek(begin)
                file.write(b"\xa5" * (end - begin))

    return damage


# In a meta page: header (16), magic to map size (24), then the two system tables of 48 bytes, each ending in its root.
_ROOTS = tuple(page + 16 + 24 + 48 * one + 40 for page in (0, 4096) for one in (0, 1))
DAMAGES: dict[str, Callable[[Path], None]] = {
    "half": _cut(0.5),
    "most": _cut(0.01),
    "two pages": lambda data: os.truncate(data, 8192),
    "a page": lambda data: os.truncate(data, 4096),
    "bytes": lambda data: os.truncate(data, 100),
    "empty": lambda data: os.truncate(data, 0),
    "a directory": _directory,
    "meta pages": _scribble((16, 8192)),
    "roots": _scribble(*((at, at + 8) for at in _ROOTS)),
}


@pytest.mark.rows(8)
@pytest.mark.long("export --a directory", "export-a page")
@pytest.mark.parametrize("damage", DAMAGES)
@each_verb
def test_damaged_before(place: Place, verb: str, damage: str) -> None:
    DAMAGES[damage](place.data)
    done = _done(place, verb, start(*place.commands()[verb], text=False))
    if verb.startswith("verify") and done.status == EXIT_DIFFERENT:
        assert "problems" in done.out
        return
    _told(done)
    assert not [*place.scratch.glob("out/data.mdb"), *place.consumer.database_dir.glob("data.mdb")]


@pytest.mark.rows(2)
@pytest.mark.long("backup", "seed")
@each_verb
def test_that_cannot_be_read(place: Place, verb: str) -> None:
    """EIO from the second read on, as a disk gives it that fails."""
    require(None if shutil.which("strace") else "strace is not installed")
    calls = "read,pread64,preadv,preadv2,copy_file_range,sendfile"
    inject = f"inject={calls}:error=EIO:when=3+"
    under = ("strace", "-f", "-qq", "-o", "/dev/null", "-P", str(place.data), "-e", inject)
    _told(_done(place, verb, start(*place.commands()[verb], prefix=under, text=False)))


@pytest.mark.rows(1, "verify tree-0")
@pytest.mark.parametrize("part", [0, 0.4])
@each_verb
def test_cut_in_the_middle(place: Place, verb: str, part: float) -> None:
    """At several moments: whatever is said to be done is right."""
    whole = meta.read_meta(place.data).used
    for delay in (0.08, 0.16, 0.24, 0.4):
        copy_sparse(place.good / meta.DATA, place.data)
        for left in ("out", "repo"):
            path = place.scratch / left
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        shutil.rmtree(place.consumer.database_dir)
        place.consumer.database_dir.mkdir()
        process = start(*place.commands()[verb], text=False)
        time.sleep(delay)
        os.truncate(place.data, int(whole * part))
        done = _done(place, verb, process)
        if done.status == EXIT_OK:
            _require_right(place, verb, done)
        elif not (verb.startswith("verify") and done.status == EXIT_DIFFERENT):
            _told(done)


def _require_right(place: Place, verb: str, done: Done) -> None:
    """It was quicker than the cut: what it made, or found, is that of the whole database."""
    out = place.scratch / "out"
    if verb == "backup":
        ditseed("backup", "restore", "latest", "-R", place.scratch / "repo", "--target", out).ok()
    entries = int(ditseed("verify", place.good, "--verify", "quick", "--json").ok().facts["entries"])
    if verb in ("seed", "migrate"):
        out = place.consumer.database_dir
    if verb not in ("export -", "compare", "compare second", "verify", "verify tree"):
        ditseed("compare", out, place.good).ok()
    elif verb == "export -":
        assert len(re.findall("^dn:", done.out, re.MULTILINE)) == entries
    else:  # verify, compare: how much they have looked at
        assert f"{entries:,}" in done.out, done


@pytest.mark.rows(6)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("what", ["maxsize", "indexes"])
def test_tune_of_a_damaged_database(place: Place, what: str, damage: str) -> None:
    """It looks at the file's size and at tables, and may do without."""
    data = place.consumer.database_dir / meta.DATA
    copy_sparse(place.good / meta.DATA, data)
    DAMAGES[damage](data)
    done = ditseed("tune", what, "--config", place.consumer.config_path, "-b", place.consumer.suffix)
    if done.status == EXIT_OK:
        assert done.out, done
        assert "Traceback" not in done.err, done
    else:
        _told(done)


@pytest.mark.long
def test_a_refresh_whose_database_is_cut(tmp_path: Path) -> None:
    """LMDB itself does the work there."""
    source = replication.provider()
    ldif = tmp_path / "people.ldif"
    write_people(ldif, source.suffix, 2000)
    source.slapadd(ldif, "-w")
    target = replication.consumer(source)
    before = tmp_path / "before.mdb"
    copy_sparse(source.database_dir / meta.DATA, before)
    with source:
        refresh = ("replica", "refresh", *bind(source), "--config", target.config_path, "-b", target.suffix)
        data = target.database_dir / meta.DATA
        change = "changetype: modify\nreplace: description\ndescription: changed\n"
        source.ldapmodify(f"dn: {source.suffix}\n{change}")
        whole = meta.read_meta(before).used

        def restored() -> None:
            copy_sparse(before, data)
            shutil.rmtree(target.database_dir / ".ditseed-refresh", ignore_errors=True)

        for size in (0, 4096, 8192, whole // 2 // 4096 * 4096):
            restored()
            os.truncate(data, size)
            _told(ditseed(*refresh))
        for delay in (0.2, 0.3, 0.4, 0.5, 0.6):
            restored()
            with data.open("r+b") as file:  # the refreshed one takes its name
                process = start(*refresh, text=False)
                time.sleep(delay)
                os.truncate(file.fileno(), whole // 3 // 4096 * 4096)
            done = _ended(process)
            if done.status == EXIT_OK:
                assert_same(source, target)
            else:
                _told(done)
    target.close()


# --- rows that nobody would write ---

SUFFIX = "dc=example,dc=com"


def test_a_damaged_name_of_the_suffix_is_told(tmp_path: Path) -> None:
    """Not taken for the database of another suffix, whatever of -b, --config and the directory says which it is."""
    with closing(Slapd()) as server:
        (tmp_path / "people.ldif").write_text("".join(people(SUFFIX, 5)))
        config = ("--config", server.config_path)
        ditseed("build", tmp_path / "people.ldif", *config).ok()
        data = server.database_dir / meta.DATA
        sound = data.read_bytes()
        damaged = sound.replace(b"dc=example,dc=com\0", b"dc=exbmple,dc=com\0")
        assert damaged != sound
        data.write_bytes(damaged)
        for which in ((), ("-b", SUFFIX)):
            for place in ((), (server.database_dir,)):
                done = ditseed("verify", *place, *config, *which)
                assert done.status == EXIT_DIFFERENT
                assert "dc=exbmple,dc=com" in done.out


def test_a_row_of_id2v_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """Export refuses it, and so does verify, whether or not it knows the schema."""
    row = b"known as a name\0Known As A Name\0\x0f\0"
    wanted = Settings(database_lines=("multival description 1,0",))
    with closing(Slapd(wanted)) as server:
        names = "description: Known As A Name\ndescription: another\n"
        server.slapadd(f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n{names}")
        data = server.database_dir / meta.DATA
        sound = data.read_bytes()
        assert sound.count(row) == 1
        data.write_bytes(sound.replace(row, row[:-2] + b"\xff\0"))
        ditseed("export", server.database_dir, "-o", tmp_path / "export").refused(MdbDamaged)
        for level in ("tree", "indexes"):
            where = ("--config", server.config_path, "--verify", level)
            done = ditseed("verify", server.database_dir, *where)
            assert done.status == EXIT_DIFFERENT, done
            assert "of id2v" in done.out
            assert done.out.count("cannot be read") == 1
