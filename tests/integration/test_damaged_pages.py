"""A page that no LMDB would write: verify, clone --compact and export refuse it alike."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import people
from loader.errors import EXIT_DIFFERENT, MdbDamaged
from loader.mdb import meta
from tests.support.command import ditseed

pytestmark = pytest.mark.slapd

PAGE = 4096
HEADER = 16
META_ROOT = 16 + 24 + 48 + 40  # of the main table: behind the page's header, the map's and the free pages' record
SUFFIX = "dc=example,dc=com"


class Pages:
    """The bytes of a database file, page by page."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)

    def number(self, at: int, kind: str = "=H") -> int:
        return int(struct.unpack_from(kind, self.data, at)[0])

    def put(self, at: int, field: int, kind: str = "=H") -> None:
        struct.pack_into(kind, self.data, at, field)

    def node(self, page: int, at: int) -> int:
        """Where in the file the node at that place of a page begins."""
        return page * PAGE + self.number(page * PAGE + HEADER + 2 * at)

    def root(self, table: bytes) -> int:
        """The page with which a table begins; the main table has one page."""
        newest = max((0, 1), key=lambda page: self.number(page * PAGE + 144, "=Q"))
        main = self.number(newest * PAGE + META_ROOT, "=Q")
        count = (self.number(main * PAGE + 12) - HEADER) // 2
        for node in (self.node(main, at) for at in range(count)):
            record = node + 8 + self.number(node + 6)
            if self.data[node + 8 : record] == table:
                return self.number(record + 40, "=Q")
        raise LookupError(table)

    def child(self, branch: int, at: int) -> int:
        return self.number(self.node(branch, at), "=I")


def wrong_separator(pages: Pages) -> None:
    """The first entry of a leaf stands before the leaf's separator: a search by ID does not come to it."""
    key = pages.node(pages.root(b"id2e"), 3) + 8
    pages.put(key, pages.number(key, "=Q") + 1, "=Q")


def single_child(pages: Pages) -> None:
    """A branch that has lost all its children but one."""
    pages.put(pages.root(b"id2e") * PAGE + 12, HEADER + 2)


def unknown_flags(pages: Pages) -> None:
    leaf = pages.child(pages.root(b"id2e"), 2)
    pages.put(pages.node(leaf, 0) + 4, 8)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A data file that slapadd made."""
    server = Slapd(Settings())
    server.slapadd("".join(people(SUFFIX, 400)))
    path = tmp_path_factory.mktemp("sound") / meta.DATA
    shutil.copy(server.database_dir / meta.DATA, path)
    server.close()
    os.truncate(path, meta.read_meta(path).used)
    return path.read_bytes()


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (wrong_separator, "keys or values that are not in ascending order"),
        (single_child, "a branch with a single child"),
        (unknown_flags, "a node with flags that make no sense"),
    ],
)
def test_whoever_reads_it_refuses_it(sound: bytes, tmp_path: Path, damage: Callable[[Pages], None], words: str) -> None:
    place = tmp_path / "damaged"
    place.mkdir(mode=0o700)
    pages = Pages(sound)
    damage(pages)
    (place / meta.DATA).write_bytes(pages.data)
    verified = ditseed("verify", place, "--verify", "pages")
    assert verified.status == EXIT_DIFFERENT
    compacted = ditseed("clone", place, tmp_path / "clone", "--compact", "--verify", "none")
    exported = ditseed("export", place, "-o", tmp_path / "export")
    assert (compacted.status, exported.status) == (MdbDamaged.exit_status,) * 2
    for done in (verified, compacted, exported):
        assert words in done.out + done.err, done
    assert not (tmp_path / "clone").exists()


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
        exported = ditseed("export", server.database_dir, "-o", tmp_path / "export")
        assert exported.status == MdbDamaged.exit_status, exported
        for level in ("tree", "indexes"):
            where = ("--config", server.config_path, "--verify", level)
            done = ditseed("verify", server.database_dir, *where)
            assert done.status == EXIT_DIFFERENT, done
            assert "of id2v" in done.out
            assert done.out.count("cannot be read") == 1
