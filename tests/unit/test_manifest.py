"""The manifest says what an export holds; one that cannot be trusted is refused."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loader import manifest
from loader.errors import ManifestBroken
from loader.manifest import Manifest


@pytest.fixture
def export(tmp_path: Path) -> tuple[Manifest, Path]:
    """Two shards and their manifest, written."""
    for number in (1, 2):
        (tmp_path / f"{number}.ldif").write_bytes(b"dn: o=x\n" * number)
    made = Manifest(
        base="dc=example,dc=com",
        entries=3,
        content_checksum="00ff",
        context_csns=("20261121070501.123456Z#000000#001#000000",),
        shards=tuple(manifest.describe(tmp_path / f"{number}.ldif") for number in (1, 2)),
        source="ldap://provider",
        started="2026-11-21T07:05:01+00:00",
        finished="2026-11-21T07:05:09+00:00",
        partitions="2 ranges of entryCSN",
    )
    (tmp_path / manifest.FILE).write_bytes(made.text())
    return made, tmp_path


def change(directory: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    path = directory / manifest.FILE
    facts = json.loads(path.read_bytes())
    edit(facts)
    path.write_text(json.dumps(facts))


def test_it_reads_back_as_written(export: tuple[Manifest, Path]) -> None:
    made, directory = export
    assert manifest.read(directory) == made
    assert made.paths(directory) == [directory / "1.ldif", directory / "2.ldif"]
    manifest.check(made, directory)


def test_a_directory_without_one_is_no_export(tmp_path: Path) -> None:
    assert manifest.read(tmp_path) is None


def test_a_shard_is_described_by_what_lies_on_the_disk(tmp_path: Path) -> None:
    (tmp_path / "a.ldif").write_bytes(b"abc")
    known = "06b05ab6733a618578af5f94892f3950"  # `printf abc | xxhsum -H2`
    assert manifest.describe(tmp_path / "a.ldif") == manifest.ShardFile("a.ldif", 3, known)


@pytest.mark.parametrize(
    "edit",
    [
        lambda facts: facts.update(format=99),
        lambda facts: facts.pop("format"),
        lambda facts: facts.pop("shards"),
        lambda facts: facts.update(shards=None),
        lambda facts: facts.update(shards=[{"name": "1.ldif"}]),
        lambda facts: facts.pop("entries"),
        lambda facts: facts.update(unheard_of=1),
    ],
)
def test_one_that_cannot_be_trusted_is_refused(
    export: tuple[Manifest, Path], edit: Callable[[dict[str, Any]], Any]
) -> None:
    change(export[1], edit)
    with pytest.raises(ManifestBroken):
        manifest.read(export[1])


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'"text"', b"\xff\xfe", b"null"])
def test_what_is_no_manifest_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / manifest.FILE).write_bytes(text)
    with pytest.raises(ManifestBroken, match="not a manifest"):
        manifest.read(tmp_path)


def test_a_missing_shard_is_named(export: tuple[Manifest, Path]) -> None:
    made, directory = export
    (directory / "2.ldif").unlink()
    with pytest.raises(ManifestBroken, match=r"2\.ldif: is missing"):
        manifest.check(made, directory)


@pytest.mark.parametrize("content", [b"dn: o=y\n" * 2, b"dn: o=x\n", b""])
def test_a_shard_that_changed_is_named(export: tuple[Manifest, Path], content: bytes) -> None:
    made, directory = export
    (directory / "2.ldif").write_bytes(content)
    with pytest.raises(ManifestBroken, match=r"2\.ldif: is not as the manifest says"):
        manifest.check(made, directory)


@pytest.mark.parametrize("name", ["../1.ldif", "/etc/passwd", "sub/1.ldif"])
def test_it_names_files_beside_it_only(export: tuple[Manifest, Path], name: str) -> None:
    made, directory = export
    elsewhere = dataclasses.replace(made.shards[0], name=name)
    with pytest.raises(ManifestBroken, match="names a file elsewhere"):
        manifest.check(dataclasses.replace(made, shards=(elsewhere,)), directory)
