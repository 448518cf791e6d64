"""ditseed replica status: shows the progress of a seeding that is running or was interrupted, from the run's records on
this host. Contacts no server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from loader import units
from loader.cli.options import Json, is_given
from loader.cli.report import show, show_facts, show_json, show_table
from loader.common_options import ConsumerSuffix, OptionalConfig, RunDir
from loader.declared import command as declare
from loader.errors import NoRun, UsageProblem
from loader.operations import add, build
from loader.operations.export import STEPS as EXPORT_STEPS
from loader.operations.export import ReadingPlan
from loader.run import lease
from loader.run.lease import Lease
from loader.run.log import Row, report_of
from loader.run.steps import Failure, RunStatus, status_of
from seeders.replica import online, preflight, strategies

_HEADINGS = ("add", "entries", "entries/s", "time left", "last heard", "process")


class RunProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A seeding, or a load of `ditseed add`. `step`: the current or next step; None if all steps are done or none has
    begun. `entries`: its entries so far, of `expected` (None if unknown), at `rate` per second. `left`: remaining
    seconds at that rate. `heard`: seconds since the last sign of life. `failure`: error that ended the last attempt."""

    verb: str
    run_dir: str
    inputs: list[str]
    steps: list[Row]
    step: str | None
    done: bool
    process: int | None
    heard: float
    failure: Failure | None
    entries: int | None = None
    expected: int | None = None
    rate: float | None = None
    left: float | None = None

    @property
    def so_far(self) -> str:
        entries, expected = self.entries or 0, self.expected
        percent = f" of {units.number(expected)} ({100 * entries // expected} %)" if expected else ""
        return f"{units.number(entries)}{percent}"


@declare("status")
def command(
    config_path: OptionalConfig,
    consumer: Annotated[
        str | None, "--consumer URI", "URI of a running server, as given for the seeding, instead of --config."
    ],
    base: Annotated[str | None, "-b --base DN", "Base DN, as given for the seeding."],
    suffix: ConsumerSuffix,
    run_dir: RunDir,
    as_json: Json,
) -> None:
    """Show what a seeding has done so far, while it is running or after it was interrupted or refused.

    For the step that is under way it shows the entries so far, the rate, the time left and the process; for a seeding
    that failed its error and hint.

    --config is the configuration of a stopped consumer. --consumer URI (and -b, both as given for the seeding) is a
    running one: it shows the seeding by --strategy online, loads of `ditseed add` to that server, and settings that
    they have changed temporarily. It reads the notes of the runs on this host and contacts no server.

    \b
    Examples:
      ditseed replica status --config /etc/ldap/slapd.d
      ditseed replica status --consumer ldapi:/// -b dc=example,dc=com
    """
    if is_given("consumer") and not is_given("config_path"):
        config_path = None
    if is_given("config_path") and not is_given("consumer"):
        consumer = None
    suffix = base if suffix is None else suffix
    if config_path is not None and consumer is None:
        directory = strategies.run_dir_of(run_dir, build.target_database(config_path, suffix, replace=False))
        seed = _stopped(directory)
        if seed is None:
            raise NoRun(path=directory)
        show_json(report_of(seed)) if as_json else _show_seed(seed)
    elif config_path is None and consumer is not None:
        directory = online.run_dir_of(consumer, suffix, run_dir)
        _show_running(consumer, directory, as_json)
    else:
        raise UsageProblem(reason="give either --config (a stopped consumer) or --consumer (a running one)")


# Progress, as read from the records of the runs.


def _stopped(directory: Path) -> RunProgress | None:
    """Returns the state of the seeding of a stopped consumer; None if `directory` has no run."""
    run = status_of(directory)
    if run is None:
        return None
    done = run.live.done or run.catalogue.is_done("publish")
    step = None if done else run.under_way
    progress = _progress(run, done, step)
    return _counting(progress, run, run.live.entries, run.live.total) if step else progress


def _online(directory: Path) -> RunProgress | None:
    """Returns the state of a seeding by --strategy online; None if `directory` has no run."""
    run = status_of(directory)
    if run is None:
        return None
    load = status_of(directory / "add")
    step = _next(run, load)
    progress = _progress(run, step is None, step, load.steps if load else ())
    if step == "read":
        cut = run.catalogue.facts_of("plan", ReadingPlan)
        return _counting(progress, run, run.read, cut.expected if cut else None)
    return _counting(progress, load, add.settled(load), add.expected(load)) if step == "load" and load else progress


def _load(run: RunStatus) -> RunProgress:
    done = run.catalogue.is_done("load")
    return _counting(_progress(run, done, None if done else "load"), run, add.settled(run), add.expected(run))


def _progress(run: RunStatus, done: bool, step: str | None, more: Sequence[Row] = ()) -> RunProgress:
    inputs = run.options.get("inputs")
    return RunProgress(
        verb=run.verb.removesuffix(" online"),
        run_dir=str(run.directory),
        inputs=[*map(str, inputs)] if isinstance(inputs, list) else [],
        steps=[*run.steps, *more],
        step=step,
        done=done,
        process=run.process,
        heard=time.time() - run.heard,
        failure=run.live.failure,
    )


def _counting(progress: RunProgress, run: RunStatus, entries: int, expected: int | None) -> RunProgress:
    """Returns `progress` with the entries, rate and remaining seconds of the current step, which `run` counts."""
    rate = run.live.rate
    left = max(0, expected - entries) / rate if expected and rate else None
    return msgspec.structs.replace(progress, entries=entries, expected=expected, rate=rate, left=left)


def _next(run: RunStatus, load: RunStatus | None) -> str | None:
    """Returns the first unfinished step of an online seeding; None if all are done."""
    if run.catalogue.is_done("claim"):
        return None
    exporting = EXPORT_STEPS if run.options["provider"] else ()
    begun = ["preflight", *exporting, "join"] if not run.catalogue.is_done("join") else []
    steps: list[tuple[str, RunStatus | None]] = [
        *((name, run) for name in begun),
        *((name, load) for name in add.STEPS),
        ("claim", run),
    ]
    return next(name for name, where in steps if where is None or not where.catalogue.is_done(name))


# Output for people.


def _show_running(consumer: str, directory: Path, as_json: bool) -> None:
    """Shows what runs have done to a running consumer: the seeding in `directory`, loads, and settings changed."""
    seed, loads = _online(directory), [_load(run) for run in add.loads_of(consumer)]
    leases = [(standing, standing.process) for standing in lease.standing() if standing.target == consumer]
    if not (seed or loads or leases):
        raise NoRun(path=directory)
    if as_json:
        settings = [
            {name: getattr(standing, name) for name in ("kind", "database", "taken")}
            | {"process": process, "undo": None if process else standing.undo}
            for standing, process in leases
        ]
        show_json({"seed": seed and report_of(seed), "loads": msgspec.to_builtins(loads), "leases": settings})
        return
    if seed:
        _show_seed(seed)
    if loads:
        show_table(_HEADINGS, [_cells(load) for load in loads])
    for standing, process in leases:
        _show_lease(standing, process)


def _show_seed(seed: RunProgress) -> None:
    rows = [
        (row.name, units.number(row.entries), units.duration(row.seconds), units.rate(row.entries, row.seconds))
        for row in seed.steps
    ]
    show_table(("step", "entries", "time", "entries/s"), rows)
    running, failure = seed.process is not None, seed.failure
    error = f"{failure.message} [{failure.code}]" if failure else None
    how = "failed; once that is corrected," if failure else "interrupted;"
    facts = {
        "under way" if running else "next": seed.step,
        "entries": None if seed.entries is None else seed.so_far,
        "rate": f"{seed.rate:,.0f} entries/s" if running and seed.rate is not None else None,
        "time left": units.duration(seed.left) if running and seed.left is not None else None,
        "error": error,
        "failed at": failure and units.moment(failure.at),
        "hint": failure and failure.hint,
        "last heard": None if seed.done else f"{units.duration(seed.heard)} ago",
        "process": seed.process,
        "state": None if running or seed.done else f"{how} the same `{seed.verb}` command resumes",
    }
    if seed.done:
        show("finished")
    show_facts({name: fact for name, fact in facts.items() if fact is not None})


def _cells(load: RunProgress) -> tuple[str, ...]:
    is_moving, failure = load.process is not None and not load.done, load.failure
    how = f"failed: {failure.message} [{failure.code}]; once that is corrected," if failure else "interrupted;"
    return (
        " ".join(load.inputs) or "a template",
        load.so_far,
        f"{load.rate:,.0f}/s" if is_moving and load.rate else "-",
        units.duration(load.left) if is_moving and load.left is not None else "-",
        f"{units.duration(load.heard)} ago",
        "finished" if load.done else str(load.process or f"{how} the same command resumes"),
    )


def _show_lease(standing: Lease, process: int | None) -> None:
    if standing.kind == preflight.KIND:
        show(f"session log of {standing.database} set at {standing.taken} by --prepare-provider")
        show(f"  to restore what was before: {standing.undo}")
        return
    owner = f"process {process} will reset it" if process else "nothing will reset it"
    show(f"{standing.kind} of {standing.database} since {standing.taken}: {owner}")
    if not process:
        show(f"  undone by the next run, or by hand: {standing.undo}")
