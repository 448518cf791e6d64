"""ditseed as root in directories of the slapd account, which plants links, FIFOs and directories at each name used.

Short here: one verb of each kind. The whole campaign is `bin/campaign symlinks`, and heavy.
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest

from fixtures.campaign import symlink_trials
from fixtures.campaign.neighbourhood import WatchedDirectory, differences
from fixtures.campaign.symlink_trials import Trial
from tests.support.require import require

pytestmark = pytest.mark.slapd

SHORT = 60  # swaps for each name
SOME = (
    "build",
    "replica seed clone",
    "replica refresh",
    "clone into",
    "clone - into",
    "backup restore",
    "backup run into",
    "export into",
    "generate learn",
    "tune indexes",
)


def _told(found: list[Trial]) -> str:
    return "\n".join(map(str, found))


@pytest.mark.long
@pytest.mark.parametrize("verb", SOME)
def test_nothing_outside_is_touched(verb: str) -> None:
    require(symlink_trials.missing())
    found = list(symlink_trials.trials(SHORT, f"^{re.escape(verb)}$", random.randrange(1 << 30)))
    print(_told(found))
    assert len(found) == 1
    assert all(one.names and one.swaps >= SHORT for one in found), _told(found)
    assert all(one.sound for one in found), _told(found)


@pytest.mark.heavy
@pytest.mark.timeout(0)
def test_all_verbs() -> None:
    require(symlink_trials.missing())
    found = list(symlink_trials.trials(symlink_trials.SWAPS, None, random.randrange(1 << 30)))
    print(_told(found))
    assert all(one.sound and one.swaps >= symlink_trials.SWAPS for one in found), _told(found)


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
