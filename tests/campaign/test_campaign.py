"""The campaigns' own judgement, on a checkout and a schema made here: what differs is called so."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fixtures.campaign import build_and_compare, verdict
from fixtures.campaign.build_and_compare import Environment, Trial
from fixtures.campaign.schemas import SchemaFile, compared, found_in, loaded
from fixtures.campaign.verdict import Verdict
from fixtures.golden.case import server, settings
from fixtures.golden.records import SUFFIX, entry, golden, top
from fixtures.slapd import Slapd

pytestmark = pytest.mark.slapd

SCHEMA = """attributetype ( 1.3.6.1.4.1.4203.666.11.98.1 NAME 'ownText' SUP name )
objectclass ( 1.3.6.1.4.1.4203.666.11.98.2 NAME 'ownClass' SUP top STRUCTURAL MUST cn MAY ( ownText $ memberUid ) )
"""


def _home(made: Slapd) -> Environment:
    return Environment(made.config_path, {made.suffix: made.database_dir})


def _found(text: str, place: Path, oracle: str = "cn eq") -> list[Verdict]:
    """oracle: the index that slapadd's side has, and ditseed's has not unless it is the same."""
    ldif = place / "in.ldif"
    ldif.write_text(text)
    with ExitStack() as stack:
        sides = [settings(oracle), settings("cn eq"), settings("cn eq")]
        homes = [_home(stack.enter_context(closing(server(one)))) for one in sides]
        return list(Trial("conf", "in.ldif", ldif, SUFFIX, *homes).verdicts())


def _outcomes(text: str, place: Path, oracle: str = "cn eq") -> dict[str, str]:
    return {one.look: one.outcome for one in _found(text, place, oracle)}


@pytest.mark.long
def test_equal(tmp_path: Path) -> None:
    looks = ("native", "slapadd", "export", "verify")
    assert _outcomes(top() + golden(f"cn=x,{SUFFIX}"), tmp_path) == dict.fromkeys(looks, verdict.EQUAL)


@pytest.mark.long
def test_what_differs_is_noticed(tmp_path: Path) -> None:
    text = top() + golden(f"cn=x,{SUFFIX}", cn="long enough")
    found = _outcomes(text, tmp_path, oracle="cn eq,sub")
    assert found["native"] == found["slapadd"] == verdict.DIFFERS


@pytest.mark.long
def test_a_late_refusal_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_and_compare, "UNREAD", 1)
    bad = entry(f"cn=x,{SUFFIX}", [("objectClass", "gEntry"), ("cn", "x"), ("gBoolean", "perhaps")])
    assert _outcomes(top() + bad, tmp_path)["native"] == verdict.LATE


def test_what_slapadd_refuses_is_left_out(tmp_path: Path) -> None:
    assert _outcomes("dn: cn=x\nobjectClass: device\n", tmp_path) == {"native": verdict.SKIPPED}


@pytest.mark.long
def test_a_schema_with_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "own.schema").write_text(SCHEMA)
    (tmp_path / "more.schema").write_text("attributetype ( 1.3.6.1.4.1.4203.666.11.98.3 NAME 'ownMore' SUP ownText )\n")
    files = found_in("package", tmp_path)
    more, _ = files
    assert more.name == "package/more.schema"
    one = loaded(more, files)
    assert [before.path.name for before in one.before] == ["own.schema"]
    assert [found.outcome for found in compared(one, tmp_path)] == [verdict.EQUAL] * 4


def test_a_schema_that_nothing_helps(tmp_path: Path) -> None:
    path = tmp_path / "alone.schema"
    path.write_text("attributetype ( 1.3.6.1.4.1.4203.666.11.98.4 NAME 'ownLost' SUP nowhere )\n")
    assert "nowhere" in loaded(SchemaFile("package", path), []).lacks


@pytest.mark.long
def test_values_that_stand_apart(tmp_path: Path) -> None:
    """slapadd -q leaves two attributes; slapadd without -q says how the entry should be."""
    pairs = [("objectClass", "device"), ("cn", "x"), ("description", "a"), ("l", "b"), ("description", "c")]
    found = _found(top() + entry(f"cn=x,{SUFFIX}", pairs), tmp_path)
    assert {(one.outcome, one.oracle) for one in found} == {(verdict.EQUAL, verdict.MERGED)}
    assert f"(compared with {verdict.MERGED})" in verdict.table(found)
