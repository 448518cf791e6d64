"""What nobody has proven the builder to do as slapd: refused by name, before any work, with the way out."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures.golden.case import server, settings
from fixtures.golden.records import SUFFIX, entry, golden, top
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


POLICY = entry(
    f"cn=policy,{SUFFIX}",
    [
        ("objectClass", "pwdPolicy"),
        ("objectClass", "device"),
        ("cn", "policy"),
        ("pwdAttribute", "2.5.4.35"),
    ],
)


def _ppolicy(index: str) -> Settings:
    return settings(index, modules=("ppolicy",), overlays=("overlay ppolicy",))


ALL = [
    Unproven("policy", _ppolicy("objectClass eq"), top() + POLICY, "pwdAttribute"),
    Unproven("policy-index", _ppolicy("pwdAttribute eq"), top(), "pwdAttribute"),
    Unproven("intlen", settings("gInteger eq", top_lines=("index_intlen 9",)), top(), "9"),
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


def test_a_policy_overlay_alone_is_no_obstacle(tmp_path: Path) -> None:
    """Only what uses the overlay's own rules is."""
    ldif = tmp_path / "input.ldif"
    ldif.write_text(top() + golden(f"cn=x,{SUFFIX}"))
    with closing(server(_ppolicy("objectClass eq"))) as ours:
        build(ours, ldif).ok()
