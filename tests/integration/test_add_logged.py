"""`ditseed add` to a server with an accesslog, to which another client writes."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.churn import Churn
from fixtures.history import SETTINGS, history
from tests.support.adding import TOP, command, people, write
from tests.support.command import ditseed, start

pytestmark = pytest.mark.slapd

ENTRIES = 20_000
SECONDS = 120


@pytest.mark.parametrize("reads_config", [True, False])
def test_no_transactions(tmp_path: Path, reads_config: bool) -> None:
    with history(tmp_path / "source") as logged, logged.server as server:
        path = write(tmp_path / "x.ldif", TOP, people(50))
        words = ["add", path, "-H", server.ldapi_uri, "-Y", "EXTERNAL"] if reads_config else command(server, path)
        assert not ditseed(*words, "--dry-run", "--json").ok().facts["transactions"]
        told = ditseed(*words, "--json").ok().facts
    assert (told["added"], told["transactions"]) == (51, 0)


@pytest.mark.long
def test_other_clients_can_write(tmp_path: Path) -> None:
    """In transactions, slapd 2.5.13 deadlocks within seconds, and SIGTERM does not end it."""
    settings = replace(SETTINGS, database_lines=("dbnosync",))
    with history(tmp_path / "source", settings, log_lines=("dbnosync",)) as logged, logged.server as server:
        server.ldapadd(TOP)
        with Churn(server, rate=1000) as churn:
            process = start(*command(server, write(tmp_path / "x.ldif", people(ENTRIES))))
            try:
                process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                server.kill9()
                process.kill()
                process.communicate()
                raise
            churn.wait_for(churn.changes() + 1)
        assert process.returncode == 0
