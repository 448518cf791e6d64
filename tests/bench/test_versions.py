"""bin/bench versions in its short form: this checkout against itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.test_online import facts, run

pytestmark = pytest.mark.slapd
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("verb", ["build", "export", "clone", "clone-compact", "seed-clone"])
def test_both_run(short_tmp: Path, verb: str) -> None:
    words = ("--other", ROOT, "--line", "multival default 3,1", "--verbs", verb)
    found = facts(short_tmp, "versions", "-n", 1000, *words)
    assert [one["name"] for one in found["runs"]] == [f"{verb}, this", f"{verb}, other"]
    assert len(found["ratios"]) == 2
    assert not list(short_tmp.glob("run-*"))


def test_what_is_refused(short_tmp: Path) -> None:
    done = run(short_tmp, "versions", "--other", ROOT, "--verbs", "build,mend")
    assert done.returncode == 3
    assert "seed-clone" in done.stderr
    done = run(short_tmp, "versions", "--other", short_tmp)
    assert done.returncode == 3
    assert "no bin/ditseed" in done.stderr
