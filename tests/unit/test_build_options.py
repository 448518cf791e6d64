"""Options of a build that do not go together, what a run is bound to, and where the native engine refuses."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from loader import config
from loader.config import Entry
from loader.errors import NoSuchPath, NotProven, UsageProblem
from loader.operations.build import BuildOptions, native
from loader.server import tools

CONFIG = Path("/etc/ldap/slapd.d")


def options(*inputs: Path, **more: object) -> BuildOptions:
    return BuildOptions(CONFIG, inputs, **more)  # type: ignore[arg-type]


@pytest.fixture
def ldif(tmp_path: Path) -> Path:
    path = tmp_path / "x.ldif"
    path.write_text("dn: dc=x\n\n")
    return path


def test_what_is_read_twice_is_no_stream(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for stream in (Path("-"), pipe):
        options(stream, engine="slapadd", shards=2).require_fitting()
        with pytest.raises(UsageProblem, match=f"{stream} is not a file"):
            options(stream, seeding=True).require_fitting()


def test_a_dry_run_reads_no_stream() -> None:
    options(Path("-")).require_fitting()
    with pytest.raises(UsageProblem, match="- is not a file"):
        options(Path("-")).require_fitting(dry=True)


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


def test_an_input_is_not_written_to(ldif: Path) -> None:
    with pytest.raises(UsageProblem, match="is also an input"):
        options(ldif, rejects=ldif.parent / "." / ldif.name).require_fitting()


def test_a_run_is_bound_to_its_inputs_and_not_to_its_means(ldif: Path) -> None:
    before = options(ldif).identity()
    assert options(ldif, jobs=3, memory=1 << 30, scratch=Path("/tmp")).identity() == before
    assert options(ldif, max_rejects=3).identity() != before
    assert options(ldif, target=Path("/srv")).identity() != before
    ldif.write_text("dn: dc=other\n\n")
    assert options(ldif).identity() != before
    with pytest.raises(NoSuchPath):
        options(ldif.parent / "none.ldif").identity()


def test_a_stream_has_no_identity() -> None:
    assert options(Path("-")).identity()["inputs"] == [["-"]]
    assert options(Path("-")).files.streamed


SUFFIX = "dc=example,dc=com"
PLAIN = BuildOptions(Path("/etc/ldap/slapd.d"), (Path("x.ldif"),))


def database(number: int, suffix: str, **values: str) -> Entry:
    name = f"{{{number}}}mdb"
    found = {"olcDatabase": name, "olcSuffix": suffix, **values}
    dn = f"olcDatabase={name},cn=config"
    return dn, {key: [value.encode()] for key, value in found.items()}


def ask(options: BuildOptions, *entries: Entry) -> None:
    found = config.parse(Path("/etc/ldap/slapd.d"), entries)
    native.proven_settings(found, found.databases[0], options)


def test_what_is_proven_is_let_through() -> None:
    ask(
        PLAIN,
        database(1, SUFFIX, olcDbEnvFlags="{0}nosync writemap", olcSyncUseSubentry="TRUE"),
        database(2, "dc=other"),
        database(3, "dc=com"),  # above
        database(4, f"dc=not{SUFFIX}"),
        database(5, f"OU=log, {SUFFIX}", olcSubordinate="TRUE"),
    )


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([database(1, SUFFIX, olcDbEnvFlags="{0}encrypted")], "envflags encrypted"),
        ([("cn=config", {"olcIndexIntLen": [b"9"]}), database(1, SUFFIX)], "index_intlen is 9"),
    ],
    ids=["envflags", "intlen"],
)
def test_what_is_refused(entries: list[Entry], words: str) -> None:
    with pytest.raises(NotProven, match=words):
        ask(PLAIN, *entries)


def test_a_context_csn_in_an_entry_of_its_own() -> None:
    options = BuildOptions(PLAIN.config_path, PLAIN.inputs, write_context=True)
    with pytest.raises(NotProven, match="sync_use_subentry"):
        ask(options, database(1, SUFFIX, olcSyncUseSubentry="TRUE"))


def test_another_byte_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "byteorder", "big")
    with pytest.raises(NotProven, match="this host"):
        ask(PLAIN, database(1, SUFFIX))


@pytest.mark.parametrize(
    ("release", "tables"),
    [((2, 4, 57), ()), ((2, 5, 13), ("id2v",)), ((2, 6, 0), ("id2v", "ixck")), ((2, 6, 14), ("id2v", "ixck"))],
)
def test_tables_of_a_release(monkeypatch: pytest.MonkeyPatch, release: tools.Release, tables: tuple[str, ...]) -> None:
    monkeypatch.setattr(tools, "release", lambda: release)
    assert native.tables() == tables


@pytest.mark.parametrize("release", [None, (2, 4, 56), (2, 8, 0), (3, 0, 0)])
def test_other_releases(monkeypatch: pytest.MonkeyPatch, release: tools.Release | None) -> None:
    monkeypatch.setattr(tools, "release", lambda: release)
    with pytest.raises(NotProven):
        native.tables()


def test_rules_that_the_core_does_not_know() -> None:
    native.require_rules({}, {})
    for told in (({"oddity": "strangeMatch"}, {}), ({}, {"oddity": "strangeMatch"})):
        with pytest.raises(NotProven, match=r"oddity.* has strangeMatch"):
            native.require_rules(*told)
