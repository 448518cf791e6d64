"""What stands of a seeding, while it goes on or after it was stopped. Reads the run's notes; no server is asked."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from loader.operations.add import STEPS as ADD_STEPS
from loader.operations.add import looking as loads
from loader.operations.export import STEPS as EXPORT_STEPS
from loader.run import lease
from loader.run.catalogue import DoneStep, Facts
from loader.run.looking import RunStatus, status_of


@dataclass(frozen=True)
class Status:
    """`step`: what is under way or would be next, None when all is done; `entries` of it so far, of `expected` where
    that is known. `heard`: seconds since the last sign of life."""

    steps: list[DoneStep]
    step: str | None
    entries: int | None
    expected: int | None
    process: int | None
    heard: float
    leases: list[Facts]
    run_dir: str

    @property
    def done(self) -> bool:
        return self.step is None


def of_online(directory: Path, uri: str) -> Status | None:
    """Of --strategy online; None where no run is."""
    run = status_of(directory)
    if run is None:
        return None
    load = status_of(directory / "add")
    step = _next(run, load)
    return Status(
        steps=[*run.steps, *(load.steps if load else [])],
        step=step,
        process=run.process,
        heard=time.time() - run.heard,
        leases=leases_of(uri),
        run_dir=str(run.directory),
        **_progress(step, run, load),
    )


def _next(run: RunStatus, load: RunStatus | None) -> str | None:
    """The first step without an end."""
    exporting = EXPORT_STEPS if run.options["provider"] else ()
    begun = [("preflight", run), *((name, run) for name in exporting), ("join", run)]
    begun = begun if run.found("join") is None else []
    steps = [*begun, *((name, load) for name in ADD_STEPS), ("claim", run)]
    if run.found("claim") is not None:
        return None
    return next(name for name, where in steps if where is None or where.found(name) is None)


def _progress(step: str | None, run: RunStatus, load: RunStatus | None) -> dict[str, int | None]:
    if step == "read":
        plan = run.found("plan") or {}
        return {"entries": run.read, "expected": plan.get("expected")}
    if step == "load" and load is not None:
        return {"entries": loads.settled(load), "expected": loads.expected(load)}
    return {"entries": None, "expected": None}


def leases_of(uri: str) -> list[Facts]:
    """What is loosened on that server meanwhile; "undo" where the run that did it is gone."""
    return [
        {
            "kind": one.kind,
            "database": one.database,
            "taken": one.taken,
            "process": pid,
            "undo": one.undo if pid is None else None,
        }
        for one, pid in lease.of(uri)
    ]


def loads_of(uri: str) -> list[Facts]:
    """The loads of `ditseed add` to that server."""
    return [
        {
            "inputs": load.options["inputs"] or ["a template"],
            "entries": loads.settled(load),
            "expected": loads.expected(load),
            "done": load.found("load") is not None,
            "process": load.process,
            "heard": time.time() - load.heard,
            "run_dir": str(load.directory),
        }
        for load in loads.loads_of(uri)
    ]
