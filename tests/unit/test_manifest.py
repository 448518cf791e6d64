"""The manifest says what an export holds; one that cannot be trusted is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loader import ldif
from loader.errors import ManifestBroken
from loader.ldif import Manifest
from loader.progress import Meter
from tests.support.dumped import assert_as_manifest, described, edit_manifest


@pytest.fixture
def export(tmp_path: Path) -> tuple[Manifest, Path]:
    """Two shards and their manifest, written."""
    for number in (1, 2):
        text = "".join(f"dn: cn={number}.{one}\ncn: {number}.{one}\n\n" for one in range(number))
        (tmp_path / f"{number}.ldif").write_text(text)
    shards = tuple(described(tmp_path / f"{number}.ldif") for number in (1, 2))
    made = Manifest(
        base="dc=example,dc=com",
        entries=3,
        content_checksum=ldif.total_of(one.content_checksum for one in shards),
        context_csns=("20261121070501.123456Z#000000#001#000000",),
        shards=shards,
        source="ldap://provider",
        started="2026-11-21T07:05:01+00:00",
        finished="2026-11-21T07:05:09+00:00",
        partitions="2 ranges of entryCSN",
    )
    (tmp_path / ldif.MANIFEST).write_bytes(made.text())
    return made, tmp_path


def test_it_reads_back_as_written(export: tuple[Manifest, Path]) -> None:
    made, directory = export
    assert ldif.read_manifest(directory) == made
    assert ldif.input_files([directory]) == [directory / "1.ldif", directory / "2.ldif"]
    assert ldif.entries_of([directory]) == 3
    assert_as_manifest(directory)


def test_the_checksum_is_that_of_xxhsum(tmp_path: Path) -> None:
    (tmp_path / "a.ldif").write_bytes(b"abc")
    assert ldif.checksum_of(tmp_path / "a.ldif") == "06b05ab6733a618578af5f94892f3950"  # `printf abc | xxhsum -H2`


@pytest.mark.parametrize(
    "edit",
    [
        *(lambda facts, name=name: facts.pop(name) for name in ("format", "shards", "entries")),
        *(lambda facts, format=format: facts.update(format=format) for format in (99, "3")),
        *(lambda facts, shards=shards: facts.update(shards=shards) for shards in (None, [], [{"name": "1.ldif"}])),
        *(lambda facts, count=count: facts.update(entries=count) for count in ("3", -3, 3.0, 10**400, True)),
        lambda facts: facts.update(base=["dc=example"]),
        lambda facts: facts.update(context_csns="20261121070501.123456Z#000000#001#000000"),
        lambda facts: facts.update(notes=[1]),
        lambda facts: facts.update(content_checksum="00FF"),
        lambda facts: facts.update(unheard_of=1),
        lambda facts: facts["shards"].append(facts["shards"][0]),
        lambda facts: facts["shards"].pop(),
        lambda facts: facts["shards"][0].update(entries=2),
        lambda facts: facts["shards"][0].update(content_checksum="0" * 32),
        *(
            lambda facts, name=name: facts["shards"][0].update(name=name)
            for name in ("../1.ldif", "/etc/passwd", "sub/1.ldif", "", ".", "..", "1\0.ldif", "1\n")
        ),
    ],
)
def test_one_that_cannot_be_trusted_is_refused(
    export: tuple[Manifest, Path], edit: Callable[[dict[str, Any]], Any]
) -> None:
    edit_manifest(export[1], edit)
    with pytest.raises(ManifestBroken):
        ldif.read_manifest(export[1])


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'"text"', b"\xff\xfe", b"null", b"[" * 100_000, b'{"format":' + b"[" * 100_000]
)
def test_what_is_no_manifest_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / ldif.MANIFEST).write_bytes(text)
    with pytest.raises(ManifestBroken, match="not a manifest"):
        ldif.read_manifest(tmp_path)


@pytest.mark.slow("endless")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["pipe", "directory", "link", "endless"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ldif.MANIFEST
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("/etc/passwd")
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    with pytest.raises(ManifestBroken, match=r"regular file|symbolic link|larger than"):
        ldif.read_manifest(tmp_path)


def link(shard: Path) -> None:
    shard.symlink_to(shard.rename(shard.with_name("elsewhere")))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (Path.unlink, r"2\.ldif: is missing"),
        (link, r"2\.ldif: is not a regular file"),
        (lambda shard: shard.write_text("dn: cn=2.0\ncn: 2.0\n\n"), r"2\.ldif: has 20 bytes, the manifest says"),
        (lambda shard: shard.write_text(""), r"2\.ldif: has 0 bytes, the manifest says"),
    ],
)
def test_a_shard_is_looked_at_before_any_is_read(
    export: tuple[Manifest, Path], damage: Callable[[Path], object], reason: str
) -> None:
    damage(export[1] / "2.ldif")
    with pytest.raises(ManifestBroken, match=reason):
        ldif.input_files([export[1]])


def test_what_only_reading_tells(export: tuple[Manifest, Path]) -> None:
    """Other content of the same size; a shard that was not read to its end; a count that is wrong in a shard and in the
    sum."""
    directory, meter = export[1], Meter("scan")
    with (
        pytest.raises(ManifestBroken, match=r"2\.ldif: was not read to its end"),
        ldif.verified_inputs([directory], meter) as paths,
    ):
        ldif.scan(paths[:1], meter)
    edit_manifest(directory, lambda facts: (facts.update(entries=4), facts["shards"][0].update(entries=2)))
    with pytest.raises(ManifestBroken, match="promises 4 entries, but 3 were read"):
        assert_as_manifest(directory)
    path = directory / "2.ldif"
    path.write_text(path.read_text().replace("cn=2.0", "cn=2.7"))
    with pytest.raises(ManifestBroken, match=r"2\.ldif: differs from the manifest"):
        assert_as_manifest(directory)


def test_an_export_that_has_not_ended_is_none(export: tuple[Manifest, Path]) -> None:
    (export[1] / ldif.MANIFEST).unlink()
    assert ldif.read_manifest(export[1]) is None
    (export[1] / ldif.RUN_DIR).mkdir()
    with pytest.raises(ManifestBroken, match="has not ended"):
        ldif.input_files([export[1]])
