"""The example of docs/backup-checks.md, a data.mdb that shows 250 GiB: its crontab, run as cron does, and its restore.
Only names and paths are those of the test."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader.storage import files
from tests.support.command import COMMAND, Done, ditseed, environment

pytestmark = pytest.mark.slapd

PAGE = (Path(__file__).parents[2] / "docs/backup-checks.md").read_text()
TITLE = "## Example: a data.mdb that shows 250 GiB"
LISTED, CRONTAB, RESTORE = PAGE.partition(TITLE)[2].partition("\n## ")[0].split("```\n")[1::2]
SHOWN = 250 << 30
INIT = "ditseed backup init -R /srv/backup"
MOST = 16 << 20  # bytes that anything here may take


@pytest.fixture
def server(people_ldif: Path) -> Iterator[Slapd]:
    """Running, with 1,029 entries."""
    settings = Settings(maxsize=SHOWN, database_lines=("envflags writemap",))
    made = replication.provider(settings)
    made.slapadd(people_ldif, "-w")
    with made:
        yield made


@dataclass(frozen=True)
class Host:
    """Where the crontab is installed."""

    server: Slapd
    repo: Path

    def here(self, text: str) -> str:
        names = {
            "/etc/ldap/slapd.d": self.server.config_path,
            "/srv/backup": self.repo,
            "--only-on ldap2": f"--only-on {socket.gethostname()}",
            "--keep-free 5G": "--keep-free 1M",
            "PATH=": f"PATH={COMMAND.parent}:",
        }
        for name, mine in names.items():
            assert name in PAGE
            text = text.replace(name, str(mine))
        return text

    def run(self, command: str) -> Done:
        """As cron does: sh, in the home directory, with the PATH of the crontab; what it prints would be mailed."""
        path = self.here(CRONTAB).splitlines()[0].partition("=")[2]
        env = {**environment(), "PATH": f"{path}:{os.environ['PATH']}"}
        shell = ["/bin/sh", "-c", self.here(command)]
        done = subprocess.run(shell, cwd="/", env=env, capture_output=True, text=True, check=False)
        return Done(done.returncode, done.stdout, done.stderr)


def shown_and_taken(path: Path) -> tuple[int, int]:
    return path.stat().st_size, files.allocated_bytes(path)


def test_every_line(server: Slapd, tmp_path: Path) -> None:
    data, host = server.database_dir / "data.mdb", Host(server, tmp_path / "backup")
    assert "250G" in LISTED
    assert shown_and_taken(data)[0] == SHOWN
    assert INIT in PAGE
    host.run(INIT).ok()
    for line in CRONTAB.splitlines()[1:]:
        done = host.run(line.split(maxsplit=6)[6]).ok()
        assert (done.out, done.err) == ("", "")  # else cron would mail it
    checked = ditseed("backup", "check", "-R", host.repo, "--max-age", "26h", "--max-drill-age", "8d")
    assert checked.ok().out.startswith("BACKUP OK")
    assert sum(files.allocated_bytes(one) for one in host.repo.rglob("*") if one.is_file()) < MOST

    before = server.slapcat()
    server.stop()
    (command,) = (line for line in RESTORE.splitlines() if line.startswith("ditseed"))
    assert "allocated" in host.run(command).ok().out
    assert max(shown_and_taken(data)) < MOST
    assert server.slapcat() == before
    server.start()
    assert shown_and_taken(data)[0] == SHOWN
    assert shown_and_taken(data)[1] < MOST
