"""What `ditseed build` by the native engine has that slapadd has not: streams, rejects, another target, refusals."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import record
from loader import errors
from loader.defaults import ENGINES
from tests.support.adding import SUFFIX, TOP, people, person, write
from tests.support.building import build
from tests.support.command import Done, ditseed, piped
from tests.support.killing import Stamp
from tests.support.trees import tree

pytestmark = pytest.mark.slapd


@pytest.fixture
def ldif(tmp_path: Path) -> Path:
    """One good entry below the top, and one that the schema forbids."""
    path = tmp_path / "some.ldif"
    path.write_text(TOP + person("one", sn=None) + person("two"))
    return path


def _piped(target: Slapd, text: bytes, *more: object) -> Done:
    words = ("build", *more, "--config", target.config_path, "-b", target.suffix)
    return piped(text, *words)


# --- where it reads from and writes to ----------------------------------------------------------


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_standard_input_is_read_anew_each_time(target: Slapd, people_ldif: Path, name: str) -> None:
    _piped(target, TOP.encode(), name).ok()
    _piped(target, TOP.encode(), name).refused(errors.TargetNotEmpty)
    _piped(target, TOP.encode(), "-", "-", "--replace").refused(errors.UsageProblem, "twice")
    facts = _piped(target, people_ldif.read_bytes(), name, "--replace", "--json").ok().facts
    found = tree(target.slapcat())
    assert len(found) == facts["entries"] == facts["read"] == people_ldif.read_text().count("\n\n")


def test_another_target(target: Slapd, people_ldif: Path, tmp_path: Path) -> None:
    """The configuration's own directory and the configuration stay as they are; owner and mode are right."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    os.chown(place, 12345, 12346)
    before = _files(target)
    options = ("--target", place, "--maxsize", "auto", "--json")
    facts = build(target, people_ldif, *options).ok().facts
    assert _files(target) == before
    status = (place / "data.mdb").stat()
    assert (status.st_uid, status.st_gid) == (12345, 12346)
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert facts["directory"] == str(place)
    assert {path.name for path in place.iterdir()} == {"data.mdb", ".ditseed-build"}
    shown = subprocess.run(["mdb_stat", "-e", place], capture_output=True, text=True, check=True)
    assert f"Map size: {1 << 30}" in shown.stdout, "the one chosen"


def _files(server: Slapd) -> dict[Path, Stamp]:
    return {path: Stamp.of(path) for path in server.home.rglob("*") if path.is_file()}


def test_nothing_is_left_in_the_scratch_directory_at_any_level_of_verification(
    target: Slapd, people_ldif: Path, tmp_path: Path
) -> None:
    place = tmp_path / "scratch"
    place.mkdir()
    for level in ("none", "quick", "pages", "tree", "indexes"):
        more = ("--tmp", place, "--memory", "64M", "--replace", "--restart")
        build(target, people_ldif, "--verify", level, *more).ok()
        assert not list(place.iterdir())
        assert len(tree(target.slapcat())) == people_ldif.read_text().count("\n\n")


# --- entries that are refused -------------------------------------------------------------------


def test_done_with_rejects(target: Slapd, ldif: Path, tmp_path: Path) -> None:
    """Exit status 1; people are told of them; the file of rejects can be mended and built from."""
    kept = tmp_path / "rejects.ldif"
    told = build(target, ldif, "--max-rejects", 1, "--rejects", kept)
    assert told.status == errors.EXIT_DIFFERENT
    assert f"{ldif}, line 5: cn=one,{SUFFIX}: " in told.err
    assert re.search("^rejected +1\n", told.out, re.MULTILINE)
    assert set(tree(target.slapcat())) == {f"dn: {SUFFIX}", f"dn: cn=two,{SUFFIX}"}
    mended = kept.read_text().replace("cn: one\n", "cn: one\nsn: One\n", 1)
    kept.write_text(TOP + mended)
    build(target, kept, "--replace").ok()
    assert f"dn: cn=one,{SUFFIX}" in tree(target.slapcat())


def test_ldif_of_another_tree_replaces_nothing(target: Slapd, ldif: Path, tmp_path: Path) -> None:
    target.slapadd(TOP)
    foreign = tmp_path / "foreign.ldif"
    foreign.write_text(ldif.read_text().replace("dc=com", "dc=org"))
    build(target, foreign, "--max-rejects", 99, "--replace").refused(
        errors.AllRejected, f"{foreign}: all 3 entries were rejected"
    )
    assert set(tree(target.slapcat())) == {f"dn: {SUFFIX}"}


# --- slapo-memberof: nothing has memberOf that was loaded offline, and whoever builds it is told ------

DOCS = Path(__file__).parents[2] / "docs" / "build.md"
GROUP = [("objectClass", "groupOfNames"), ("cn", "g")]
GROUP += [("member", f"cn=p{number},{SUFFIX}") for number in range(3)]
LDIF = TOP + people(5) + record(f"cn=g,{SUFFIX}", GROUP)
TOLD = "no memberOf"


@pytest.fixture
def server() -> Iterator[Slapd]:
    with closing(Slapd(Settings(modules=("back_mdb", "memberof"), overlays=("overlay memberof",)))) as made:
        yield made


def _verified(server: Slapd) -> str:
    return ditseed("verify", "--config", server.config_path, "-b", SUFFIX).ok().out


@pytest.mark.parametrize("engine", ENGINES)
def test_the_note_where_there_is_a_reason_and_what_it_advises(server: Slapd, tmp_path: Path, engine: str) -> None:
    path = tmp_path / "x.ldif"
    told = record(f"cn=q,{SUFFIX}", [*GROUP[:1], ("cn", "q"), GROUP[2], ("memberOf", SUFFIX)])
    for text, reason in (TOP + people(5), False), (LDIF + told, False), (LDIF, True):
        done = build(server, write(path, text), "--engine", engine, "--replace").ok()
        assert (TOLD in done.out) == reason
    assert TOLD in _verified(server)
    server.start()
    assert not server.search("(memberOf=*)")
    command = re.search(r"```\n(ldapsearch .*?)```", DOCS.read_text(), re.DOTALL)
    assert command
    text = command[1].replace("ldapi:///", server.ldapi_uri).replace("EXTERNAL", "EXTERNAL -Q")
    subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=tmp_path, check=True)
    assert len(server.search("(memberOf=*)")) == 3
    server.stop()
    assert TOLD not in _verified(server)
