"""While another checkout builds, or another set-up of this one runs, bin/cargo and bin/setup say what they wait for."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_cargo_names_the_checkout_that_builds_and_takes_the_directory_that_is_free_first(tmp_path: Path) -> None:
    with ExitStack() as first, ExitStack() as locks:
        for number in range(4):
            place = tmp_path / "native" / str(number)
            place.mkdir(parents=True)
            (place / "checkout").write_text("/srv/other")
            lock = (place / "lock").open("w")
            fcntl.flock(lock, fcntl.LOCK_EX)
            (locks if number else first).callback(lock.close)
        waiting = subprocess.Popen(
            [ROOT / "bin/cargo", "build"],
            env={**os.environ, "DITSEED_CACHE": str(tmp_path), "CARGO": "echo"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert waiting.stderr is not None
        said = waiting.stderr.readline()
        assert re.fullmatch(r"cargo: waiting until /srv/other has built the native core \(\d+ s so far\)\n", said)
        first.close()
        out, _ = waiting.communicate()
        assert (waiting.returncode, out) == (0, "build\n")


def test_setup_tells_of_another_one(tmp_path: Path) -> None:
    """In a copy, whose lock nobody else wants; it would change nothing."""
    (tmp_path / "bin").mkdir()
    for name in ("bin/setup", "setup.cfg"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    with (tmp_path / "setup.cfg").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = subprocess.Popen(
            ["bash", tmp_path / "bin/setup", "--no-packages", "--no-core"], stderr=subprocess.PIPE, text=True
        )
        assert waiting.stderr is not None
        said = waiting.stderr.readline()
        waiting.kill()
        waiting.communicate()
    assert re.fullmatch(r"setup: waiting for another set-up of this checkout \(\d+ s so far\)\n", said)
