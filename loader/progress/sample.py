"""One look at a meter: how much, how fast (recent and average), how long still; as lines and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections import deque
from dataclasses import dataclass

from loader import plain, units
from loader.progress.meter import Meter

RECENT = 10.0  # seconds that the recent rate looks back
WIDTH = 80  # columns of a terminal
SCHEMA_VERSION = 1  # of the JSON records


@dataclass(frozen=True)
class Sample:
    """One look at a meter."""

    step: str
    note: str
    entries: int
    bytes: int
    seconds: float
    recent: float  # entries/s over the last RECENT seconds
    average: float  # entries/s since the step began
    total: int | None

    @property
    def left(self) -> float | None:
        """Seconds still to go by the average rate."""
        if not self.total or not self.average:
            return None
        return max(0.0, (self.total - self.entries) / self.average)

    def lines(self) -> list[str]:
        """What was done, how fast, how long still, and the note, below it where it is long; none wider than WIDTH."""
        indent, done, note = "  ", self._done(), plain.sentence(self.note)
        together = f"{done} [{note}]"
        if note and len(together) <= WIDTH:
            return [together]
        return [
            *textwrap.wrap(done, WIDTH, subsequent_indent=indent),
            *textwrap.wrap(note, WIDTH, initial_indent=indent, subsequent_indent=indent),
        ]

    def _done(self) -> str:
        if self.bytes and not self.entries and not self.total:
            return f"{self.step}: {self._bytes_moved()}"
        count = f"{units.brief(self.entries)} entries"
        if self.total:
            done = min(1.0, self.entries / self.total)
            count = f"{units.brief(self.entries)} of {units.brief(self.total)} ({done:.0%})"
        speed = f"{units.brief(self.recent)}/s, average {units.brief(self.average)}/s"
        left = "" if self.left is None else f", {units.duration(self.left)} left"
        return f"{self.step}: {count}, {speed}{left}"

    def _bytes_moved(self) -> str:
        """Of a step that moves bytes and knows of no entries."""
        average = self.bytes / self.seconds if self.seconds > 0 else 0.0
        return f"{units.size(self.bytes)}, {units.size(average)}/s on average"

    def record(self) -> str:
        facts = {
            "schema_version": SCHEMA_VERSION,
            "event": "progress",
            **self.__dict__,
            "left": self.left,
        }
        return json.dumps(facts)


class Sampler:
    """Turns looks at one meter into samples with a recent rate."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._seen: deque[tuple[float, int]] = deque([(0.0, 0)])

    def look(self) -> Sample:
        seconds, entries = self._meter.seconds, self._meter.entries
        self._seen.append((seconds, entries))
        while len(self._seen) > 2 and self._seen[1][0] < seconds - RECENT:
            self._seen.popleft()
        since, before = self._seen[0]
        return Sample(
            step=self._meter.name,
            note=self._meter.noted,
            entries=entries,
            bytes=self._meter.bytes,
            seconds=seconds,
            # What a failed native call had counted is taken back.
            recent=max(0.0, (entries - before) / (seconds - since)) if seconds > since else 0.0,
            average=entries / seconds if seconds > 0 else 0.0,
            total=self._meter.total,
        )
