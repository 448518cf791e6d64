"""What a live server has moved while it was read, for a builder that asks when all has been read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loader.errors import TreeRestless
from loader.operations.moved import LOOKS, Containers
from loader.run.killpoint import killpoint
from loader.sinks.mdb import Orphan

_LATE = "late-*.ldif*"


@dataclass
class ReadAgain:
    """Reads again below containers that have moved; called as `loader.sinks.mdb.Beside` says.

    `began`: the contextCSN of before the reading.
    """

    containers: Containers
    began: Sequence[str]
    _since: list[str] = field(default_factory=list)  # contextCSN of before the last look
    _calm: bool = True  # it is still that of the beginning
    _told: set[Path] = field(default_factory=set)
    _rounds: int = 0

    def __post_init__(self) -> None:
        self._since = list(self.began)
        for path in self.containers.parts.glob(_LATE):
            path.unlink()  # of an interrupted try

    def __call__(self, orphans: Sequence[Orphan]) -> list[Path]:
        if not orphans:
            killpoint("stream.read")
            self._calm = self.containers.context_csns() == self._since
            if not self._calm:
                self._settle()
            killpoint("stream.settled")
            return self._new()
        self._rounds += 1
        if self._rounds > LOOKS:
            raise TreeRestless(base=self.containers.base, passes=LOOKS)
        return self._for(orphans)

    def _for(self, orphans: Sequence[Orphan]) -> list[Path]:
        if self._calm:
            # A change is seen a moment before the contextCSN tells of it, and that moment was this one.
            self._calm = False
            self._settle()
            found = self._new()
            if found:
                return found
        again = self.containers.missed(orphans, self.began)
        for top in again:
            self.containers.read_below(top)
        if again:
            self._settle()
        return self._new()

    def _settle(self) -> None:
        self._since = self.containers.settle(self._since)

    def _new(self) -> list[Path]:
        """Files that were not told of before, in the order in which they were read."""
        found = sorted(set(self.containers.parts.glob(_LATE)) - self._told)
        found = [path for path in found if path.suffix in (".ldif", ".zst")]
        self._told.update(found)
        return found
