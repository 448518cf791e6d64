"""Whoever reads an export holds it to its manifest: nothing is built, sent or learned of one that differs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fixtures import replication
from fixtures.slapd import Slapd
from loader import ldif
from loader.errors import ManifestBroken
from loader.operations.generate import to_directory
from loader.progress import Meter, Progress
from tests.support import adding, generating
from tests.support.command import Done, ditseed
from tests.support.trees import tree

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
PEOPLE = 1500
CSN = b"contextCSN: 20260101000000.999999Z#000000#000#000000\n"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "export"
    recipe = generating.people(PEOPLE, suffix=SUFFIX)
    to_directory(generating.options(recipe, size=600, compress="none"), out, Progress("none"))
    return out


@pytest.fixture
def export(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "export"))


def edit(export: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = export / ldif.MANIFEST
    facts = json.loads(path.read_bytes())
    change(facts)
    path.write_text(json.dumps(facts))


def another_directory(export: Path) -> None:
    name = "00001.ldif"
    shutil.move(export / name, export.parent / name)
    edit(export, lambda facts: facts["shards"][1].update(name=f"../{name}"))


def symbolic_link(export: Path) -> None:
    shard = export / "00001.ldif"
    shutil.move(shard, export.parent / shard.name)
    shard.symlink_to(export.parent / shard.name)


def cut_between_entries(export: Path) -> None:
    shard = export / "00001.ldif"
    shard.write_bytes(shard.read_bytes().rpartition(b"\n\ndn:")[0] + b"\n\n")


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

    edit(export, change)


def unfinished(export: Path) -> None:
    """The export was killed before it wrote its manifest, with one shard still to come."""
    (export / ldif.MANIFEST).unlink()
    (export / "00002.ldif").unlink()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "shard off the list": lambda export: edit(export, lambda facts: facts["shards"].pop(1)),
    "entries": lambda export: edit(export, lambda facts: facts.update(entries=facts["entries"] - 1)),
    "content checksum": lambda export: edit(export, lambda facts: facts.update(content_checksum="0" * 32)),
    "shard missing": lambda export: (export / "00001.ldif").unlink(),
    "no JSON": lambda export: (export / ldif.MANIFEST).write_text("{"),
    **{one.__name__: one for one in (another_directory, symbolic_link, cut_between_entries, one_letter)},
    **{one.__name__: one for one in (more_in_one_than_it_says, unfinished)},
}


def refused(done: Done) -> None:
    assert done.status == ManifestBroken.exit_status, done.err
    assert f"[{ManifestBroken.code}]" in done.err


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("engine", ["native", "slapadd"])
def test_a_build_publishes_nothing(target: Slapd, export: Path, damage: str, engine: str) -> None:
    DAMAGE[damage](export)
    build = ("build", export, "--config", target.config_path, "-b", SUFFIX, "--engine", engine)
    refused(ditseed(*build))
    assert not (target.database_dir / "data.mdb").exists()


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_seeding_publishes_nothing(export: Path, tmp_path: Path, damage: str) -> None:
    """As somebody lost 4,896 of 20,003 entries with exit status 0."""
    first = export / "00000.ldif"
    first.write_bytes(first.read_bytes().replace(b"\n\n", b"\n" + CSN + b"\n", 1))
    edit(export, lambda facts: _describe(facts, 0, first))
    DAMAGE[damage](export)
    with replication.provider() as source, closing(replication.consumer(source)) as target:
        seed = ("replica", "seed", "--strategy", "ldif", "--from", export)
        refused(ditseed(*seed, "--config", target.config_path, "-b", SUFFIX))
        assert not (target.database_dir / "data.mdb").exists()


def _describe(facts: dict[str, Any], number: int, shard: Path) -> None:
    with ldif.digesting((), Meter("digest")) as digest:
        digest.add_path(str(shard))
    facts["shards"][number].update(
        bytes=shard.stat().st_size, checksum=ldif.checksum_of(shard), content_checksum=digest.checksum
    )
    facts["content_checksum"] = ldif.total_of(one["content_checksum"] for one in facts["shards"])


@pytest.mark.parametrize("damage", DAMAGE)
def test_nothing_is_sent_learned_or_compared(
    slapd_instance: Slapd, whole: Path, export: Path, tmp_path: Path, damage: str
) -> None:
    DAMAGE[damage](export)
    refused(adding.add(slapd_instance, export))
    assert tree(slapd_instance.slapcat()) == {}
    refused(ditseed("generate", "learn", export, "-o", tmp_path / "learned.toml"))
    assert not (tmp_path / "learned.toml").exists()
    refused(ditseed("compare", whole, export))


@pytest.mark.long("slapadd")
@pytest.mark.parametrize("engine", ["native", "slapadd"])
def test_a_whole_one_is_taken(target: Slapd, export: Path, engine: str) -> None:
    build = ("build", export, "--config", target.config_path, "-b", SUFFIX, "--engine", engine)
    facts = ditseed(*build, "--json").ok().facts
    assert facts["entries"] == ldif.read_manifest(export).entries == len(tree(target.slapcat()))  # type: ignore[union-attr]


def test_with_other_files_too(target: Slapd, export: Path, tmp_path: Path) -> None:
    """What has no manifest promises nothing; the export is held to its own nevertheless. The hint tells the way out:
    files that are named are what the operator says they are."""
    more, where = tmp_path / "more.ldif", ("--config", target.config_path, "-b", SUFFIX)
    more.write_text(adding.unit("more"))
    one_letter(export)
    refused(ditseed("build", export, more, *where))
    assert not (target.database_dir / "data.mdb").exists()
    assert "give the files instead" in (ManifestBroken.hint or "")
    ditseed("build", *sorted(export.glob("*.ldif")), more, *where).ok()
