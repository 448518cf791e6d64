"""A row's configuration and data through slapadd -q and through ditseed."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from fixtures.chroots import Chroot
from fixtures.compat.row import Built, Outcome, Row
from fixtures.golden.case import shared_schema
from fixtures.golden.tables import differences
from fixtures.slapd import Slapd
from fixtures.slapd_config import Installation, Settings
from tests.support.command import Done, ditseed, start

UNREAD = 15  # seconds: a build that waits for its input is given up then


def parameters(rows: tuple[Row, ...] | list[Row]) -> list[ParameterSet]:
    """Those that the table calls wrong must be so: mended, they fail until the table says it."""
    return [
        pytest.param(
            row,
            id=row.name,
            marks=[pytest.mark.xfail(reason=row.note, strict=True)]
            if row.outcome is Outcome.WRONG
            else [],
        )
        for row in rows
    ]


def server(row: Built, home: Path, chroot: Chroot | None = None) -> Slapd:
    """Stopped, with empty directories for whatever databases it has."""
    home.mkdir(parents=True)
    for name in ("log", "below", "ldif", "cache"):
        (home / name).mkdir()
    schema = home / "row.schema"
    schema.write_text(row.schema)
    (home / "Nothing.pm").write_text("package Nothing;\nsub new { return bless {}, shift }\n1;\n")
    wanted = Settings(
        maxsize=64 << 20,
        indexes=row.indexes if row.suffix == Settings.suffix else (),
        schema=(shared_schema(), schema),
        modules=("back_mdb", *row.modules),
        global_lines=(row.first.replace("{home}", str(home)),),
        overlays=(row.lines.replace("{home}", str(home)),),
        limits=(),
    )
    return Slapd(
        wanted,
        directory=home,
        form="conf",
        installation=chroot and Installation(prefix=chroot.prefix),
    )


def database(made: Slapd, row: Built) -> Path:
    return made.database_dir if row.suffix == made.suffix else made.home / "log"


def slapadd(made: Slapd, row: Built, ldif: Path) -> None:
    made.tool("slapadd", "-q", *made.config_arguments, "-b", row.suffix, "-l", ldif)


def build(
    made: Slapd, suffix: str, ldif: Path | str, chroot: Chroot | None = None, *more: object
) -> Done:
    env = {"DITSEED_TOOLS": chroot.tools} if chroot else {}
    return ditseed("build", ldif, "--config", made.config_path, "-b", suffix, *more, env=env)


def differs(row: Built, place: Path, chroot: Chroot | None = None) -> list[str]:
    """Where the two databases are not the same."""
    ldif = place / "row.ldif"
    ldif.write_text(row.ldif())
    with ExitStack() as stack:
        oracle, ours = (
            stack.enter_context(closing(server(row, place / name, chroot)))
            for name in ("one", "two")
        )
        slapadd(oracle, row, ldif)
        build(ours, row.suffix, ldif, chroot).ok()
        return differences(database(oracle, row), database(ours, row))


def refusal(made: Slapd, suffix: str, place: Path) -> Done:
    """How a build ends whose input nobody writes: only the configuration can tell it to."""
    pipe = place / "nobody.ldif"
    os.mkfifo(pipe)
    process = start("build", pipe, "--config", made.config_path, "-b", suffix)
    try:
        out, err = process.communicate(timeout=UNREAD)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        pytest.fail("it waits for its input: the configuration alone did not make it refuse")
    return Done(process.returncode, out, err)
