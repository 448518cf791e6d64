"""Kills `ditseed build` at named or random moments, and checks the result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fixtures.slapd import Slapd
from loader.defaults import ENGINES
from loader.run.log import Catalogue
from tests.support.command import Done, ditseed
from tests.support.trees import tree

RUN_DIR = ".ditseed-build"
SHARDS = "shards"  # a kind in addition to the engines: three slapadds in parallel
KINDS = (*ENGINES, SHARDS)


def build(target: Slapd, *more: object) -> Done:
    """Runs `ditseed build` with the configuration of `target`."""
    return ditseed("build", *more, "--config", target.config_path, "-b", target.suffix)


def engine_words(kind: str) -> tuple[str, ...]:
    """Returns the options that select an engine or SHARDS."""
    return ("--engine", "slapadd", "--shards", "3") if kind == SHARDS else ("--engine", kind)


@dataclass(frozen=True)
class Building:
    """A stopped server whose database is to be replaced."""

    target: Slapd
    old: str  # the database before, as slapcat prints it
    new: Path  # LDIF of the database afterwards, with all operational attributes
    engine: str  # one of KINDS

    @property
    def command(self) -> list[str]:
        place = ("--config", self.target.config_path, "-b", self.target.suffix)
        words = ("build", self.new, *place, *engine_words(self.engine), "--replace")
        return [str(word) for word in words]

    @property
    def steps(self) -> list[str]:
        """Returns the names of the finished steps, in order."""
        run = Catalogue(self.target.database_dir / RUN_DIR)
        return [step.name for step in run.steps()]

    def assert_old_or_new(self) -> None:
        """Asserts that the directory contains the old or the new database, and otherwise only the run directory."""
        inside = {path.name for path in self.target.database_dir.iterdir()}
        assert inside <= {"lock.mdb", "data.mdb", RUN_DIR}, inside
        found = tree(self.target.slapcat())
        assert found in (tree(self.old), tree(self.new.read_text()))

    def assert_done(self) -> None:
        assert tree(self.target.slapcat()) == tree(self.new.read_text())
        run_dir = {path.name for path in (self.target.database_dir / RUN_DIR).iterdir()}
        assert run_dir == {"lock", "now.json", "run.log"}
