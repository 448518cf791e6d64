"""Every verb as root while attackers of the slapd account roam its directories.

Short here; the whole campaign is `bin/campaign swaps`, which runs for as long as one likes.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from fixtures.campaign import swaps
from fixtures.campaign.outside import WatchedDirectory, differences
from tests.support.require import require

pytestmark = pytest.mark.slapd

CAMPAIGN = Path(__file__).parents[2] / "bin" / "campaign"
CAUGHT = 300  # seconds at most; it ends when the program is found out


def campaign(expected: int, *words: object) -> str:
    """Runs the campaign in a process of its own, because it enters a mount namespace. Returns its output."""
    require(swaps.missing())
    command = [str(CAMPAIGN), "--verbose", "swaps", *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == expected, done.stdout
    return done.stdout


def test_nothing_outside_is_touched() -> None:
    printed = campaign(0, "--seconds", 10)
    assert re.search(r"^all +(?=.*[1-9])\d+ +\d+ +0 +0$", printed, re.MULTILINE), printed
    assert re.search(r"^[1-9]\d* names exchanged", printed, re.MULTILINE), printed


@pytest.mark.long
def test_a_careless_program_is_found_out() -> None:
    printed = campaign(1, "--seconds", CAUGHT, "--verb", swaps.CARELESS)
    assert re.search(r"^HARM in run \d+, careless: touched: ", printed, re.MULTILINE), printed


def test_what_was_touched_is_noticed(tmp_path: Path) -> None:
    outside = WatchedDirectory.made(tmp_path / "outside", None)
    before = outside.state()
    assert not differences(before, outside.state())
    secret = outside.place / "secret"
    status = secret.stat()
    secret.write_bytes(b"x" * status.st_size)
    os.utime(secret, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert differences(before, outside.state()).startswith("secret: ")
    (outside.place / "missing").touch()
    assert "missing: None" in differences(before, outside.state())
