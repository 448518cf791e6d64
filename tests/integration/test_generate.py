"""`generate` into directories, and its entries into a real slapd; `generate learn`."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fixtures import opendj, secrets
from fixtures.lmdb_pages import pages
from fixtures.slapd import Slapd
from fixtures.slapd_config import Installation, Settings
from loader import ldif
from loader.errors import NoSpace, NothingToLearn, RunMismatch, UsageProblem
from loader.ldif import Manifest
from loader.operations.compare import CompareOptions, compare
from loader.operations.generate import to_directory
from loader.progress import Progress
from loader.server.options import Connection
from loader.sources.dit import Range, TreeSpec
from loader.sources.location import comparable
from seeders.synthetic import templates
from tests.support import building, generating
from tests.support.command import ditseed, piped
from tests.support.disks import loop_filesystem
from tests.support.dumped import assert_as_manifest
from tests.support.generating import LISTS, text_of
from tests.support.require import require

SUFFIX = "dc=example,dc=com"


PEOPLE = generating.people(2500)


def generated(output: Path, recipe: TreeSpec = PEOPLE, restart: bool = False, **more: Any) -> Manifest:
    """In shards of 1000 entries, unless told otherwise."""
    options = generating.options(recipe, **more)
    return to_directory(options, output, Progress("none"), restart=restart).manifest


def test_neither_threads_nor_shards_nor_pieces_change_the_entries(tmp_path: Path) -> None:
    one = generated(tmp_path / "one", jobs=1, compress="none")
    three = generated(tmp_path / "three", jobs=3, compress="none")
    assert one.shards == three.shards
    small = generated(tmp_path / "small", size=300, compress="none")
    for made, place in ((one, "one"), (small, "small")):
        joined = b"".join(path.read_bytes() for path in made.paths(tmp_path / place))
        assert joined == text_of(PEOPLE)
    ranges = (Range(0, 700), Range(700, 1800), Range(1800, 2502))
    pieces = [generated(tmp_path / f"{piece.first}", piece=piece) for piece in ranges]
    total = sum(int(piece.content_checksum, 16) for piece in pieces) % 2**128
    assert f"{total:032x}" == small.content_checksum == one.content_checksum


def test_done_it_does_nothing_and_other_options_need_a_restart(tmp_path: Path) -> None:
    made = generated(tmp_path)
    assert [shard.name for shard in made.shards] == ["00000.ldif.zst", "00001.ldif.zst", "00002.ldif.zst"]
    assert made.entries == 2502
    assert_as_manifest(tmp_path)
    before = {path: path.stat() for path in tmp_path.glob("*.*")}
    assert generated(tmp_path) == made
    assert {path: path.stat() for path in tmp_path.glob("*.*")} == before
    with pytest.raises(RunMismatch, match="range"):
        generated(tmp_path, piece=Range(0, 902))
    made = generated(tmp_path, piece=Range(0, 902), restart=True)
    assert sorted(path.name for path in tmp_path.glob("0*")) == [shard.name for shard in made.shards]
    assert made.entries == 902


@pytest.mark.parametrize(
    "point", ["start.start", "start.recorded", "shards.start", "shards.one", "shards.unrecorded", "publish.unrecorded"]
)
def test_killed_anywhere_it_goes_on(tmp_path: Path, point: str) -> None:
    output = tmp_path / "tree"
    command = ("generate", "people", "-n", 2500, "--operational", "--shard-entries", 1000, "-o", output)
    assert ditseed(*command, env={"DITSEED_KILL_AT": point}).status == -signal.SIGKILL
    assert point.startswith("publish") or not (output / "manifest.json").exists()
    ditseed(*command, "--jobs", 2).ok()
    made, whole = ldif.read_manifest(output), generated(tmp_path / "whole")
    assert made is not None
    assert (made.shards, made.content_checksum) == (whole.shards, whole.content_checksum)


@pytest.mark.slapd
@pytest.mark.parametrize("suffix", [SUFFIX, "o=Example Ltd,c=GB", "ou=test,o=example", "l=Zürich,c=CH", "c=CH"])
def test_slapadd_takes_it(suffix: str) -> None:
    for operational in (False, True):
        assert_taken(generating.people(300, 1, operational, suffix), 302)


def assert_taken(recipe: TreeSpec, entries: int) -> None:
    """First the strict check of every value against its syntax, writing nothing; then the load."""
    text = text_of(recipe).decode()
    with closing(Slapd(Settings(suffix=recipe.suffix or SUFFIX), form="conf")) as server:
        server.slapadd(text, "-u", "-o", "schema-check=yes", "-o", "value-check=yes")
        server.slapadd(text)
        assert server.slapcat().count("\ndn:") == entries - 1


@pytest.mark.slapd
def test_the_template_of_the_manual_is_one(tmp_path: Path) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "templates.md").read_text("utf-8")
    (template,) = re.findall(r"```toml\n(description.*?)```", manual, re.DOTALL)
    path = tmp_path / "manual.toml"
    path.write_text(template, "utf-8")
    assert_taken(TreeSpec(path, generating.LISTS, entries=300, operational=True), 4 + 300 + 15)


@pytest.mark.long
@pytest.mark.slapd
def test_what_slapd_holds_is_what_was_made(tmp_path: Path) -> None:
    recipe = generating.people(5000)
    made = generated(tmp_path, recipe)
    with closing(Slapd()) as server:
        server.slapadd(text_of(recipe).decode())
        places = (comparable(str(tmp_path), Connection()), comparable(str(server.config_path), Connection()))
        report = compare(CompareOptions(*places, ignore=()), Progress("none"))
        assert report.equal
        assert report.b.checksum == made.content_checksum
        server.start()
        name = f"uid=u000000017,ou=people,{SUFFIX}"
        answer = server.tool("ldapwhoami", "-x", "-H", server.ldapi_uri, "-D", name, "-w", "u000000017")
        assert answer.decode().strip() == f"dn:{name}", "an account's password is its uid"


def test_a_full_disk_is_told_and_more_room_goes_on(tmp_path: Path) -> None:
    large: dict[str, Any] = {"recipe": generating.people(20_000), "size": 2_000, "compress": "none"}
    with loop_filesystem(12) as disk:
        with pytest.raises(NoSpace):
            generated(disk / "tree", **large)
        done = sorted((disk / "tree").glob("*.ldif"))
        assert done
        assert not (disk / "tree" / "manifest.json").exists()
        shutil.copytree(disk / "tree", tmp_path / "tree")
    times = {path.name: (tmp_path / "tree" / path.name).stat().st_mtime_ns for path in done}
    made = generated(tmp_path / "tree", **large)
    assert made.entries == 20_002
    assert {name: (tmp_path / "tree" / name).stat().st_mtime_ns for name in times} == times


DEEP = Path(__file__).parents[2] / "fixtures" / "deep.toml"
BAR = 0.15  # pages of a table, more or less


def learn(source: Path, out: Path, *more: object) -> str:
    ditseed("generate", "learn", source, "-o", out, "--progress", "none", *more).ok()
    return out.read_text()


def tree(template: Path, entries: int, path: Path) -> Path:
    path.write_bytes(text_of(TreeSpec(template, LISTS, entries=entries), jobs=2))
    return path


def assert_alike(source: Path, entries: int, home: Path) -> None:
    """Learned, generated and built, every table has as many pages as the source's."""
    learn(source, home / "learned.toml")
    made = tree(home / "learned.toml", entries, home / "made.ldif")
    one, other = (pages_of_tables(ldif, entries) for ldif in (source, made))
    found = {name: (one.get(name, 0), other.get(name, 0)) for name in {*one, *other}}
    assert found.keys() >= {"id2e", "dn2i", "cn", "sn", "givenName", "uid"}
    # In a small table, a difference of one page does not matter.
    assert not {name: both for name, both in found.items() if abs(both[0] - both[1]) > BAR * max(both[0], 20)}


def pages_of_tables(ldif: Path, entries: int) -> dict[str, int]:
    indexes = ("objectClass,entryUUID,entryCSN,uid,mail eq", "cn,sn,givenName eq,sub")
    schema = Path(Installation().schema, "dyngroup.schema")
    settings = Settings(maxsize=max(1 << 28, entries * (64 << 10)), indexes=indexes, schema=(schema,))
    with closing(Slapd(settings, form="conf")) as target:
        building.build(target, ldif).ok()
        return pages(target.database_dir)


@pytest.mark.long
@pytest.mark.slapd
@pytest.mark.parametrize(
    ("name", "entries"),
    [
        *(("people", 10_000), ("deep", 10_000)),
        *(pytest.param(*row, marks=pytest.mark.heavy) for row in (("people", 300_000), ("deep", 100_000))),
    ],
)
def test_databases_of_both_have_as_many_pages(name: str, entries: int, tmp_path: Path) -> None:
    template = DEEP if name == "deep" else templates.find(name)
    assert_alike(tree(template, entries, tmp_path / "source.ldif"), entries, tmp_path)


@pytest.mark.heavy
@pytest.mark.slapd
def test_what_makeldif_made_has_as_many_pages(tmp_path: Path) -> None:
    require(opendj.missing_opendj())
    root = opendj.set_up()
    example = (root / "config" / "MakeLDIF" / "example.template").read_text()
    asked = tmp_path / "asked.template"
    asked.write_text(re.sub(r"^define numusers=.*", "define numusers=60000", example, flags=re.M))
    source = tmp_path / "source.ldif"
    command = [root / "bin" / "makeldif", "-o", source, asked]
    subprocess.run(command, check=True, capture_output=True)
    assert_alike(source, 60_000, tmp_path)


def test_nothing_of_the_source_gets_into_the_template(tmp_path: Path) -> None:
    count = 900
    secrets.write(tmp_path / "source.ldif", count)
    text = learn(tmp_path / "source.ldif", tmp_path / "learned.toml").lower()
    assert "inetorgperson" in text
    assert "groupofnames" in text
    assert "qz" not in text
    told = {token for token in secrets.tokens(count) if token in text}
    assert told <= {"example"}, told  # of dc=example


@pytest.mark.slapd
def test_the_same_source_makes_the_same_template(tmp_path: Path) -> None:
    """slapd takes what that makes."""
    source = tree(DEEP, 3000, tmp_path / "source.ldif")
    records = source.read_text().split("\n\n")
    (tmp_path / "parts").mkdir()
    for part in range(3):
        text = "\n\n".join(record for record in records[part::3] if record.strip())
        (tmp_path / "parts" / f"{part}.ldif").write_text(text + "\n\n")
    one = learn(source, tmp_path / "one.toml", "--jobs", "1")
    assert learn(source, tmp_path / "three.toml", "--jobs", "3") == one
    assert learn(tmp_path / "parts", tmp_path / "parts.toml") == one
    assert piped(source.read_bytes(), "generate", "learn", "-", "-o", "-", "--progress", "none").ok().out == one
    with closing(Slapd(form="conf")) as server:
        server.slapadd(tree(tmp_path / "one.toml", 2000, tmp_path / "made.ldif"), "-u", "-o", "value-check=yes")


def test_what_cannot_be_learned_from_is_refused(tmp_path: Path) -> None:
    few, out = tmp_path / "few.ldif", tmp_path / "learned.toml"
    few.write_text("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\n")
    command = ("generate", "learn", "-o", out, "--progress", "none")
    for source in (few, "/dev/null"):
        ditseed(*command, source).refused(NothingToLearn)
    ditseed(*command, few, "-H", "ldap://nowhere").refused(UsageProblem)
    assert not out.exists()
    out.write_text("mine")
    done = ditseed(*command, few)
    assert (done.status != 0, "--replace" in done.err) == (True, True), done
    assert out.read_text() == "mine"
