"""Examples in the comments of a crate run: `cargo test` takes a second for each crate that it looks through for them,
so those that have none say so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[3] / "loader/native"
CRATES = sorted(path.parent for path in NATIVE.glob("*/Cargo.toml") if path.parent.name != "bridge")
FENCE = re.compile(r"^\s*//[/!] ```(.*)$", re.MULTILINE)


@pytest.mark.parametrize("crate", CRATES, ids=lambda path: path.name)
def test_only_a_crate_without_examples_is_passed_over(crate: Path) -> None:
    files = (crate / "src").rglob("*.rs")
    examples = any("" in FENCE.findall(file.read_text())[::2] for file in files)
    assert ("doctest = false" in (crate / "Cargo.toml").read_text()) != examples
