"""slapo-memberof and a database that was loaded offline: nothing has memberOf, and whoever builds it is told."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import record
from tests.support.adding import SUFFIX, TOP, people, write
from tests.support.command import Done, ditseed

pytestmark = pytest.mark.slapd

DOCS = Path(__file__).parents[2] / "docs" / "build.md"
GROUP = [("objectClass", "groupOfNames"), ("cn", "g")]
GROUP += [("member", f"cn=p{number},{SUFFIX}") for number in range(3)]
LDIF = TOP + people(5) + record(f"cn=g,{SUFFIX}", GROUP)
TOLD = "no memberOf"


@pytest.fixture
def server() -> Iterator[Slapd]:
    made = Slapd(Settings(modules=("back_mdb", "memberof"), overlays=("overlay memberof",)))
    yield made
    made.close()


def _build(server: Slapd, text: str, tmp_path: Path, *options: str) -> Done:
    path = write(tmp_path / "x.ldif", text)
    return ditseed("build", path, "--config", server.config_path, "-b", SUFFIX, *options).ok()


def _verify(server: Slapd) -> Done:
    return ditseed("verify", "--config", server.config_path, "-b", SUFFIX).ok()


@pytest.mark.parametrize("engine", ["native", "slapadd"])
def test_the_note_and_what_it_advises(server: Slapd, tmp_path: Path, engine: str) -> None:
    assert TOLD in _build(server, LDIF, tmp_path, "--engine", engine).out
    assert TOLD in _verify(server).out
    server.start()
    assert not server.search("(memberOf=*)")
    command = re.search(r"```\n(ldapsearch .*?)```", DOCS.read_text(), re.DOTALL)
    assert command
    text = command[1].replace("ldapi:///", server.ldapi_uri).replace("EXTERNAL", "EXTERNAL -Q")
    subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=tmp_path, check=True)
    assert len(server.search("(memberOf=*)")) == 3
    server.stop()
    assert TOLD not in _verify(server).out


@pytest.mark.parametrize(
    "text",
    [TOP + people(5), LDIF + record(f"cn=q,{SUFFIX}", [*GROUP[:1], ("cn", "q"), GROUP[2], ("memberOf", SUFFIX)])],
)
def test_no_note_without_a_reason(server: Slapd, tmp_path: Path, text: str) -> None:
    assert TOLD not in _build(server, text, tmp_path).out
