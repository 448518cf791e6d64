"""What a live server has moved while it was read: looked for when all has been read, and again for entries whose parent
is nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loader.errors import TreeRestless
from loader.operations.moved import LOOKS, MovedContainers
from loader.run.log import killpoint
from loader.sinks.mdb import Orphan

_LATE = "late-*.ldif*"


@dataclass
class Reread:
    """Reads again below containers that have moved; each call names the files of what it read. Called by a builder as
    `loader.sinks.mdb.Beside` says.

    `began`: the contextCSN of before the reading. `since`: that of before the last look; empty where the server has
    none.
    """

    containers: MovedContainers
    began: Sequence[str]
    since: Sequence[str]
    _told: set[Path] = field(default_factory=set)
    _rounds: int = 0

    def __post_init__(self) -> None:
        self._told = set(self._late())

    def __call__(self, orphans: Sequence[Orphan]) -> list[Path]:
        return self.for_orphans(orphans) if orphans else self.look()

    def look(self) -> list[Path]:
        """When all has been read."""
        killpoint("stream.read")
        if self.containers.context_csns() != self.since:
            self._settle()
        killpoint("stream.settled")
        return self._new()

    def for_orphans(self, orphans: Sequence[Orphan]) -> list[Path]:
        """No files: nothing can be done for them, and syncrepl will tell the consumer of it.

        Raises MissingParents, TreeRestless.
        """
        self._rounds += 1
        if self._rounds > LOOKS:
            raise TreeRestless(base=self.containers.base, passes=LOOKS)
        if self._rounds == 1:
            # A change is seen a moment before the contextCSN tells of it, and that moment was this one.
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
        if self.since:
            self.since = self.containers.settle(self.since)

    def _late(self) -> list[Path]:
        found = self.containers.parts.glob(_LATE)
        return sorted(path for path in found if path.suffix in (".ldif", ".zst"))

    def _new(self) -> list[Path]:
        """Files that were not told of before, in the order in which they were read."""
        found = [path for path in self._late() if path not in self._told]
        self._told.update(found)
        return found
