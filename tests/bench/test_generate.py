"""bin/bench generate in its short form."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fixtures.bench import data, generate
from fixtures.opendj import missing_opendj
from tests.support.command import environment
from tests.support.require import require

BENCH = Path(__file__).parents[2] / "bin" / "bench"


def facts(directory: Path, *options: object) -> Any:
    out = directory / "out.json"
    words = [BENCH, "generate", "--rounds", 1, "--dir", directory, "--json", out, *options]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())


def test_both_make_as_many_entries_of_about_the_same_size(tmp_path: Path) -> None:
    require(missing_opendj())
    found = facts(tmp_path, "-n", 2000, "--contenders", f"{generate.PEER},{generate.PEOPLE}")
    sizes = {one["name"]: one["size"] / one["entries"] for one in found["runs"]}
    assert sizes.keys() == {generate.PEER, generate.PEOPLE}
    assert all(500 < size < 700 for size in sizes.values()), sizes
    (ratio,) = found["ratios"]
    peer, ours = (one["usage"]["seconds"] for one in found["runs"])
    assert ratio["median"] == pytest.approx(peer / ours)
    assert {path.name for path in tmp_path.iterdir()} == {"out.json"}


def test_into_nothing(tmp_path: Path) -> None:
    found = facts(tmp_path, "-n", 500_000, "--contenders", generate.PEOPLE, "--to", "null")
    (run,) = found["runs"]
    assert run["size"] == 0
    assert run["usage"]["resident"] < 200 << 20


def test_other_sources_of_the_generator_make_other_data(tmp_path: Path) -> None:
    people = data.people("people")
    names = {path.name for path in people.made_by}
    assert {"maker.rs", "draw.rs", "people.toml", "first-names.txt"} <= names
    assert people.containers == 2
