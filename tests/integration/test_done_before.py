"""The same command after it was done: it says when that was, that nothing was done now, and when the result is gone."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader import errors, ldif, units
from tests.support import adding
from tests.support.command import Done, ditseed
from tests.support.killing import Stamp
from tests.support.seeding import Pair, pair
from tests.support.trees import emptied, tree

pytestmark = pytest.mark.slapd

SUFFIX = Settings.suffix
NOTHING = "already done on "
MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Pair]:
    with pair(tmp_path, 200) as made:
        made.prepare("ldif")
        yield made


def told(again: Done) -> str:
    """The moment, on stderr and in the report."""
    again.ok()
    assert re.search(NOTHING + MOMENT, again.err), again.err
    assert "/proc/" not in again.err  # the run directory by its name
    moment = str(again.facts["done_before"])
    assert re.fullmatch(MOMENT, moment)
    return moment


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["search", "ldif", "clone"])
def test_a_seeding(both: Pair, strategy: str) -> None:
    """Of a replica that was written to since, the report of the first time would be that of another database."""
    first = ditseed(*both.seed(strategy, "--json")).ok()
    assert "done_before" not in first.facts
    assert NOTHING not in first.err
    told(ditseed(*both.seed(strategy, "--json")))
    before = tree(both.consumer.slapcat())
    text = f"dn: {both.consumer.suffix}\nchangetype: modify\nadd: description\ndescription: x\n"
    both.consumer.tool("slapmodify", *both.consumer.config_arguments, "-b", SUFFIX, stdin=text.encode())
    ditseed(*both.seed(strategy)).refused(errors.ChangedSince)
    made = ditseed(*both.seed(strategy, "--restart", "--replace", "--json")).ok()
    assert made.facts["entries"] == len(before) == len(tree(both.consumer.slapcat()))


@pytest.mark.long("slapadd")
@pytest.mark.parametrize("engine", ["native", "slapadd"])
def test_a_build(target: Slapd, people_ldif: Path, engine: str) -> None:
    """The moment is that of its end. Afterwards an entry is changed, then 50 are lost."""
    build = ("build", people_ldif, "--config", target.config_path, "-b", target.suffix, "--engine", engine)
    started = int(time.time())
    ditseed(*build).ok()
    ended = time.time()
    moment = told(ditseed(*build, "--json"))
    assert started <= datetime.datetime.fromisoformat(moment).timestamp() <= ended
    before = tree(target.slapcat())
    gone = [line for line in before if line.startswith("dn: uid=user")][:50]
    lost = "\n".join(f"{line}\nchangetype: delete\n" for line in gone)
    changed = f"dn: {target.suffix}\nchangetype: modify\nadd: description\ndescription: x\n"
    for change, left in ((changed, len(before)), (lost, len(before) - 50)):
        target.start()
        target.ldapmodify(change)
        target.stop()
        counts = f"({units.number(len(before))} entries then, {units.number(left)} now)"
        ditseed(*build).refused(errors.ChangedSince, counts)
        assert len(tree(target.slapcat())) == left


@pytest.mark.long
def test_a_file_that_is_another_one_under_the_same_inode(target: Slapd, people_ldif: Path, tmp_path: Path) -> None:
    """The inode and the transaction number, which is 1 in all that ditseed builds, say nothing of what was written over
    it. A slapd that opened it, and wrote nothing, has changed nothing."""
    build = ("build", people_ldif, "--config", target.config_path, "-b", target.suffix)
    data = target.database_dir / "data.mdb"
    few = tmp_path / "few.ldif"
    few.write_text(adding.TOP)
    with closing(Slapd()) as server:
        ditseed("build", few, "--config", server.config_path, "-b", server.suffix).ok()
        another = (server.database_dir / "data.mdb").read_bytes()
    ditseed(*build).ok()
    sound = data.read_bytes()
    target.start()
    assert len(target.search()) > 1
    target.stop()
    told(ditseed(*build, "--json"))
    spoiled = sound[: len(sound) // 2] + bytes(99) + sound[len(sound) // 2 + 99 :]
    for content in (another, spoiled, sound[:65536], b""):
        data.write_bytes(content)
        ditseed(*build).refused(errors.ChangedSince, "(1,029 entries then, ")
        assert data.read_bytes() == content
    ditseed(*build, "--restart", "--replace").ok()
    told(ditseed(*build, "--json"))


def test_a_map_that_is_written_to_makes_the_file_longer(people_ldif: Path) -> None:
    """slapd with `envflags writemap` gives the file the length of its map when it opens it."""
    with closing(Slapd(Settings(maxsize=64 << 20, database_lines=("envflags writemap",)))) as server:
        build = ("build", people_ldif, "--config", server.config_path, "-b", server.suffix)
        ditseed(*build).ok()
        before = (server.database_dir / "data.mdb").stat().st_size
        server.start()
        server.stop()
        assert (server.database_dir / "data.mdb").stat().st_size > before
        told(ditseed(*build, "--json"))


@pytest.mark.long
def test_adding(slapd_instance: Slapd, people_ldif: Path) -> None:
    """A server that was made anew is filled again."""
    adding.add(slapd_instance, people_ldif).ok()
    told(adding.add(slapd_instance, people_ldif, "--json"))
    before = tree(slapd_instance.slapcat())
    emptied(slapd_instance)
    again = adding.add(slapd_instance, people_ldif).ok()
    assert NOTHING not in again.err
    assert len(tree(slapd_instance.slapcat())) == len(before)
    told(adding.add(slapd_instance, people_ldif, "--json"))
    emptied(slapd_instance)
    slapd_instance.ldapadd(adding.TOP)  # another entry of that name
    adding.add(slapd_instance, people_ldif).refused(errors.AddRefused)


def test_exports(both: Pair, tmp_path: Path) -> None:
    of_server = ("export", *both.bind, "-b", both.provider.suffix, "-o", both.export_dir)
    of_database = ("export", both.provider.database_dir, "-o", tmp_path / "of-database")
    assert "done_before" not in ditseed(*of_database, "--json").ok().facts
    for command, out in ((of_server, both.export_dir), (of_database, tmp_path / "of-database")):
        before = {path: Stamp.of(path) for path in out.iterdir() if path.is_file()}
        told(ditseed(*command, "--json"))
        assert {path: Stamp.of(path) for path in out.iterdir() if path.is_file()} == before
        assert re.search(f"finished +{MOMENT}", ditseed(*command).ok().out)
        shard = sorted(out.glob("*.ldif.zst"))[-1]
        shard.write_bytes(shard.read_bytes() + b"\n")
        ditseed(*command).refused(errors.ManifestBroken)
        (out / ldif.MANIFEST).unlink()
        ditseed(*command).refused(errors.ManifestBroken)
        ditseed(*command, "--restart").ok()


def test_a_generated_tree(tmp_path: Path) -> None:
    command = ("generate", "people", "-n", "100", "-o", tmp_path / "tree")
    assert "done_before" not in ditseed(*command, "--json").ok().facts
    told(ditseed(*command, "--json"))
    (tmp_path / "tree" / "00000.ldif.zst").unlink()
    ditseed(*command).refused(errors.ManifestBroken)
    ditseed(*command, "--restart").ok()
