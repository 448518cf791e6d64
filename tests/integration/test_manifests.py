"""Whoever reads an export holds it to its manifest: nothing is built, sent or learned of one that differs, whether that
shows before the reading, by the reading, or by the count. tests/unit/test_manifest.py has each way to differ."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures import replication
from fixtures.slapd import Slapd
from loader import ldif
from loader.defaults import ENGINES
from loader.errors import ManifestBroken
from loader.operations.generate import to_directory
from loader.progress import Progress
from tests.support import adding, generating
from tests.support.command import ditseed
from tests.support.dumped import described, edit_manifest
from tests.support.trees import tree

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
PEOPLE = 1500
CSN = b"contextCSN: 20260101000000.999999Z#000000#000#000000\n"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a contextCSN, as a seeding wants it."""
    out = tmp_path_factory.mktemp("whole") / "export"
    recipe = generating.people(PEOPLE, suffix=SUFFIX)
    to_directory(generating.options(recipe, size=600, compress="none"), out, Progress("none"))
    first = out / "00000.ldif"
    first.write_bytes(first.read_bytes().replace(b"\n\n", b"\n" + CSN + b"\n", 1))

    def change(facts: dict[str, Any]) -> None:
        facts["shards"][0] = structs.asdict(described(first))
        facts["content_checksum"] = ldif.total_of(one["content_checksum"] for one in facts["shards"])

    edit_manifest(out, change)
    return out


@pytest.fixture
def export(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "export"))


def one_letter(export: Path) -> None:
    """Of the same size, and LDIF as before: only reading tells."""
    shard = export / "00002.ldif"
    head, mark, tail = shard.read_bytes().rpartition(b"\nsn: ")
    assert mark
    shard.write_bytes(head + mark + (b"X" if tail[:1] != b"X" else b"Y") + tail[1:])


def more_in_one_than_it_says(export: Path) -> None:
    """The sums agree; only counting tells."""

    def change(facts: dict[str, Any]) -> None:
        facts["entries"] += 7
        facts["shards"][0]["entries"] += 7

    edit_manifest(export, change)


def unfinished(export: Path) -> None:
    """The export was killed before it wrote its manifest, with one shard still to come."""
    (export / ldif.MANIFEST).unlink()
    (export / "00002.ldif").unlink()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "shard missing": lambda export: (export / "00001.ldif").unlink(),
    **{one.__name__: one for one in (one_letter, more_in_one_than_it_says, unfinished)},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_no_verb_takes_a_part(whole: Path, export: Path, tmp_path: Path, damage: str) -> None:
    """As somebody lost 4,896 of 20,003 entries with exit status 0."""
    DAMAGE[damage](export)
    with replication.provider() as source, closing(replication.consumer(source)) as target:
        where = ("--config", target.config_path, "-b", SUFFIX)
        for engine in ENGINES:
            ditseed("build", export, *where, "--engine", engine).refused(ManifestBroken)
        ditseed("replica", "seed", "--strategy", "ldif", "--from", export, *where).refused(ManifestBroken)
        assert not (target.database_dir / "data.mdb").exists()
        adding.add(source, export).refused(ManifestBroken)
        assert tree(source.slapcat()) == {}
    ditseed("generate", "learn", export, "-o", tmp_path / "learned.toml").refused(ManifestBroken)
    assert not (tmp_path / "learned.toml").exists()
    ditseed("compare", whole, export).refused(ManifestBroken)


@pytest.mark.parametrize("engine", ENGINES)
def test_with_other_files_too(target: Slapd, export: Path, tmp_path: Path, engine: str) -> None:
    """What has no manifest promises nothing; the export is held to its own nevertheless. The hint tells the way out:
    files that are named are what the operator says they are."""
    more, where = tmp_path / "more.ldif", ("--config", target.config_path, "-b", SUFFIX, "--engine", engine)
    assert ditseed("build", export, *where, "--json").ok().facts["entries"] == PEOPLE + 2
    more.write_text(adding.unit("more"))
    one_letter(export)
    ditseed("build", export, more, *where, "--replace").refused(ManifestBroken)
    assert "\ndn: ou=more," not in target.slapcat()
    assert "name the files one by one" in (ManifestBroken.hint or "")
    ditseed("build", *sorted(export.glob("*.ldif")), more, *where, "--replace").ok()
