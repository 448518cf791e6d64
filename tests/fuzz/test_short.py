"""The fuzz targets on their seeds and on all inputs that once broke them; `bin/fuzz` goes on from there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.require import require

ROOT = Path(__file__).parents[2]
CRATE = ROOT / "loader/native/fuzz"
CARGO = os.environ.get("CARGO") or shutil.which("cargo")


def cargo(*arguments: str) -> None:
    """Shares what is already built of the workspace."""
    require(None if CARGO else "cargo is not installed")
    assert CARGO
    place = ["--manifest-path", str(CRATE / "Cargo.toml")]
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "loader/native/target"))
    done = subprocess.run(
        [CARGO, *arguments[:1], *place, *arguments[1:]],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"CARGO_TARGET_DIR": target, "RUST_BACKTRACE": "0"},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.timeout(900)
def test_seeds_and_regressions() -> None:
    cargo("test", "--locked", "-q")


def test_every_target_has_seeds_and_words() -> None:
    done = subprocess.run([ROOT / "bin/fuzz", "--list"], capture_output=True, text=True, check=True)
    targets = done.stdout.split()
    assert targets == sorted(path.name for path in (CRATE / "seeds").iterdir())
    assert targets == sorted(path.stem for path in (CRATE / "dictionaries").iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "there is no target nothing"),
        (["--runs", "many"], "--runs needs a number"),
        (["dn", "--replay", "/nowhere"], "--replay needs a file"),
    ],
)
def test_wrong_words_are_told(words: list[str], message: str) -> None:
    done = subprocess.run([ROOT / "bin/fuzz", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, message in done.stderr) == (2, True)
