"""`generate` into directories, and its entries into a real slapd; `generate learn`."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from fixtures import opendj, secrets, similarity
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader import ldif
from loader.errors import NoSpace, RunMismatch
from loader.ldif import Manifest
from loader.operations.compare import CompareOptions, compare
from loader.operations.generate import GenerateOptions, to_directory
from loader.progress import Progress
from loader.server.options import Connection
from loader.sources.dit import Range, TreeSpec
from loader.sources.location import comparable
from seeders.synthetic import templates
from tests.support import generating
from tests.support.command import ditseed, piped
from tests.support.disks import loop_filesystem
from tests.support.dumped import assert_as_manifest
from tests.support.generating import LISTS, text_of
from tests.support.require import require

SUFFIX = "dc=example,dc=com"


def options(piece: Range | None = None, jobs: int = 1, size: int = 1000, compress: str = "zstd") -> GenerateOptions:
    return generating.options(generating.people(2500), piece, jobs, size, compress)


def generated(output: Path, chosen: GenerateOptions) -> Manifest:
    return to_directory(chosen, output, Progress("none")).manifest


def test_the_manifest_tells_what_the_shards_hold(tmp_path: Path) -> None:
    made = generated(tmp_path / "tree", options())
    assert [shard.name for shard in made.shards] == ["00000.ldif.zst", "00001.ldif.zst", "00002.ldif.zst"]
    assert made.entries == 2502
    assert_as_manifest(tmp_path / "tree")


def test_neither_threads_nor_shards_nor_pieces_change_the_entries(tmp_path: Path) -> None:
    one = generated(tmp_path / "one", options(jobs=1, compress="none"))
    three = generated(tmp_path / "three", options(jobs=3, compress="none"))
    assert one.shards == three.shards
    small = generated(tmp_path / "small", options(size=300, compress="none"))
    for made, place in ((one, "one"), (small, "small")):
        joined = b"".join(path.read_bytes() for path in made.paths(tmp_path / place))
        assert joined == text_of(generating.people(2500))
    pieces = [generated(tmp_path / f"{a}", options(Range(a, b))) for a, b in ((0, 700), (700, 1800), (1800, 2502))]
    total = sum(int(piece.content_checksum, 16) for piece in pieces) % 2**128
    assert f"{total:032x}" == small.content_checksum == one.content_checksum


def test_done_it_does_nothing_and_other_options_need_a_restart(tmp_path: Path) -> None:
    made = generated(tmp_path, options(size=500))
    before = {path: path.stat() for path in tmp_path.glob("*.*")}
    assert generated(tmp_path, options(size=500)) == made
    assert {path: path.stat() for path in tmp_path.glob("*.*")} == before
    with pytest.raises(RunMismatch, match="range"):
        generated(tmp_path, options(Range(0, 902), size=500))
    made = to_directory(options(Range(0, 902), size=500), tmp_path, Progress("none"), restart=True).manifest
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
    made, whole = ldif.read_manifest(output), generated(tmp_path / "whole", options())
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
    made = generated(tmp_path, generating.options(recipe))
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
    chosen = generating.options(generating.people(20_000), size=2_000, compress="none")
    with loop_filesystem(12) as disk:
        with pytest.raises(NoSpace):
            generated(disk / "tree", chosen)
        done = sorted((disk / "tree").glob("*.ldif"))
        assert done
        assert not (disk / "tree" / "manifest.json").exists()
        shutil.copytree(disk / "tree", tmp_path / "tree")
    times = {path.name: (tmp_path / "tree" / path.name).stat().st_mtime_ns for path in done}
    made = generated(tmp_path / "tree", chosen)
    assert made.entries == 20_002
    assert {name: (tmp_path / "tree" / name).stat().st_mtime_ns for name in times} == times


DEEP = Path(__file__).parents[2] / "fixtures" / "deep.toml"
BAR = 0.15  # pages of a table, more or less


def learn(*sources: object, out: Path, more: tuple[object, ...] = ()) -> str:
    ditseed("generate", "learn", *sources, "-o", out, "--progress", "none", *more).ok()
    return out.read_text()


def tree(template: Path, entries: int, path: Path) -> Path:
    path.write_bytes(text_of(TreeSpec(template, LISTS, entries=entries), jobs=2))
    return path


def assert_alike(source: Path, entries: int, home: Path) -> None:
    """Learned, generated and built, every table has as many pages as the source's."""
    learn(source, out=home / "learned.toml")
    made = tree(home / "learned.toml", entries, home / "made.ldif")
    one = similarity.build(source, home / "source", entries)
    other = similarity.build(made, home / "learned", entries)
    found = similarity.compare(one, other)
    print("\n".join(map(str, found)))
    assert {table.name for table in found} >= {"id2e", "dn2i", "cn", "sn", "givenName", "uid"}
    wrong = [str(table) for table in found if table.off > BAR]
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
@pytest.mark.slapd
@pytest.mark.parametrize(
    ("name", "entries"),
    [
        *(("people", 10_000), ("deep", 10_000)),
        pytest.param("people", 300_000, marks=pytest.mark.heavy),
        pytest.param("deep", 100_000, marks=pytest.mark.heavy),
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
    text = learn(tmp_path / "source.ldif", out=tmp_path / "learned.toml").lower()
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
    one = learn(source, out=tmp_path / "one.toml", more=("--jobs", "1"))
    assert learn(source, out=tmp_path / "three.toml", more=("--jobs", "3")) == one
    assert learn(tmp_path / "parts", out=tmp_path / "parts.toml") == one
    assert piped(source.read_bytes(), "generate", "learn", "-", "-o", "-", "--progress", "none").ok().out == one
    with closing(Slapd(form="conf")) as server:
        server.slapadd(tree(tmp_path / "one.toml", 2000, tmp_path / "made.ldif"), "-u", "-o", "value-check=yes")


def test_what_cannot_be_learned_from_is_refused(tmp_path: Path) -> None:
    few, out = tmp_path / "few.ldif", tmp_path / "learned.toml"
    few.write_text("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\n")
    for words, reason in (
        ((few,), "template.nothing_to_learn"),
        (("/dev/null",), "template.nothing_to_learn"),
        ((few, "-H", "ldap://nowhere"), "usage"),
        ((few,), "--replace"),
    ):
        if reason == "--replace":
            out.write_text("mine")
        done = ditseed("generate", "learn", *words, "-o", out, "--progress", "none")
        assert (done.status != 0, reason in done.err) == (True, True), done
        assert out.exists() == (reason == "--replace")
    assert out.read_text() == "mine"
