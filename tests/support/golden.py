"""Loads one LDIF with slapadd and with ditseed, and compares the databases."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.chroots import Chroot
from fixtures.golden.case import Case, server
from fixtures.golden.tables import differences
from fixtures.slapd import Slapd
from fixtures.slapd_config import Installation
from loader.server import tools
from tests.support.command import Done, ditseed

# "slapadd" tests the suite itself: both databases are then made by slapadd.
ENGINE = os.environ.get("DITSEED_GOLDEN_ENGINE", "native")


def slapadd(target: Slapd, ldif: Path, *options: str) -> None:
    where = [*target.config_arguments, "-b", target.suffix]
    target.tool("slapadd", "-q", *where, "-l", ldif, *options)


def build(target: Slapd, ldif: Path, *options: object, chroot: Chroot | None = None, engine: str = ENGINE) -> Done:
    env = {"DITSEED_TOOLS": chroot.tools} if chroot else {}
    where = ("--config", target.config_path, "-b", target.suffix, "--engine", engine)
    return ditseed("build", ldif, *where, *options, env=env)


def require_fitting(case: Case) -> None:
    """Skips a case that this slapd does not support, or handles differently."""
    if not case.since <= (tools.release() or (0,)) < case.until:
        pytest.skip("this slapd does not support the case, or handles it differently")


def fresh(case: Case, chroot: Chroot | None = None) -> Slapd:
    """Returns an empty server with the case's configuration; in a chroot, of another version."""
    if chroot is None:
        return server(case.settings)
    old = chroot.version.startswith("2.4.")
    return server(case.settings, Installation(prefix=chroot.prefix), old)


def compared(case: Case, directory: Path, chroot: Chroot | None = None, engine: str = ENGINE) -> list[str]:
    """Loads the case with both, and returns the differences. `directory`: for the LDIF."""
    ldif = case.write(directory)
    theirs = ldif if case.oracle is None else case.write_oracle(directory)
    with closing(fresh(case, chroot)) as oracle, closing(fresh(case, chroot)) as ours:
        slapadd(oracle, theirs, *case.options)
        build(ours, ldif, *case.options, *case.ours, chroot=chroot, engine=engine).ok()
        return differences(oracle.database_dir, ours.database_dir, case.unforeseen)
