"""The page says what the rows say, each row is run by a test, and nothing that slapd ships is without one."""

from __future__ import annotations

import ast
import gzip
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures.chroots import Chroot
from fixtures.compat import page
from fixtures.compat.modules import BACKENDS, OVERLAYS, PASSWORDS
from fixtures.compat.topologies import OPTIONS
from fixtures.slapd_config import Installation

HERE = Path(__file__).parent


def test_the_page_is_up_to_date() -> None:
    assert page.PAGE.read_text() == page.text(), "run bin/make-docs"


def test_a_stale_page_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by `bin/make-docs --check`, and mended by bin/make-docs."""
    monkeypatch.setattr(page, "PAGE", tmp_path / "compatibility.md")
    page.PAGE.write_text("old")
    assert page.main(["--check"]) == "stale, run bin/make-docs: compatibility.md"
    assert page.PAGE.read_text() == "old"
    assert page.main([]) == page.main(["--check"]) == 0


@pytest.mark.parametrize("section", page.SECTIONS, ids=lambda section: section.title)
def test_every_row_is_run(section: page.Section) -> None:
    """By a test of that name that takes all rows of the section."""
    for test in section.tests:
        file, _, function = test.partition("::")
        tree = ast.parse((HERE / file).read_text())
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert len({row.name for row in section.rows}) == len(section.rows)


@dataclass(frozen=True)
class Release:
    installation: Installation
    root: Path
    modules: Path


@pytest.fixture(scope="module", params=["here", "newer"])
def release(request: pytest.FixtureRequest) -> Release:
    if request.param == "here":
        return Release(Installation(), Path("/"), Path(Installation().modules))
    newer: Chroot = request.getfixturevalue("newer")
    return Release(Installation(prefix=newer.prefix), newer.root, newer.root / "usr" / "lib" / "ldap")


@pytest.mark.slapd
def test_every_module_has_a_row(release: Release) -> None:
    found = {path.stem for path in release.modules.glob("*.la")}
    assert {"back_mdb", "memberof"} <= found
    of_overlays = {row.name.partition(":")[0] for row in OVERLAYS}
    assert found <= of_overlays | {row.name for row in PASSWORDS} | {f"back_{row.name}" for row in BACKENDS}


# --- options of syncrepl --------------------------------------------------------------------------


@pytest.mark.slapd
def test_every_option_of_syncrepl_has_a_row(release: Release) -> None:
    """By slapd.conf(5), which is troff."""
    path = release.root / "usr" / "share" / "man" / "man5" / "slapd.conf.5.gz"
    if not path.is_file():
        pytest.skip("the manual page slapd.conf(5) is not installed")
    text = gzip.decompress(path.read_bytes()).decode().replace("\\-", "-")
    synopsis = text[text.index(".B syncrepl rid=") :].partition(".RS")[0]
    found = set(re.findall(r"(?:(?<!\w)\[|\.B |syncrepl )([a-z_-]+)(?==|\])", synopsis))
    assert {"rid", "provider", "tls_ecname", "lazycommit"} <= found
    assert found == {row.name for row in OPTIONS}
