"""Options of a build that do not go together, what a run is bound to, and where the native engine refuses."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from loader.config import Entry
from loader.errors import NoSuchPath, NotProven, UsageProblem
from loader.operations.build import BuildOptions, native
from loader.server import tools
from tests.support.configured import SUFFIX, mdb, parsed


def options(*inputs: Path, **more: object) -> BuildOptions:
    return BuildOptions(Path("/etc/ldap/slapd.d"), inputs, **more)  # type: ignore[arg-type]


@pytest.fixture
def ldif(tmp_path: Path) -> Path:
    path = tmp_path / "x.ldif"
    path.write_text("dn: dc=x\n\n")
    return path


def test_where_a_stream_is_read(tmp_path: Path) -> None:
    """Not by a dry run, and not where it would be read twice. It has no identity."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for stream in (Path("-"), pipe):
        options(stream, engine="slapadd", shards=2).require_fitting()
        with pytest.raises(UsageProblem, match=f"{stream} is not a file"):
            options(stream, seeding=True).require_fitting()
    options(Path("-")).require_fitting()
    with pytest.raises(UsageProblem, match="- is not a file"):
        options(Path("-")).require_fitting(dry=True)
    assert options(Path("-")).identity()["inputs"] == [["-"]]
    assert options(Path("-")).files.streamed


@pytest.mark.parametrize(
    ("more", "option"),
    [
        ({"memory": 1 << 30}, "--memory"),
        ({"jobs": 2}, "--jobs"),
        ({"scratch": Path("/tmp")}, "--tmp"),
        ({"max_rejects": 1}, "--max-rejects"),
        ({"rejects": Path("/tmp/never-made")}, "--rejects"),
        ({"file_urls": True}, "--allow-file-urls"),
        ({"verify": "indexes"}, "--verify indexes"),
    ],
)
def test_what_slapadd_does_not_know(ldif: Path, more: dict[str, object], option: str) -> None:
    options(ldif, **more).require_fitting()
    with pytest.raises(UsageProblem, match=f"--engine slapadd does not support {option}"):
        options(ldif, engine="slapadd", **more).require_fitting()


def test_a_run_is_bound_to_its_inputs_and_not_to_its_means(ldif: Path) -> None:
    before = options(ldif).identity()
    assert options(ldif, jobs=3, memory=1 << 30, scratch=Path("/tmp")).identity() == before
    assert options(ldif, max_rejects=3).identity() != before
    assert options(ldif, target=Path("/srv")).identity() != before
    ldif.write_text("dn: dc=other\n\n")
    assert options(ldif).identity() != before
    with pytest.raises(NoSuchPath):
        options(ldif.parent / "none.ldif").identity()
    with pytest.raises(UsageProblem, match="is also an input"):
        options(ldif, rejects=ldif.parent / "." / ldif.name).require_fitting()


PLAIN = options(Path("x.ldif"))


def ask(options: BuildOptions, *entries: Entry) -> None:
    found = parsed(*entries)
    native.proven_settings(found, found.databases[0], options)


def test_what_is_proven_is_let_through() -> None:
    ask(
        PLAIN,
        mdb(1, olcDbEnvFlags="{0}nosync writemap", olcSyncUseSubentry="TRUE"),
        mdb(2, "dc=other"),
        mdb(3, "dc=com"),  # above
        mdb(4, f"dc=not{SUFFIX}"),
        mdb(5, f"OU=log, {SUFFIX}", olcSubordinate="TRUE"),
    )


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotProven, match="envflags encrypted"):
        ask(PLAIN, mdb(1, olcDbEnvFlags="{0}encrypted"))
    with pytest.raises(NotProven, match="index_intlen is 9"):
        ask(PLAIN, ("cn=config", {"olcIndexIntLen": [b"9"]}), mdb(1))
    with pytest.raises(NotProven, match="sync_use_subentry"):
        ask(options(Path("x.ldif"), write_context=True), mdb(1, olcSyncUseSubentry="TRUE"))
    with pytest.raises(NotProven, match="contextCSN is indexed"):
        ask(options(Path("x.ldif"), write_context=True), mdb(1, olcDbIndex="contextCSN eq"))
    monkeypatch.setattr(sys, "byteorder", "big")
    with pytest.raises(NotProven, match="this host"):
        ask(PLAIN, mdb(1))


def test_tables_of_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[tools.Release, tuple[str, ...]] = {(2, 4, 57): (), (2, 5, 13): ("id2v",)}
    known |= dict.fromkeys([(2, 6, 0), (2, 6, 14)], ("id2v", "ixck"))
    for release in (*known, None, (2, 4, 56), (2, 8, 0), (3, 0, 0)):
        monkeypatch.setattr(tools, "release", lambda release=release: release)
        if release in known:
            assert native.tables() == known[release], release
            continue
        with pytest.raises(NotProven):
            native.tables()


def test_rules_that_the_core_does_not_know() -> None:
    native.require_rules({}, {})
    for told in (({"oddity": "strangeMatch"}, {}), ({}, {"oddity": "strangeMatch"})):
        with pytest.raises(NotProven, match=r"oddity.* has strangeMatch"):
            native.require_rules(*told)
