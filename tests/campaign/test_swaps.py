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


def campaign(*words: object) -> tuple[int, str]:
    """In a process of its own: it enters a mount namespace."""
    require(swaps.missing())
    done = subprocess.run(
        [CAMPAIGN, "--verbose", "swaps", *map(str, words)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_nothing_outside_is_touched() -> None:
    status, printed = campaign("--seconds", 10)
    assert status == 0, printed
    ran = re.search(r"^all +(\d+) +(\d+) +0 +0$", printed, re.MULTILINE)
    assert ran is not None, printed
    assert int(ran[1]) + int(ran[2]) > 0, printed
    exchanged = re.search(r"^(\d+) names exchanged", printed, re.MULTILINE)
    assert exchanged is not None, printed
    assert int(exchanged[1]) > 0, printed


@pytest.mark.long
def test_a_careless_program_is_found_out() -> None:
    status, printed = campaign("--seconds", CAUGHT, "--verb", swaps.CARELESS)
    assert status == 1, printed
    assert re.search(r"^HARM in run \d+, careless: touched: ", printed, re.MULTILINE), printed


def test_what_was_touched_is_noticed(tmp_path: Path) -> None:
    """The campaign's own judgement."""
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
