"""A row's configuration and data through slapadd -q and through ditseed."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from fixtures.chroots import Chroot
from fixtures.compat.row import Built, Outcome, Row
from fixtures.golden.case import shared_schema
from fixtures.golden.tables import differences
from fixtures.slapd import Form, Slapd
from fixtures.slapd_config import Installation, Settings
from tests.compat.replicas import SYNCPROV
from tests.support.command import Done, ditseed, start
from tests.support.require import require

UNREAD = 15  # seconds: a build that waits for its input is given up then


def parameters(rows: Sequence[Row], what: str = "outcome") -> list[ParameterSet]:
    """Those that the table calls wrong must be so: mended, they fail until the table says it. what: the field."""
    return [
        pytest.param(
            row,
            id=row.name,
            marks=[pytest.mark.xfail(reason=row.note, strict=True)] if getattr(row, what) is Outcome.WRONG else [],
        )
        for row in rows
    ]


def server(row: Built, home: Path, chroot: Chroot | None = None, form: Form = "conf", **more: object) -> Slapd:
    """Stopped, with empty directories for whatever databases it has. more: settings beside the row's."""
    home.mkdir(parents=True)
    for name in ("audit", "below", "ldif", "cache"):
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
        dataclasses.replace(wanted, **more),  # type: ignore[arg-type]
        directory=home,
        form=form,
        installation=chroot and Installation(prefix=chroot.prefix),
    )


def require_modules(row: Built, chroot: Chroot | None = None) -> None:
    """Those of a package beside slapd's may be missing; in a chroot they are, for it has slapd alone."""
    place = chroot.root / "usr" / "lib" / "ldap" if chroot else Path(Installation().modules)
    if row.package and not all((place / f"{name}.la").exists() for name in row.modules):
        missing = f"{row.name} needs the package {row.package}"
        require(None if chroot else missing)
        pytest.skip(f"{missing} in the chroot")


def database(made: Slapd, row: Built) -> Path:
    return made.database_dir if row.suffix == made.suffix else made.home / "audit"


def slapadd(made: Slapd, row: Built, ldif: Path) -> None:
    made.tool("slapadd", "-q", *made.config_arguments, "-b", row.suffix, "-l", ldif)


@contextmanager
def provider(row: Built, place: Path, chroot: Chroot | None = None) -> Iterator[Slapd]:
    """With a contextCSN that it has stored. Its database, and what other ones stand behind it, are the row's."""
    require_modules(row, chroot)
    home, ldif = place / "provider", place / "row.ldif"
    lines = row.lines.replace("{home}", str(home))
    # translucent keeps no entryCSN, which syncprov needs, and changes entries of the other server.
    is_plain = row.name not in ("syncprov", "translucent")
    overlays = (SYNCPROV, lines) if is_plain else (lines,)
    modules = tuple(dict.fromkeys(("back_mdb", "syncprov", *row.modules)))
    made = server(row, home, chroot, server_id=1, overlays=overlays, modules=modules)
    ldif.write_text(row.ldif())
    slapadd(made, row, ldif)
    with made:
        if row.name != "translucent":
            made.describe("touched")
            made.restart()
        yield made


def _tools(chroot: Chroot | None) -> dict[str, str]:
    return {"DITSEED_TOOLS": chroot.tools} if chroot else {}


def build(made: Slapd, suffix: str, ldif: Path | str, chroot: Chroot | None = None, *more: object) -> Done:
    return ditseed("build", ldif, "--config", made.config_path, "-b", suffix, *more, env=_tools(chroot))


def differs(row: Built, place: Path, chroot: Chroot | None = None) -> list[str]:
    ldif = place / "row.ldif"
    ldif.write_text(row.ldif())
    with ExitStack() as stack:
        oracle, ours = (stack.enter_context(closing(server(row, place / name, chroot))) for name in ("one", "two"))
        slapadd(oracle, row, ldif)
        build(ours, row.suffix, ldif, chroot).ok()
        return differences(database(oracle, row), database(ours, row))


def as_the_row_says(row: Built, place: Path, *, statuses: tuple[int, ...], chroot: Chroot | None = None) -> None:
    """Equal to what slapadd makes, or refused with one of the exit statuses."""
    require_modules(row, chroot)
    if row.outcome is not Outcome.REFUSED:
        assert differs(row, place, chroot) == []
        return
    with closing(server(row, place / "one", chroot)) as made:
        done = refusal(made, row.suffix, place, chroot)
        assert done.status in statuses, done


def refusal(made: Slapd, suffix: str, place: Path, chroot: Chroot | None = None) -> Done:
    """How a build ends whose input nobody writes: only the configuration can tell it to."""
    pipe = place / "nobody.ldif"
    os.mkfifo(pipe)
    process = start("build", pipe, "--config", made.config_path, "-b", suffix, env=_tools(chroot))
    try:
        out, err = process.communicate(timeout=UNREAD)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        pytest.fail("it waits for its input: the configuration alone did not make it refuse")
    return Done(process.returncode, out, err)
