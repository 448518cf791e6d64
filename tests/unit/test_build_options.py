"""Options of a build that do not go together, and what a run is bound to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loader.errors import NoSuchPath, UsageProblem
from loader.operations.build import BuildOptions

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
        for more in ({"engine": "slapadd"}, {"seeding": True}):
            with pytest.raises(UsageProblem, match=f"{stream} is not a file"):
                options(stream, **more).require_fitting()


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
    with pytest.raises(UsageProblem, match=f"--engine slapadd does not know {option}"):
        options(ldif, engine="slapadd", **more).require_fitting()


def test_an_input_is_not_written_to(ldif: Path) -> None:
    with pytest.raises(UsageProblem, match="it is read, too"):
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
