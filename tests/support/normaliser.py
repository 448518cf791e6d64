"""Builds examples/normalise.rs of the crate `values`, which prints the core's normal forms and index keys.

`python -m tests.support.normaliser FILE` builds FILE."""

from __future__ import annotations

import atexit
import functools
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


@functools.cache
def normaliser() -> Path:
    """Returns the program that bin/test has built (NORMALISER_BUILT), or builds it once."""
    if built := os.environ.get("NORMALISER_BUILT"):
        return Path(built)
    home = Path(tempfile.mkdtemp(prefix="normalise-"))
    atexit.register(shutil.rmtree, home)
    build(home / "normalise")
    return home / "normalise"


def build(target: Path) -> None:
    """Builds the program and copies it to `target`, because others share the build directory."""
    target.parent.mkdir(parents=True, exist_ok=True)
    words = ["build", "--locked", "-q", "-p", "values", "--example", "normalise"]
    copied = f"cp target/debug/examples/normalise {shlex.quote(str(target))}"
    subprocess.run([ROOT / "bin/cargo", "--then", copied, *words], check=True)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
