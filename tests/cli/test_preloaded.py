"""A run that is forked by a process which has imported everything is the run of a new interpreter."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import preloaded
from tests.support.command import arguments_of, environment
from tests.support.processes import mentioning


def run(
    kind: type[subprocess.Popen[str]], words: Sequence[object], **more: str
) -> tuple[int, str, str]:
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


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["replica", "seed", "--help"],
        ["verify", "/nowhere"],
        ["generate", "show", "people", "--json"],
        ["no-such-verb"],
        [],
    ],
    ids=" ".join,
)
def test_it_ends_and_says_the_same(words: list[str]) -> None:
    assert run(preloaded.Process, words) == run(subprocess.Popen, words)


def test_a_run_has_its_own_environment_and_name(tmp_path: Path) -> None:
    words = ["generate", "show", "people", "-n", "3"]
    stopped = {"DITSEED_STATE_DIR": str(tmp_path), "COLUMNS": "40"}
    assert run(preloaded.Process, words, **stopped) == run(subprocess.Popen, words, **stopped)
    with preloaded.Process(
        arguments_of("build", "-", "--config", tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
    ) as process:
        assert process.pid in mentioning(str(tmp_path))
        process.kill()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("name", ["LDAPCONF", "PYTHONWARNINGS", "LC_ALL", "LD_PRELOAD", "HOME"])
def test_what_is_read_at_the_start_wants_a_new_interpreter(name: str) -> None:
    assert preloaded.fits(os.environ)
    assert not preloaded.fits({**os.environ, name: "another"})
