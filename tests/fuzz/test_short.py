"""The beginning of what `bin/fuzz-files` runs, and the manners of `bin/fuzz`. The seeds of the fuzz targets, and all
inputs that once broke them, are replayed by `cargo test` (loader/native/fuzz/tests/replay.rs)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from loader import ldif
from loader.progress import Meter
from tests.fuzz.hostile import mutate
from tests.fuzz.hostile.campaign import chance_of, outcome_of
from tests.fuzz.hostile.targets import TARGETS

ROOT = Path(__file__).parents[2]
CRATE = ROOT / "loader/native/fuzz"


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


@pytest.mark.long("export-first", "run-first", *(f"{target}-more" for target in TARGETS))
@pytest.mark.parametrize("numbers", [range(150), range(150, 3000)], ids=["first", "more"])
@pytest.mark.parametrize("target", list(TARGETS))
def test_hostile_files(target: str, numbers: range) -> None:
    """Each input follows from its number."""
    ends, broken = outcome_of(target, 1, numbers)
    assert broken == []
    assert ends["read"] > len(numbers) / 30, "mutations must leave something to be read"
    assert ends.total() - ends["read"] > len(numbers) / 10


def test_an_input_can_be_had_again() -> None:
    one, other = (mutate.json_text(chance_of("export", 7, 11), {"a": [1, "x", {"b": None}]}) for _ in "ab")
    assert one == other


def test_what_breaks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldif, "read_manifest", lambda directory: None)  # as of no export
    assert outcome_of("export", 1, range(50))[1] == []  # all 60 entries are read nevertheless
    monkeypatch.setattr(ldif, "verified_inputs", _all_but_one)
    broken = outcome_of("export", 1, range(50))[1]
    assert len(broken) == 50
    assert "40 of 60 entries" in broken[0]


@contextmanager
def _all_but_one(given: Sequence[Path], meter: Meter) -> Iterator[list[Path]]:
    yield ldif.input_files(given)[1:]
