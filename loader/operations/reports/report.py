"""What both say of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loader import log
from loader.errors import EXIT_DIFFERENT, EXIT_OK, LoaderError
from loader.progress import Recorder, StepRecord
from loader.progress.recorder import DONE_BEFORE


@dataclass(frozen=True)
class Rejection:
    """path: None for standard input."""

    path: str | None
    line: int | None
    dn: str
    reason: str


@dataclass(frozen=True)
class RunReport:
    """Of a run that has ended. facts: those of --json, none where it failed. planned: seconds that a plan gave each
    step."""

    verb: str
    recorder: Recorder
    seconds: float
    status: int
    error: LoaderError | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    planned: Mapping[str, float] = field(default_factory=dict)

    @property
    def steps(self) -> list[StepRecord]:
        return self.recorder.steps

    @property
    def seconds_by_step(self) -> dict[str, float]:
        """Of those that this run did; those of one name are added up."""
        found: dict[str, float] = {}
        for step in self.steps:
            if step.state != DONE_BEFORE:
                found[step.name] = found.get(step.name, 0.0) + step.seconds
        return found

    @property
    def is_done(self) -> bool:
        """With rejects or without."""
        return self.error is None and self.status in (EXIT_OK, EXIT_DIFFERENT)

    @property
    def entries(self) -> int:
        """As --json has them; of a run that failed, those that its last step had counted."""
        if self.is_done:
            for name in ("entries", "read"):
                if name in self.facts:
                    return int(self.facts[name])
        return self.steps[-1].entries if self.steps else 0

    @property
    def bytes(self) -> int:
        """Of the step that read or wrote the most."""
        return max((step.bytes for step in self.steps), default=0)

    @property
    def rejected(self) -> int | None:
        """None where nobody counted them: the error that ended the run names one then, if it was for a reject."""
        of_error = self.error.facts.get("rejected") if self.error else 0
        found = self.facts.get("rejected", of_error)
        return found if isinstance(found, int) else None

    @property
    def rejections(self) -> list[Rejection]:
        """The first ones; passwords blanked."""
        return [
            Rejection(path, line, log.redact(str(dn)), log.redact(str(reason)))
            for path, line, dn, reason in self.facts.get("rejections") or ()
        ]
