"""LDIF that is cut, empty, of another place, or that the consumer cannot take: refused before anything is changed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from loader import errors
from loader.defaults import ENGINES
from tests.support.refusal import refused, text, where
from tests.support.seeding import Pair, consumer_of, pair

pytestmark = pytest.mark.slapd

PEOPLE = 600


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("bad"), PEOPLE) as made:
        made.prepare("ldif")
        yield made


@pytest.fixture
def both(shared: Pair) -> Iterator[Pair]:
    """The same provider and export, and a consumer of its own."""
    with consumer_of(shared) as made:
        yield made


@pytest.fixture
def plain(both: Pair) -> bytes:
    """One LDIF with operational attributes, as ditseed and slapcat write them."""
    return both.provider.slapcat().encode()


def _cuts(plain: bytes) -> dict[str, bytes]:
    """Where a copy may have broken off."""
    photo = plain.index(b"jpegPhoto:: ")
    record_end = plain.index(b"\n\n", photo)
    line_end = plain.index(b"\n", plain.index(b"\ntelephoneNumber", len(plain) // 2) + 1)
    return {
        "in a line": plain[: line_end - 5],
        "after a line": plain[: line_end + 1],
        "in base64": plain[: photo + 300],
        "before the last line end": plain[: record_end - 1],
    }


@pytest.mark.long("after a line-native", "in a line-native", "in a line-slapadd", "in base64-native")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cut", ["in a line", "after a line", "in base64", "before the last line end"])
def test_an_ldif_cut_in_a_record(both: Pair, plain: bytes, tmp_path: Path, cut: str, engine: str) -> None:
    path = tmp_path / "cut.ldif"
    path.write_bytes(_cuts(plain)[cut])
    by = (*where(both), "--engine", engine)
    done = refused(both, errors.LdifTruncated, "build", path, *by)
    assert str(path) in done.err
    seed = ("replica", "seed", "--strategy", "ldif", "--from", path, *by)
    refused(both, errors.LdifTruncated, *seed)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kept", [0.3, 0.9, 0.999])
def test_a_compressed_ldif_that_was_cut(both: Pair, plain: bytes, tmp_path: Path, kept: float, engine: str) -> None:
    packed = zstandard.compress(plain)
    path = tmp_path / "cut.ldif.zst"
    path.write_bytes(packed[: int(len(packed) * kept)])
    refused(both, errors.LdifTruncated, "build", path, *where(both), "--engine", engine)


def test_an_export_that_was_cut_or_changed(both: Pair, tmp_path: Path) -> None:
    export = tmp_path / "export"
    subprocess.run(["cp", "-a", both.export_dir, export], check=True)
    shard = max(export.glob("*.ldif.zst"), key=lambda path: path.stat().st_size)
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-100])
    seed = ("replica", "seed", "--strategy", "ldif", "--from", export, *where(both))
    assert shard.name in refused(both, errors.ManifestBroken, *seed).err
    shard.unlink()
    assert "is missing" in refused(both, errors.ManifestBroken, *seed).err
    shard.write_bytes(whole)
    (export / "manifest.json").write_text("{")
    refused(both, errors.ManifestBroken, *seed)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_ldif_that_is_empty_or_none(both: Pair, tmp_path: Path, engine: str) -> None:
    empty = tmp_path / "empty.ldif"
    by = (*where(both), "--engine", engine)
    empty.touch()
    refused(both, errors.EmptyInput, "build", empty, *by)
    empty.write_text("# only a comment\n\n")
    refused(both, errors.EmptyInput, "build", empty, *by)
    empty.write_text("this is no LDIF\n\n")
    refused(both, errors.LdifSyntax, "build", empty, *by)
    refused(both, errors.NoSuchPath, "build", tmp_path / "none.ldif", *by)
    (tmp_path / "none").mkdir()
    refused(both, errors.UsageProblem, "build", tmp_path / "none", *by)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_ldif_of_another_suffix_or_without_parents(both: Pair, tmp_path: Path, engine: str) -> None:
    path = tmp_path / "other.ldif"
    path.write_text(text("dc=other", objectClass="domain", dc="other"))
    by = (*where(both), "--engine", engine)
    error = {"slapadd": errors.NoSuchSuffix, "native": errors.EntryRefused}[engine]
    assert "dc=other" in refused(both, error, "build", path, *by).err
    orphan = text(f"ou=a,ou=nowhere,{both.provider.suffix}", objectClass="organizationalUnit", ou="a")
    path.write_text(text(both.provider.suffix, objectClass="domain", dc="example") + orphan)
    said = refused(both, errors.MissingParents, "build", path, *by).err
    assert f"the first is ou=nowhere,{both.provider.suffix}" in said


@pytest.mark.parametrize("engine", ENGINES)
def test_an_entry_that_slapadd_refuses(both: Pair, tmp_path: Path, engine: str) -> None:
    path = tmp_path / "refused.ldif"
    name = f"cn=no surname,{both.provider.suffix}"
    top = text(both.provider.suffix, objectClass="domain", dc="example")
    path.write_text(top + text(name, objectClass="person", cn="no surname"))
    done = refused(both, errors.EntryRefused, "build", path, *where(both), "--engine", engine)
    assert name in done.err
    assert "sn" in done.err


def test_an_ldif_without_context_csn(both: Pair, tmp_path: Path) -> None:
    path = tmp_path / "none.ldif"
    path.write_text(text(both.provider.suffix, objectClass="domain", dc="example"))
    seed = ("replica", "seed", "--strategy", "ldif", "--from", path, *where(both))
    assert "-w" in refused(both, errors.NoContextCSN, *seed).err
