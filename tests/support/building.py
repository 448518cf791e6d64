"""Ending `ditseed build` at named or random moments, and what must be true afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fixtures.slapd import Slapd
from loader.defaults import ENGINES
from loader.run.log import Catalogue
from tests.support.command import Done, ditseed
from tests.support.trees import tree

RUN_DIR = ".ditseed-build"
SHARDS = "shards"  # beside the engines' names: slapadd, three at once
KINDS = (*ENGINES, SHARDS)


def build(target: Slapd, *more: object) -> Done:
    """`ditseed build` for it."""
    return ditseed("build", *more, "--config", target.config_path, "-b", target.suffix)


def engine_words(kind: str) -> tuple[str, ...]:
    """The options that choose it."""
    return ("--engine", "slapadd", "--shards", "3") if kind == SHARDS else ("--engine", kind)


@dataclass(frozen=True)
class Building:
    """A stopped server whose database `old` is to be replaced by what stands in `new`."""

    target: Slapd
    old: str  # as slapcat prints it
    new: Path  # LDIF with all operational attributes
    engine: str  # of KINDS

    @property
    def command(self) -> list[str]:
        place = ("--config", self.target.config_path, "-b", self.target.suffix)
        words = ("build", self.new, *place, *engine_words(self.engine), "--replace")
        return [str(word) for word in words]

    @property
    def steps(self) -> list[str]:
        """Names of the finished steps, in order."""
        run = Catalogue(self.target.database_dir / RUN_DIR)
        return [step.name for step in run.steps()]

    def assert_old_or_new(self) -> None:
        """Never a half; and beside it nothing but the run's own directory."""
        inside = {path.name for path in self.target.database_dir.iterdir()}
        assert inside <= {"lock.mdb", "data.mdb", RUN_DIR}, inside
        found = tree(self.target.slapcat())
        assert found in (tree(self.old), tree(self.new.read_text()))

    def assert_done(self) -> None:
        assert tree(self.target.slapcat()) == tree(self.new.read_text())
        run_dir = {path.name for path in (self.target.database_dir / RUN_DIR).iterdir()}
        assert run_dir == {"lock", "now.json", "run.log"}
