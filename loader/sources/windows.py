"""Windows on the ring of entryUUIDs: where they end, who reads which, and the filter of what one reads.

slapd evaluates the filter of a piece on every entry, so each comparison counts: about a thirtieth of what it takes to
send an entry, more with access rules. Windows of one piece that touch are one, and a filter is a decision tree of
`entryUUID>=` behind NOT, without a guard where it would say nothing new.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

RING = 1 << 128  # of UUIDs as numbers
EVERYTHING = "(objectClass=*)"
_STEPS = 140  # halvings that find a share, also in a run that is next to nothing


@dataclass(frozen=True)
class UuidDistribution:
    """How entryUUIDs lie on their ring, as far as is known. Offsets and lengths are in turns of it.

    A `share` of them makes a run that begins at `start` and is between `least` and `most` long; the others are
    anywhere. `each`: windows for each piece, more where less is known; `all`: in all, at least.
    """

    why: str
    share: float = 0.0
    start: int = 0
    least: float = 1.0
    most: float = 1.0
    each: int = 1
    all: int = 0

    def below(self, offset: float) -> float:
        """The share of all UUIDs within `offset` (at most 1) behind the start."""
        return self.share * self._run(offset) + (1 - self.share) * offset

    def _run(self, offset: float) -> float:
        """Of those in the run."""
        if self.least < self.most:  # any length is as likely as its double
            long = math.log(self.most / self.least)
            more = min(long, math.log(max(offset / self.least, 1)))
            return (min(1.0, offset / self.least) + more) / (1 + long)
        turns = int(self.most)
        return (turns * offset + min(offset, self.most - turns)) / self.most

    def cuts(self, pieces: int) -> list[tuple[int, int]]:
        """Where windows begin, in order, and the piece that each belongs to."""
        count = max(self.each * pieces, self.all)
        offsets = [0.0] + [self._offset(number / count) for number in range(1, count)]
        places = [(self.start + int(offset * RING)) % RING for offset in offsets]
        return sorted(zip(places, _dealt(count, pieces), strict=True))

    def _offset(self, share: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.below(middle) < share else (low, middle)
        return high


def _dealt(count: int, pieces: int) -> Iterator[int]:
    """There and back: 0 1 2 2 1 0 0 1 ..., so that what grows or falls along the ring is shared out evenly."""
    for number in range(count):
        turn, place = divmod(number, pieces)
        yield pieces - 1 - place if turn % 2 else place


def filters(spread: UuidDistribution, pieces: int) -> list[str]:
    """One for each piece. Of them exactly one is true of any entry, also of one without entryUUID."""
    cuts = spread.cuts(pieces)
    if cuts[0][0] > 0:
        cuts.insert(0, (0, cuts[-1][1]))  # the last window goes on behind the end of the ring
    return [_filter(cuts, piece) for piece in range(pieces)]


def _filter(cuts: Sequence[tuple[int, int]], piece: int) -> str:
    """True of the windows of one piece."""
    own = [(place, owner == piece) for place, owner in cuts]
    ends = [
        one for number, one in enumerate(own) if not number or one[1] != own[number - 1][1]
    ]  # where it begins or ends to be true
    return _tree(ends) or EVERYTHING


def _tree(windows: Sequence[tuple[int, bool]]) -> str | None:
    """A filter for windows that are true and false in turn; "" when all are true, None when none is."""
    if len(windows) == 1:
        return "" if windows[0][1] else None
    middle = len(windows) // 2
    low, high = windows[:middle], windows[middle:]
    asked = f"(entryUUID>={uuid.UUID(int=high[0][0])})"
    found = [
        *_branch(f"(!{asked})", _tree(low), needed=len(low) > 2 or low[-1][1]),
        *_branch(f"(!(!{asked}))", _tree(high), needed=len(high) > 2 or high[0][1]),
    ]
    return found[0] if len(found) == 1 else f"(|{''.join(found)})"


def _branch(guard: str, inner: str | None, needed: bool) -> Iterator[str]:
    """A half of a tree. A guard is needed where the half is true next to the cut, and saves time where it is large."""
    if inner is None:
        return
    if not inner:
        yield guard
    else:
        yield f"(&{guard}{inner})" if needed else inner
