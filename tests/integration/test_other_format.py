"""Databases of OpenLDAP 2.7 (LMDB 1.0, data format 3): read and copied, but put before no slapd of 2.6 as they are; and
what slapd 2.7 goes on with: copies under a configuration that asks for more indexes, which the core makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fixtures import openldap_27
from fixtures.golden.tables import differences
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import write_people
from loader.errors import OtherFormat
from loader.mdb import contents, meta
from loader.mdb.meta import DATA
from tests.support.command import ditseed
from tests.support.require import require_2_7
from tests.unit.mdb.test_copy import make
from tests.unit.mdb.test_snapshot import database

pytestmark = pytest.mark.slapd

FEW = ("uid eq",)
MORE = ("uid,entryUUID eq", "cn,sn pres,eq,sub,approx")


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """A suffix entry, in the tables of back-mdb, in a file that LMDB 1.0 itself has written."""
    place = make(tmp_path / "newer", engine=1)
    assert meta.read_meta(place).format == 3
    return place


@pytest.fixture
def target() -> Iterator[Slapd]:
    with closing(Slapd(Settings(suffix="dc=example"))) as server:
        yield server


def test_what_needs_the_other_format_says_so(newer: Path, target: Slapd, tmp_path: Path) -> None:
    ditseed("backup", "run", "--init", "--from", newer, "-R", tmp_path / "repo").ok()
    done = ditseed("backup", "restore", "latest", "-R", tmp_path / "repo", "--config", target.config_path)
    hint = done.refused(OtherFormat, "has LMDB data format 3, but", "Use `ditseed migrate`")
    assert hint.startswith("OpenLDAP 2.4-2.6 (format 1) and 2.7 (format 3)")
    assert done.out == ""
    assert not list(target.database_dir.glob("data.mdb*"))


def test_doctor_says_nothing_of_its_indexes(target: Slapd) -> None:
    """slapindex of this slapd does not open it."""
    target.database_dir.mkdir(exist_ok=True)
    database(target.database_dir, 1)
    done = ditseed("doctor", "--config", target.config_path)
    assert "data.mdb has data format 3;" in done.out
    assert "slapindex" not in done.out


def test_it_is_read(tmp_path: Path) -> None:
    """As the same entries in a file of LMDB 0.9 are."""
    shards = []
    for engine, name in enumerate(["older", "newer"]):
        (tmp_path / name).mkdir()
        database(tmp_path / name, engine)
        ditseed("export", tmp_path / name, "-o", tmp_path / f"{name}.ldif").ok()
        shards.append([path.read_bytes() for path in sorted((tmp_path / f"{name}.ldif").glob("*.ldif*"))])
    assert shards[0] == shards[1] != []
    ditseed("compare", tmp_path / "older", tmp_path / "newer").ok()


@pytest.mark.parametrize("more", [(), ("--compact",)])
def test_its_copy_is_of_its_format(newer: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    assert ditseed("clone", newer, tmp_path / "copy", "--json", *more).ok().facts["format"] == 3
    assert not differences(newer, tmp_path / "copy")


# --- slapd 2.7 goes on with a copy ----------------------------------------------------------------


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Slapd, Slapd, Slapd]]:
    """With few indexes and the entries; with more, empty; with more, and what slapadd makes of the first one's."""
    require_2_7()
    with ExitStack() as stack:
        made, consumer, oracle = (
            stack.enter_context(closing(Slapd(Settings(indexes=indexes), installation=openldap_27.installation())))
            for indexes in (FEW, MORE, MORE)
        )
        write_people(tmp_path / "people.ldif", made.suffix, 400)
        made.slapadd(tmp_path / "people.ldif", "-w")
        text = made.slapcat()
        (made.database_dir / DATA).unlink()  # slapadd stores other normal forms of what it makes itself
        made.slapadd(text)
        oracle.slapadd(text)
        yield made, consumer, oracle


def _goes_on(server: Slapd) -> None:
    """Most entries are changed, so that LMDB uses the freed pages, and every index is held against the entries."""
    server.start()
    change = "dn: {}\nchangetype: modify\nreplace: sn\nsn: changed {} {}\n\n"
    for round_ in range(3):
        people = server.search("(uid=*)", ("1.1",))[:300]
        server.ldapmodify("".join(change.format(dn, round_, number) for number, (dn, _) in enumerate(people)))
    server.stop()
    env = {"DITSEED_TOOLS": openldap_27.tools()}
    ditseed("verify", "--config", server.config_path, "--verify", "indexes", env=env).ok()


@pytest.mark.parametrize("how", ["clone", "restore"])
def test_a_copy_has_the_indexes_of_its_configuration(
    how: str, servers: tuple[Slapd, Slapd, Slapd], tmp_path: Path
) -> None:
    (made, consumer, oracle), env = servers, {"DITSEED_TOOLS": openldap_27.tools()}
    where = ("--config", consumer.config_path)
    words: tuple[object, ...] = ("replica", "seed", "--strategy", "clone", "--from", made.database_dir)
    if how == "restore":
        ditseed("backup", "run", "--init", "--config", made.config_path, "-R", tmp_path / "repo", env=env).ok()
        words = ("backup", "restore", "latest", "-R", tmp_path / "repo")
    done = ditseed(*words, *where, env=env).ok()
    assert "slapindex" not in done.out + done.err
    found = differences(oracle.database_dir, consumer.database_dir)
    # A seed by clone writes the contextCSN into the suffix entry again.
    other = [line for line in found if how == "restore" or not line.startswith("id2e: ")]
    assert not other, "\n".join(found)
    _goes_on(consumer)


def test_new_indexes_are_made_by_the_core(servers: tuple[Slapd, Slapd, Slapd]) -> None:
    (made, _, oracle), env = servers, {"DITSEED_TOOLS": openldap_27.tools()}
    where = ("--config", made.config_path, "--apply")
    done = ditseed("tune", "indexes", *where, "--add", "entryUUID eq", "--add", MORE[1], env=env)
    assert "slapindex" not in done.ok().out + done.err
    assert contents.indexes(made.database_dir) == contents.indexes(oracle.database_dir)
    found = differences(oracle.database_dir, made.database_dir)
    assert not found, "\n".join(found)
    _goes_on(made)
