"""What nobody has proven the builder to do as slapd: refused by name, before any work, with the way out."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures.golden.case import server, settings
from fixtures.golden.records import top
from fixtures.slapd_config import Settings
from loader.errors import NotProven
from tests.support.golden import build, slapadd

pytestmark = pytest.mark.slapd


@dataclass(frozen=True)
class Unproven:
    """`word` is in the message. `ldif` is one that slapadd loads."""

    name: str
    settings: Settings
    ldif: str
    word: str


# A syntax that slapd registers for its filters alone; nobody stores such values.
ASSERTION = "attributetype ( 1.2.3.4 NAME 'gAssertion' SYNTAX 1.3.6.1.1.15.1 )"

ALL = [
    Unproven("intlen", settings("gInteger eq", top_lines=("index_intlen 9",)), top(), "9"),
    Unproven("assertion", settings(top_lines=(ASSERTION,)), top(), "gAssertion"),
]  # fmt: skip


@pytest.mark.parametrize("case", ALL, ids=[one.name for one in ALL])
def test_refused_by_name(case: Unproven, tmp_path: Path) -> None:
    ldif = tmp_path / "input.ldif"
    ldif.write_text(case.ldif)
    with closing(server(case.settings)) as oracle:
        slapadd(oracle, ldif)
    with closing(server(case.settings)) as ours:
        done = build(ours, ldif)
        assert done.status == NotProven.exit_status, done
        assert case.word in done.err
        assert "--engine slapadd" in done.err
        assert not (ours.database_dir / "data.mdb").exists()
