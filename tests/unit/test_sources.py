"""Whatever a build or a load reads from tells the same of itself and is read in the same way; one place writes
manifests."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from loader import ldif
from loader.errors import ManifestBroken
from loader.operations.generate import to_directory
from loader.progress import Meter, Progress
from loader.sources import Source, names
from loader.sources.dit import Synthetic
from loader.sources.location import LdifFiles
from tests.support import generating

ROOT = Path(__file__).parents[2]


def checksum(source: Source) -> tuple[int, str]:
    meter = Meter("read")
    with source.reading(meter) as read, ldif.digesting((), meter) as tree:
        for path in names(read):
            tree.add_path(str(path))
    return tree.entries, tree.checksum


@pytest.fixture
def exported(tmp_path: Path) -> LdifFiles:
    made = generating.options(generating.people(2500), None, 1, 1000, "none")
    to_directory(made, tmp_path / "tree", Progress("none"))
    return LdifFiles((tmp_path / "tree",))


def test_a_tree_and_its_export_are_the_same_source(exported: LdifFiles) -> None:
    tree = Synthetic(generating.people(2500))
    assert exported.entries() == tree.entries() == 2502
    assert checksum(exported) == checksum(tree)
    assert checksum(tree)[0] == 2502


def test_ldif_without_a_manifest_does_not_tell_how_much_it_is(tmp_path: Path) -> None:
    path = tmp_path / "one.ldif"
    path.write_text("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n")
    assert LdifFiles((path,)).entries() is None
    assert checksum(LdifFiles((path,)))[0] == 1


def test_standard_input_is_a_descriptor() -> None:
    with LdifFiles((Path("-"), Path("more.ldif"))).reading(Meter("read")) as read:
        assert list(read) == [0, Path("more.ldif")]
        assert names(read) == [Path("/dev/fd/0"), Path("more.ldif")]


def test_a_shard_that_was_changed_is_refused_when_it_has_been_read(exported: LdifFiles) -> None:
    shard = exported.given[0] / "00000.ldif"
    shard.write_bytes(shard.read_bytes().replace(b"person", b"nobody", 1))
    with pytest.raises(ManifestBroken, match="other checksum"):
        checksum(exported)


@pytest.mark.long
def test_one_place_writes_the_manifest_of_an_export() -> None:
    found = {
        str(path.relative_to(ROOT))
        for part in ("loader", "seeders")
        for path in (ROOT / part).rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "Manifest"
        and "backup" not in path.parts
    }
    assert found == {"loader/operations/shards.py"}
