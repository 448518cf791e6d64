"""Converted templates of makeldif: the tree is of the kind that OpenDJ's makeldif makes, and OpenDJ imports it."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.opendj import OpenDJ, makeldif, missing_opendj, set_up
from tests.support.command import ditseed
from tests.support.require import require

pytestmark = pytest.mark.long

FIXTURES = Path(__file__).parents[2] / "fixtures" / "makeldif"
SUFFIX = "dc=example,dc=com"


@pytest.fixture(scope="module", autouse=True)
def _opendj() -> None:
    require(missing_opendj())


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OpenDJ's templates and ours, with OpenDJ's lists of names, streets and cities beside them."""
    directory = tmp_path_factory.mktemp("templates") / "makeldif"
    shutil.copytree(set_up() / "config" / "MakeLDIF", directory)
    shutil.copytree(FIXTURES, directory, dirs_exist_ok=True)
    return directory


def made(template: Path, *options: object) -> str:
    return ditseed("generate", template, "--progress", "none", *options).ok().out


def shape(text: str) -> tuple[Counter[str], set[str]]:
    """How many entries are below each parent, and which attributes there are, but those of a branch's name alone."""
    records = [record.splitlines() for record in text.strip().split("\n\n")]
    below = Counter(record[0].partition(",")[2].lower() for record in records)
    attributes = {line.partition(":")[0].lower() for record in records for line in record if not line.endswith(":")}
    return below, attributes - {"o", "dc", "objectclass"}


def test_the_tree_has_the_shape_of_makeldif(templates: Path, tmp_path: Path) -> None:
    """Each run starts a JVM, so a few stand for all."""
    for name in ("big-groups", "hierarchy", "people_and_groups", "posix"):
        output = tmp_path / f"{name}.ldif"
        makeldif(templates / f"{name}.template", output, templates)
        assert shape(made(templates / f"{name}.template")) == shape(output.read_text()), name


def test_opendj_imports_what_is_made(templates: Path, tmp_path: Path) -> None:
    """All in one import, each template below a branch of its own."""
    whole = tmp_path / "all.ldif"
    entries = 1
    with whole.open("w") as out:
        out.write(f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n")
        for template in sorted(templates.glob("*.template")):
            options = ["-n", "100"] if template.stem == "addrate" else ["--define", "numusers=100"]
            text = made(template, *options, "--suffix", f"dc={template.stem},{SUFFIX}")
            entries += text.count("\n\n")
            out.write(text)
    with closing(OpenDJ()) as server:
        assert server.load(whole) == entries
