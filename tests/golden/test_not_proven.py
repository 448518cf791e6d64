"""What nobody has proven the builder to do as slapd: refused by name, before any work, with the way out."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures.golden.case import server, settings
from fixtures.golden.records import SUFFIX, entry, top
from fixtures.golden.tables import differences
from fixtures.slapd_config import Settings
from loader.errors import EntryRefused, NotProven
from tests.support.golden import build, slapadd

pytestmark = pytest.mark.slapd


@dataclass(frozen=True)
class Unproven:
    """`word` is in the message. `ldif` is one that slapadd loads."""

    name: str
    settings: Settings
    ldif: str
    word: str


# Syntaxes that slapd registers for filters. OpenLDAP's own test.schema defines an attribute of the first one.
ASSERTIONS = ("1.3.6.1.1.15.1", "1.3.6.1.1.15.5", "1.3.6.1.4.1.4203.666.11.10.2.2")
DEFINED = tuple(f"attributetype ( 1.2.3.{n} NAME 'gAssertion{n}' SYNTAX {oid} )" for n, oid in enumerate(ASSERTIONS))
SUBTYPE = "attributetype ( 1.2.3.9 NAME 'gAssertion9' SUP gAssertion0 )"

ALL = [
    Unproven("intlen", settings("gInteger eq", top_lines=("index_intlen 9",)), top(), "9"),
    Unproven("assertion", settings("gAssertion0 pres", top_lines=DEFINED), top(), "gAssertion0"),
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


def test_assertions_that_are_only_defined(tmp_path: Path) -> None:
    wanted = settings("objectClass eq", top_lines=(*DEFINED, SUBTYPE))
    ldif = tmp_path / "input.ldif"
    ldif.write_text(top())
    with closing(server(wanted)) as theirs, closing(server(wanted)) as ours:
        slapadd(theirs, ldif)
        build(ours, ldif).ok()
        assert not differences(theirs.database_dir, ours.database_dir)


@pytest.mark.long("0-checked", "0-unchecked", "1-checked", "1-unchecked", "2-checked", "2-unchecked")
@pytest.mark.parametrize("checks", [(), ("--no-value-check",)], ids=["checked", "unchecked"])
@pytest.mark.parametrize("number", [0, 1, 2, 9])
def test_entries_with_assertions(number: int, checks: tuple[str, ...], tmp_path: Path) -> None:
    name, value = f"gAssertion{number}", '{ serialNumber 5, issuer rdnSequence:"cn=x" }'
    classes = [("objectClass", "device"), ("objectClass", "extensibleObject"), ("cn", "x")]
    escaped = value.replace(",", "\\2C").replace('"', "\\22").replace("=", "\\3D")
    ldif = tmp_path / "input.ldif"
    for text in (
        entry(f"cn=x,{SUFFIX}", [*classes, (name, value)]),
        entry(f"{name}={escaped},{SUFFIX}", classes),
        entry(f"cn=x,{SUFFIX}", [*classes, ("seeAlso", f"{name}={escaped}")]),
    ):
        ldif.write_text(top() + text)
        with closing(server(settings(top_lines=(*DEFINED, SUBTYPE)))) as ours:
            done = build(ours, ldif, *checks)
            assert done.status == EntryRefused.exit_status, done
            assert name in done.err
            assert not (ours.database_dir / "data.mdb").exists()
