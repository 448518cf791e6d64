"""What stands of a seeding, while it goes on or after it was stopped. Reads the run's notes; no server is asked."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loader.errors import NoRun
from loader.operations import add as loads
from loader.operations.add import STEPS as ADD_STEPS
from loader.operations.export import STEPS as EXPORT_STEPS
from loader.run import lease
from loader.run.log import Facts, Row
from loader.run.steps import Failure, RunStatus, status_of


@dataclass(frozen=True)
class Status:
    """`step`: what is under way or would be next, None when all is done or while nothing was begun; `entries` of it so
    far, of `expected` where that is known; `rate`: entries a second; `left`: seconds that the step still takes at that
    rate. `heard`: seconds since the last sign of life. `failure`: what ended the last attempt."""

    verb: str
    done: bool
    steps: list[Row]
    step: str | None
    entries: int | None
    expected: int | None
    rate: float | None
    left: float | None
    process: int | None
    heard: float
    failure: Failure | None
    leases: list[Facts]
    run_dir: str


def of_stopped(directory: Path) -> Status:
    """Of the strategies that fill the database of a stopped consumer. Raises NoRun."""
    run = status_of(directory)
    if run is None:
        raise NoRun(path=directory)
    done = run.live.done or run.found("publish") is not None
    step = None if done else run.under_way
    progress = _progress(run, run.live.entries, run.live.total) if step else _NO_PROGRESS
    return _status(run, done, run.steps, step, progress, [])


def of_online(directory: Path, uri: str) -> Status | None:
    """Of --strategy online; None where no run is."""
    run = status_of(directory)
    if run is None:
        return None
    load = status_of(directory / "add")
    step = _next(run, load)
    steps = [*run.steps, *(load.steps if load else [])]
    return _status(run, step is None, steps, step, _online(step, run, load), leases_of(uri))


_Progress = dict[str, Any]
_NO_PROGRESS: _Progress = {"entries": None, "expected": None, "rate": None, "left": None}


def _status(
    run: RunStatus, done: bool, steps: list[Row], step: str | None, progress: _Progress, leases: list[Facts]
) -> Status:
    return Status(
        verb=run.verb.removesuffix(" online"),
        done=done,
        steps=steps,
        step=step,
        process=run.process,
        heard=time.time() - run.heard,
        failure=run.live.failure,
        leases=leases,
        run_dir=str(run.directory),
        **progress,
    )


def _progress(run: RunStatus, entries: int, expected: int | None) -> _Progress:
    """Of the step that this run has begun last."""
    rate = run.live.rate
    left = max(0, expected - entries) / rate if expected and rate else None
    return {"entries": entries, "expected": expected, "rate": rate, "left": left}


def _next(run: RunStatus, load: RunStatus | None) -> str | None:
    """The first step without an end."""
    exporting = EXPORT_STEPS if run.options["provider"] else ()
    begun = [("preflight", run), *((name, run) for name in exporting), ("join", run)]
    begun = begun if run.found("join") is None else []
    steps = [*begun, *((name, load) for name in ADD_STEPS), ("claim", run)]
    if run.found("claim") is not None:
        return None
    return next(name for name, where in steps if where is None or where.found(name) is None)


def _online(step: str | None, run: RunStatus, load: RunStatus | None) -> _Progress:
    if step == "read":
        plan = run.found("plan") or {}
        return _progress(run, run.read, plan.get("expected"))
    if step == "load" and load is not None:
        return _progress(load, loads.settled(load), loads.expected(load))
    return _NO_PROGRESS


def leases_of(uri: str) -> list[Facts]:
    """What is loosened on that server meanwhile; "undo" where the run that did it is gone."""
    return [
        {
            "kind": one.kind,
            "database": one.database,
            "taken": one.taken,
            "process": one.process,
            "undo": one.undo if one.process is None else None,
        }
        for one in lease.standing()
        if one.target == uri
    ]


def loads_of(uri: str) -> list[Facts]:
    """The loads of `ditseed add` to that server."""
    return [
        {
            "inputs": load.options["inputs"] or ["a template"],
            **_progress(load, loads.settled(load), loads.expected(load)),
            "done": load.found("load") is not None,
            "process": load.process,
            "failure": load.live.failure,
            "heard": time.time() - load.heard,
            "run_dir": str(load.directory),
        }
        for load in loads.loads_of(uri)
    ]
