"""A run that is forked by a process which has imported everything is the run of a new interpreter."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from tests.support import command, preloaded
from tests.support.command import arguments_of, environment
from tests.support.processes import has_ended, mentioning


def run(kind: type[subprocess.Popen[str]], words: Sequence[object], **more: str) -> tuple[int, str, str]:
    process = kind(
        arguments_of(*words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(more),
    )
    out, err = process.communicate()
    return process.returncode, out, err


@pytest.mark.long("replica seed --help")
@pytest.mark.parametrize(
    "words",
    [
        *(["--version"], ["replica", "seed", "--help"], ["verify", "/nowhere"]),
        *(["generate", "show", "people", "--json"], ["no-such-verb"], []),
    ],
    ids=" ".join,
)
def test_it_ends_and_says_the_same(words: list[str]) -> None:
    assert run(preloaded.Process, words) == run(subprocess.Popen, words)


def test_a_run_has_its_own_environment_and_name(tmp_path: Path) -> None:
    words = ["generate", "show", "people", "-n", "3"]
    stopped = {"DITSEED_STATE_DIR": str(tmp_path), "COLUMNS": "40"}
    assert run(preloaded.Process, words, **stopped) == run(subprocess.Popen, words, **stopped)
    with command.start("build", "-", "--config", tmp_path, stdin=subprocess.PIPE) as process:
        assert type(process) is preloaded.Process
        assert process.pid in mentioning(str(tmp_path))
        process.kill()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("name", ["LDAPCONF", "PYTHONWARNINGS", "LC_ALL", "LD_PRELOAD"])
def test_what_is_read_at_the_start_wants_a_new_interpreter(name: str) -> None:
    assert preloaded.fits(os.environ)
    assert not preloaded.fits({**os.environ, name: "another"})


@pytest.mark.parametrize("name", ["ldaprc", ".ldaprc"])
def test_a_home_with_settings_for_libldap_wants_a_new_interpreter(tmp_path: Path, name: str) -> None:
    home = {**os.environ, "HOME": str(tmp_path)}
    assert preloaded.fits(home)
    (tmp_path / name).touch()
    assert not preloaded.fits(home)


@pytest.mark.long
@pytest.mark.slapd
def test_what_is_done_in_a_process_apart_ends_and_says_the_same(stopped: Slapd, tmp_path: Path) -> None:
    with (stopped.database_dir / "data.mdb").open("rb") as whole:
        (tmp_path / "data.mdb").write_bytes(whole.read(32768))
    for place in (stopped.database_dir, tmp_path):
        words = ["verify", place, "--verify", "quick", "--json", "-q"]
        results = [str(run(kind, words)) for kind in (preloaded.Process, subprocess.Popen)]
        forked, begun = (re.sub(r'"seconds": [0-9.]+', "", result) for result in results)
        assert forked == begun


@pytest.mark.slapd
def test_a_process_apart_ends_with_its_run(stopped: Slapd) -> None:
    """It sends a copy that nobody takes. A name of its own, and a session of its own."""
    with command.start("clone", stopped.database_dir, "-", text=False, stderr=subprocess.DEVNULL) as process:
        assert type(process) is preloaded.Process
        assert process.stdout is not None
        process.stdout.read(1)  # the copy has begun
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        apart = [int(one) for one in children if int(one) in mentioning("loader.mdb.")]
        assert [os.getsid(one) for one in apart] == apart != []
        process.kill()
        assert all(has_ended(one) for one in apart)
