"""`replica seed --dry-run` lists all that is missing at once, and its lines mend it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fixtures import replication
from fixtures.slapd import Slapd
from fixtures.slapd_config import REPLICATOR, Settings, search_path
from fixtures.trees import Load, write_people
from loader.errors import HiddenFromAccount
from tests.support.command import COMMAND, ditseed
from tests.support.seeding import Pair

pytestmark = pytest.mark.slapd

ERRORS = ["seed.hidden", "config.schema_missing", "config.maxsize_too_small"]
WARNINGS = (
    "no index entryCSN eq and entryUUID eq",
    "is ahead of this host's",
    "server ID 1 is also that of",
    "catch-up:",
)


@pytest.fixture
def poor(tmp_path: Path) -> Iterator[Pair]:
    """A provider that hides passwords, is two hours ahead and has no session log; a consumer that lacks the rest."""
    source = replication.provider(Settings(server_id=1), session_log=0)
    hiding = f'access to attrs=userPassword by dn.exact="{REPLICATOR}" none by * auth\naccess to * by * read'

    def ruled(text: str) -> str:
        head, database = text.split("database mdb\n")
        kept = [line for line in database.splitlines() if not line.startswith("access ")]
        return "\n".join([f"{head}database mdb", hiding, *kept, ""])

    source.rewrite(ruled)
    people = tmp_path / "people.ldif"
    write_people(people, source.suffix, 3000, load=Load(time.time() + 7200, 1))
    lacking = {"base_schemas": ("core", "cosine"), "maxsize": 2 << 20, "indexes": ("objectClass eq",), "server_id": 1}
    lines = (replication.syncrepl(source), "multiprovider on")
    settings = replication.as_consumer(source.settings, **lacking, database_lines=lines)
    with closing(source), closing(Slapd(settings)) as target:
        source.slapadd(people, "-w")
        yield Pair(source.start(), target, tmp_path)


def mend(both: Pair, findings: list[dict[str, Any]]) -> None:
    """Pastes the lines of each finding into a shell; slapd's socket is not at its usual place here."""
    env = {**os.environ, "PATH": f"{COMMAND.parent}:{search_path()}"}
    for finding in findings:
        text = "\n".join(finding["mend"]).replace("ldapi:///", both.provider.ldapi_uri)
        subprocess.run(["sh", "-eu"], input=text, text=True, check=True, cwd=both.scratch, env=env)


def test_all_that_is_missing_is_listed_at_once(poor: Pair) -> None:
    words = ("replica", "seed", "--dry-run", *poor.bind, *poor.where)
    printed = ditseed(*words, "--strategy", "search")
    printed.refused(HiddenFromAccount, "userPassword")
    done = ditseed(*words, "--json", "--from", poor.provider.database_dir)
    assert done.status == 1
    missing = [each for each in done.facts["missing"] if each["subject"] != "clone"]
    assert [each["rule"] for each in missing if each["severity"] == "critical"] == ERRORS
    assert [each["rule"] for each in done.facts["missing"] if each["subject"] == "clone"] == ERRORS[1:]
    for text in WARNINGS:
        assert any(text in each["what"] for each in missing), (text, missing)
    for each in missing:
        assert each["what"] in printed.out
        assert all(f"\n{line}\n" in printed.out for line in each["mend"])
    mend(poor, [each for each in missing if each["severity"] == "critical" or "no index" in each["what"]])
    after = ditseed(*words, "--strategy", "search", "--json").ok().facts
    assert not [each for each in after["missing"] if each["severity"] == "critical" or "no index" in each["what"]]
