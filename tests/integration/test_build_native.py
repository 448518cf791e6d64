"""What `ditseed build` by the native engine has that slapadd has not: streams, rejects, another target, refusals."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.slapd import Form, Slapd
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

NUMBERED = record(
    f"uid=three,{SUFFIX}",
    [
        *(("objectClass", "account"), ("objectClass", "posixAccount"), ("uid", "three")),
        *(("cn", "three"), ("uidNumber", "many"), ("gidNumber", "3"), ("homeDirectory", "/")),
    ],
)


@pytest.fixture
def target(form: Form) -> Iterator[Slapd]:
    with closing(Slapd(form=form)) as server:
        yield server


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
def test_standard_input(target: Slapd, people_ldif: Path, name: str) -> None:
    facts = _piped(target, people_ldif.read_bytes(), name, "--json").ok().facts
    found = tree(target.slapcat())
    assert len(found) == facts["entries"] == facts["read"] == people_ldif.read_text().count("\n\n")


@pytest.mark.long
def test_a_stream_is_read_anew_each_time(target: Slapd, people_ldif: Path) -> None:
    _piped(target, TOP.encode(), "-").ok()
    assert _piped(target, TOP.encode(), "-").status == errors.TargetNotEmpty.exit_status
    _piped(target, people_ldif.read_bytes(), "-", "--replace").ok()
    assert len(tree(target.slapcat())) > 1000


def test_standard_input_only_once(target: Slapd) -> None:
    done = _piped(target, TOP.encode(), "-", "-")
    assert done.status == errors.UsageProblem.exit_status
    assert "twice" in done.err


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


@pytest.mark.parametrize("given", [True, False])
def test_nothing_is_left_in_the_scratch_directory(
    target: Slapd, people_ldif: Path, tmp_path: Path, given: bool
) -> None:
    place = tmp_path / "scratch"
    place.mkdir()
    build(target, people_ldif, *(("--tmp", place) if given else ()), "--memory", "64M").ok()
    assert not list(place.iterdir())


@pytest.mark.parametrize("level", ["none", "quick", "pages", "tree", "indexes"])
def test_every_level_of_verification(target: Slapd, people_ldif: Path, level: str) -> None:
    build(target, people_ldif, "--verify", level).ok()
    assert len(tree(target.slapcat())) == people_ldif.read_text().count("\n\n")


# --- entries that are refused -------------------------------------------------------------------


def test_one_reject_stops_it_before_publishing(target: Slapd, ldif: Path) -> None:
    done = build(target, ldif)
    assert done.status == errors.EntryRefused.exit_status
    assert f"cn=one,{SUFFIX} was refused" in done.err
    assert f"{ldif}, line 5" in done.err
    assert "--no-value-check" not in done.err, "is for values alone"
    assert not (target.database_dir / "data.mdb").exists()
    kept = target.database_dir / ".ditseed-build" / "rejects.ldif"
    assert str(kept) in done.err
    assert f"dn: cn=one,{SUFFIX}" in kept.read_text()


def test_done_with_rejects(target: Slapd, ldif: Path, tmp_path: Path) -> None:
    """Exit status 1; people are told of them; the file of rejects can be mended and built from."""
    kept = tmp_path / "rejects.ldif"
    done = build(target, ldif, "--max-rejects", 1, "--rejects", kept, "--json")
    assert done.status == errors.EXIT_DIFFERENT, done
    facts = json.loads(done.out)
    assert (facts["read"], facts["entries"], facts["rejected"]) == (3, 2, 1)
    assert facts["rejects"] == str(kept)
    assert set(tree(target.slapcat())) == {f"dn: {SUFFIX}", f"dn: cn=two,{SUFFIX}"}
    told = build(target, ldif, "--max-rejects", 1, "--replace", "--restart")
    assert told.status == errors.EXIT_DIFFERENT
    assert f"{ldif}, line 5: cn=one,{SUFFIX}: " in told.err
    assert re.search("^rejected +1\n", told.out, re.MULTILINE)
    mended = kept.read_text().replace("cn: one\n", "cn: one\nsn: One\n", 1)
    kept.write_text(TOP + mended)
    build(target, kept, "--replace").ok()
    assert f"dn: cn=one,{SUFFIX}" in tree(target.slapcat())


def test_ldif_of_another_tree_replaces_nothing(target: Slapd, ldif: Path, tmp_path: Path) -> None:
    target.slapadd(TOP)
    foreign = tmp_path / "foreign.ldif"
    foreign.write_text(ldif.read_text().replace("dc=com", "dc=org"))
    done = build(target, foreign, "--max-rejects", 99, "--replace")
    assert done.status == errors.AllRejected.exit_status
    assert f"{foreign}: all 3 entries were rejected" in done.err
    assert set(tree(target.slapcat())) == {f"dn: {SUFFIX}"}


def test_values_are_checked_unless_told_not_to(target: Slapd, tmp_path: Path) -> None:
    path = tmp_path / "numbered.ldif"
    path.write_text(TOP + NUMBERED)
    done = build(target, path)
    assert done.status == errors.EntryRefused.exit_status
    assert "uidNumber" in done.err
    assert "--no-value-check" in done.err.partition("hint:")[2]
    build(target, path, "--no-value-check").ok()


@pytest.mark.long
def test_slapadd_checks_no_values_anyway(target: Slapd, tmp_path: Path) -> None:
    """So the switch is no mistake there, and both engines store the same."""
    path = tmp_path / "numbered.ldif"
    path.write_text(TOP + NUMBERED)
    build(target, path, "--no-value-check").ok()
    found = tree(target.slapcat())
    build(target, path, "--no-value-check", "--engine", "slapadd", "--replace").ok()
    assert set(tree(target.slapcat())) == set(found)
    assert "uidNumber: many" in target.slapcat()


def test_file_urls_only_when_allowed(target: Slapd, tmp_path: Path) -> None:
    (tmp_path / "words").write_text("read from a file")
    path = tmp_path / "url.ldif"
    path.write_text(f"{TOP.rstrip()}\ndescription:< file://{tmp_path}/words\n\n")
    done = build(target, path)
    assert done.status == errors.EntryRefused.exit_status, done
    assert "`ditseed build --allow-file-urls`" in done.err
    assert f"{path}, line 1" in done.err
    build(target, path, "--allow-file-urls").ok()
    assert "description: read from a file" in target.slapcat()


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
def test_the_note_and_what_it_advises(server: Slapd, tmp_path: Path, engine: str) -> None:
    assert TOLD in build(server, write(tmp_path / "x.ldif", LDIF), "--engine", engine).ok().out
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


@pytest.mark.parametrize(
    "text",
    [TOP + people(5), LDIF + record(f"cn=q,{SUFFIX}", [*GROUP[:1], ("cn", "q"), GROUP[2], ("memberOf", SUFFIX)])],
)
def test_no_note_without_a_reason(server: Slapd, tmp_path: Path, text: str) -> None:
    assert TOLD not in build(server, write(tmp_path / "x.ldif", text)).ok().out
