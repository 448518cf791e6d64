"""`generate learn`: what is made from a learned template is like its source, and tells nothing of it."""

from __future__ import annotations

import re
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from fixtures import opendj, secrets, similarity
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader.sources.dit import TreeSpec
from seeders.synthetic import templates
from tests.support.command import Done, ditseed
from tests.support.generating import LISTS, text_of
from tests.support.require import require

ROOT = Path(__file__).parents[2]
DEEP = ROOT / "fixtures" / "deep.toml"
BAR = 0.15  # pages of a table, more or less


def learn(*sources: object, out: Path, more: tuple[object, ...] = ()) -> str:
    done = ditseed("generate", "learn", *sources, "-o", out, "--progress", "none", *more)
    assert done.status == 0, done.err
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
@pytest.mark.parametrize("name", ["people", "deep"])
def test_databases_of_both_have_as_many_pages(name: str, tmp_path: Path) -> None:
    template = DEEP if name == "deep" else templates.find(name)
    source = tree(template, 10_000, tmp_path / "source.ldif")
    assert_alike(source, 10_000, tmp_path)


@pytest.mark.heavy
@pytest.mark.slapd
@pytest.mark.parametrize(("name", "entries"), [("people", 300_000), ("deep", 100_000)])
def test_large_databases_have_as_many_pages(name: str, entries: int, tmp_path: Path) -> None:
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


def test_the_same_source_makes_the_same_template(tmp_path: Path) -> None:
    source = tree(DEEP, 3000, tmp_path / "source.ldif")
    records = source.read_text().split("\n\n")
    (tmp_path / "parts").mkdir()
    for part in range(3):
        text = "\n\n".join(record for record in records[part::3] if record.strip())
        (tmp_path / "parts" / f"{part}.ldif").write_text(text + "\n\n")
    one = learn(source, out=tmp_path / "one.toml", more=("--jobs", "1"))
    assert learn(source, out=tmp_path / "three.toml", more=("--jobs", "3")) == one
    assert learn(tmp_path / "parts", out=tmp_path / "parts.toml") == one
    command = [similarity.DITSEED, "generate", "learn", "-", "-o", "-", "--progress", "none"]
    with source.open("rb") as file:
        piped = subprocess.run(command, stdin=file, capture_output=True, check=True)
    assert piped.stdout.decode() == one


@pytest.mark.slapd
def test_slapd_takes_what_a_learned_template_makes(tmp_path: Path) -> None:
    source = tree(DEEP, 2000, tmp_path / "source.ldif")
    learn(source, out=tmp_path / "learned.toml")
    made = tree(tmp_path / "learned.toml", 2000, tmp_path / "made.ldif")
    with closing(Slapd(Settings(), form="conf")) as slapd:
        slapd.slapadd(made, "-u", "-o", "value-check=yes")


def refused(*words: object) -> Done:
    done = ditseed("generate", "learn", *words, "--progress", "none")
    assert done.status != 0
    return done


def test_what_cannot_be_learned_from_is_refused(tmp_path: Path) -> None:
    few = tmp_path / "few.ldif"
    few.write_text("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\n")
    out = tmp_path / "learned.toml"
    assert "template.nothing_to_learn" in refused(few, "-o", out).err
    assert "template.nothing_to_learn" in refused("/dev/null", "-o", out).err
    assert "usage" in refused(few, "-H", "ldap://nowhere", "-o", out).err
    assert not out.exists()
    out.write_text("mine")
    assert "--replace" in refused(few, "-o", out).err
    assert out.read_text() == "mine"
