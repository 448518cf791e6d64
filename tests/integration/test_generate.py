"""`generate` into directories, and its entries into a real slapd."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.limits import loop_filesystem, missing_loop_filesystem
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader import ldif
from loader.errors import NoSpace, OutputNotEmpty, RunMismatch
from loader.ldif import Manifest
from loader.operations.compare import CompareOptions, compare
from loader.operations.generate import GenerateOptions, to_directory
from loader.progress import Meter, Progress
from loader.server.options import Connection
from loader.sources.dit import Range, TreeSpec
from loader.sources.location import comparable
from tests.support import generating
from tests.support.dumped import hold
from tests.support.generating import text_of
from tests.support.require import require

SUFFIX = "dc=example,dc=com"
DITSEED = str(Path(sys.executable).with_name("ditseed"))


def options(piece: Range | None = None, jobs: int = 1, size: int = 1000, compress: str = "zstd") -> GenerateOptions:
    return generating.options(generating.people(2500), piece, jobs, size, compress)


def generated(output: Path, chosen: GenerateOptions) -> Manifest:
    return to_directory(chosen, output, Progress("none")).manifest


def test_the_manifest_tells_what_the_shards_hold(tmp_path: Path) -> None:
    made = generated(tmp_path / "tree", options())
    assert [shard.name for shard in made.shards] == ["00000.ldif.zst", "00001.ldif.zst", "00002.ldif.zst"]
    hold(tmp_path / "tree")
    paths = made.paths(tmp_path / "tree")
    assert ldif.scan(paths, Meter("scan")).entries == made.entries == 2502
    with ldif.digesting((), Meter("digest")) as tree:
        for path in paths:
            tree.add_path(str(path))
    assert tree.checksum == made.content_checksum


def test_neither_threads_nor_shards_change_the_entries(tmp_path: Path) -> None:
    one = generated(tmp_path / "one", options(jobs=1, compress="none"))
    three = generated(tmp_path / "three", options(jobs=3, compress="none"))
    assert one.shards == three.shards
    small = generated(tmp_path / "small", options(size=300, compress="none"))
    assert small.content_checksum == one.content_checksum
    for made, place in ((one, "one"), (small, "small")):
        joined = b"".join(path.read_bytes() for path in made.paths(tmp_path / place))
        assert joined == text_of(generating.people(2500))


def test_pieces_made_apart_hold_the_whole(tmp_path: Path) -> None:
    pieces = [generated(tmp_path / f"{a}", options(Range(a, b))) for a, b in ((0, 700), (700, 1800), (1800, 2502))]
    whole = generated(tmp_path / "whole", options())
    total = sum(int(piece.content_checksum, 16) for piece in pieces) % 2**128
    assert f"{total:032x}" == whole.content_checksum
    assert sum(piece.entries for piece in pieces) == whole.entries


def test_done_it_does_nothing(tmp_path: Path) -> None:
    made = generated(tmp_path, options())
    before = {path: path.stat() for path in tmp_path.glob("*.*")}
    assert generated(tmp_path, options()) == made
    assert {path: path.stat() for path in tmp_path.glob("*.*")} == before


def test_other_options_are_refused_and_a_restart_takes_them(tmp_path: Path) -> None:
    generated(tmp_path, options(size=500))
    with pytest.raises(RunMismatch, match="range"):
        generated(tmp_path, options(Range(0, 902), size=500))
    chosen = options(Range(0, 902), size=500)
    made = to_directory(chosen, tmp_path, Progress("none"), restart=True).manifest
    assert sorted(path.name for path in tmp_path.glob("0*")) == [shard.name for shard in made.shards]
    assert made.entries == 902


def test_a_directory_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_text("x")
    with pytest.raises(OutputNotEmpty):
        generated(tmp_path, options())
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.jpg"]


def command(output: Path, *more: str) -> list[str]:
    chosen = ["-n", "2500", "--operational", "--shard-entries", "1000", "--progress", "none"]
    return [DITSEED, "generate", "people", *chosen, "-o", str(output), *more]


@pytest.mark.parametrize(
    "point", ["start.start", "start.recorded", "shards.start", "shards.one", "shards.unrecorded", "publish.unrecorded"]
)
def test_killed_anywhere_it_goes_on(tmp_path: Path, point: str) -> None:
    output = tmp_path / "tree"
    dead = subprocess.run(command(output), env={**os.environ, "DITSEED_KILL_AT": point}, check=False)
    assert dead.returncode == -signal.SIGKILL
    assert point.startswith("publish") or not (output / "manifest.json").exists()
    subprocess.run(command(output, "--jobs", "2"), check=True, stdout=subprocess.DEVNULL)
    made, whole = ldif.read_manifest(output), generated(tmp_path / "whole", options())
    assert made is not None
    assert (made.shards, made.content_checksum) == (whole.shards, whole.content_checksum)


@pytest.mark.slapd
@pytest.mark.parametrize("suffix", [SUFFIX, "o=Example Ltd,c=GB", "ou=test,o=example", "l=Zürich,c=CH", "c=CH"])
@pytest.mark.parametrize("operational", [False, True])
def test_slapadd_takes_it(suffix: str, operational: bool) -> None:
    """First the strict check of every value against its syntax, writing nothing; then the load."""
    text = text_of(generating.people(300, 1, operational, suffix)).decode()
    server = Slapd(Settings(suffix=suffix), form="conf")
    try:
        server.slapadd(text, "-u", "-o", "schema-check=yes", "-o", "value-check=yes")
        server.slapadd(text)
        assert server.slapcat().count("\ndn:") == 301
    finally:
        server.close()


@pytest.mark.slapd
def test_the_template_of_the_manual_is_one(tmp_path: Path) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "generate.md").read_text("utf-8")
    (template,) = re.findall(r"```toml\n(description.*?)```", manual, re.DOTALL)
    path = tmp_path / "manual.toml"
    path.write_text(template, "utf-8")
    text = text_of(TreeSpec(path, generating.LISTS, entries=300, operational=True))
    server = Slapd(Settings(suffix=SUFFIX), form="conf")
    try:
        server.slapadd(text.decode(), "-u", "-o", "schema-check=yes", "-o", "value-check=yes")
        server.slapadd(text.decode())
        assert server.slapcat().count("\ndn:") == 3 + 300 + 15
    finally:
        server.close()


@pytest.mark.long
@pytest.mark.slapd
def test_what_slapd_holds_is_what_was_made(tmp_path: Path) -> None:
    recipe = generating.people(5000)
    made = generated(tmp_path, generating.options(recipe))
    with Slapd() as server:
        server.stop()
        server.slapadd(text_of(recipe).decode())
        places = (comparable(str(tmp_path), Connection()), comparable(str(server.config_path), Connection()))
        report = compare(CompareOptions(*places, ignore=()), Progress("none"))
        assert report.equal
        assert report.b.checksum == made.content_checksum
        server.start()
        bind(server, 17)


def bind(server: Slapd, number: int) -> None:
    """An account's password is its uid."""
    name = f"uid=u{number:09d},ou=people,{SUFFIX}"
    answer = server.tool("ldapwhoami", "-x", "-H", server.ldapi_uri, "-D", name, "-w", f"u{number:09d}")
    assert answer.decode().strip() == f"dn:{name}"


def test_a_full_disk_is_told_and_more_room_goes_on(tmp_path: Path) -> None:
    require(missing_loop_filesystem())
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
