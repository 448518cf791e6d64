"""The walks of ARCHITECTURE.md, walked: each file that is named does something when the verb runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from tests.support.command import ditseed, environment
from tests.support.seeding import bind
from tests.test_documented import walks

pytestmark = pytest.mark.slapd

# Runs a command and tells in which files functions were called. (The body of a class is none: it has no fast locals.)
WALKED = """
import inspect, json, os, sys, threading
os._exit = sys.exit  # so that what was walked can be told
walked = set()
def note(frame, event, argument):
    if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        walked.add(frame.f_code.co_filename)
from loader.cli import main
told = sys.argv.pop(1)
threading.setprofile(note)
sys.setprofile(note)
try:
    main()
finally:
    sys.setprofile(None)
    with open(told, "w") as file:
        json.dump(sorted(walked), file)
"""


@pytest.fixture(scope="module")
def repo(stopped: Slapd, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("backups")
    ditseed("backup", "run", "--init", "-R", place, "--from", stopped.database_dir, "--incremental").ok()
    return place


ROOT = Path(__file__).parents[2]
# Files of ours in which functions run, at most: whoever reads a verb has to open these. The numbers only go down.
MOST_FILES = {
    "backup check": 23, "backup list": 21, "backup restore": 33, "backup run": 35, "build": 35, "clone": 28,
    "compare": 27, "generate tree": 25, "migrate": 38, "replica seed": 59, "tune maxsize": 39, "verify": 24,
}  # fmt: skip


@pytest.mark.long(
    *("backup check", "backup list", "backup restore", "backup run", "compare", "migrate", "replica seed"),
    "tune maxsize",
)
@pytest.mark.parametrize("verb", MOST_FILES)
def test_a_walk_is_the_way_that_the_verb_takes(
    request: pytest.FixtureRequest,
    stopped: Slapd,
    other: Slapd,
    repo: Path,
    people_ldif: Path,
    tmp_path: Path,
    verb: str,
) -> None:
    out, data = tmp_path / "out", stopped.database_dir
    more: dict[str, tuple[object, ...]] = {
        "backup check": ("-R", repo),
        "backup list": ("-R", repo),
        "backup restore": ("latest", "-R", repo, "--target", out),
        "backup run": ("-R", out, "--init", "--from", data, "--incremental"),
        "build": (people_ldif, "--config", other.config_path, "-b", other.suffix),
        "clone": (data, out),
        "compare": (data, data),
        "generate tree": ("people", "-n", 10, "-o", out),
        "migrate": (data, other.database_dir, "--config", other.config_path),
        "tune maxsize": ("--for", people_ldif, "--apply", "--config", other.config_path, "-b", other.suffix),
        "verify": (data,),
    }
    if verb == "replica seed":  # a running provider of the same tree, and an empty database
        source: Slapd = request.getfixturevalue("provider")
        more[verb] = ("--strategy", "search", *bind(source), "--config", other.config_path, "-b", other.suffix)
    told = tmp_path / "walked"
    command = [sys.executable, "-c", WALKED, told, *verb.split(), *more[verb]]
    # Leases that a test before has left would be looked at, too.
    its = environment({"DITSEED_STATE_DIR": str(tmp_path / "state")})
    done = subprocess.run(list(map(str, command)), env=its, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    walked = set(json.loads(told.read_text()))
    assert [path.name for path in walks()[verb] if str(path) not in walked] == []
    own = sorted(path for path in walked if path.startswith((f"{ROOT}/loader/", f"{ROOT}/seeders/")))
    assert len(own) <= MOST_FILES[verb], "\n".join(own)
