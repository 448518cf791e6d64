"""ditseed replica status: shows the progress of a seeding that is running or was interrupted, from the run's records on
this host. Contacts no server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeVar

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
from loader.run.log import Row, report_of
from loader.run.steps import Failure, RunStatus, status_of
from seeders.replica import online, preflight, strategies


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """`entries`: number processed so far. `expected`: total, None if unknown. `rate`: entries per second. `left`:
    remaining seconds at that rate. `heard`: seconds since the last sign of life. `failure`: error that ended the last
    attempt."""

    done: bool
    entries: int | None = None
    expected: int | None = None
    rate: float | None = None
    left: float | None = None
    process: int | None
    heard: float
    failure: Failure | None
    run_dir: str


class ShownLease(msgspec.Struct, frozen=True):
    """A server setting that a run has changed. `undo`: command that restores it; None while the run's process lives."""

    kind: str
    database: str
    taken: str
    process: int | None
    undo: str | None


class Seed(Progress, frozen=True, kw_only=True):
    """`step`: the current or next step, to which `entries` refers; None if all steps are done or none has begun."""

    verb: str
    steps: list[Row]
    step: str | None
    leases: list[ShownLease]


class Load(Progress, frozen=True, kw_only=True):
    """A load of `ditseed add`."""

    inputs: list[str]


Shown = TypeVar("Shown", Seed, Load)


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
        place = build.target_database(config_path, suffix, replace=False)
        directory = strategies.run_dir_of(run_dir, place)
        seed = _stopped(directory)
        if seed is None:
            raise NoRun(path=directory)
        show_json(report_of(seed)) if as_json else _show_seed(seed)
    elif config_path is None and consumer is not None:
        directory = online.run_dir_of(consumer, suffix, run_dir)
        leases = [
            ShownLease(held.kind, held.database, held.taken, held.process, None if held.process else held.undo)
            for held in lease.standing()
            if held.target == consumer
        ]
        loads = [_load(run) for run in add.loads_of(consumer)]
        seed = _online(directory, leases)
        if seed is None and not loads and not leases:
            raise NoRun(path=directory)
        if as_json:
            show_json(
                {
                    "seed": report_of(seed) if seed else None,
                    "loads": msgspec.to_builtins(loads),
                    "leases": msgspec.to_builtins(leases),
                }
            )
        else:
            _show_running(seed, loads, leases)
    else:
        raise UsageProblem(reason="give either --config (a stopped consumer) or --consumer (a running one)")


# Progress, as read from the records of the runs.


def _stopped(directory: Path) -> Seed | None:
    """Returns the state of the seeding of a stopped consumer; None if `directory` has no run."""
    run = status_of(directory)
    if run is None:
        return None
    done = run.live.done or run.catalogue.is_done("publish")
    step = None if done else run.under_way
    seed = _seed(run, step, [], [], done=done)
    return _moving(seed, run, run.live.entries, run.live.total) if step else seed


def _online(directory: Path, leases: list[ShownLease]) -> Seed | None:
    """Returns the state of a seeding by --strategy online; None if `directory` has no run."""
    run = status_of(directory)
    if run is None:
        return None
    load = status_of(directory / "add")
    step = _next(run, load)
    seed = _seed(run, step, load.steps if load else [], leases, done=step is None)
    if step == "read":
        cut = run.catalogue.facts_of("plan", ReadingPlan)
        return _moving(seed, run, run.read, cut.expected if cut else None)
    return _moving(seed, load, add.settled(load), add.expected(load)) if step == "load" and load else seed


def _seed(run: RunStatus, step: str | None, more: list[Row], leases: list[ShownLease], *, done: bool) -> Seed:
    return Seed(
        done=done,
        process=run.process,
        heard=time.time() - run.heard,
        failure=run.live.failure,
        run_dir=str(run.directory),
        verb=run.verb.removesuffix(" online"),
        steps=[*run.steps, *more],
        step=step,
        leases=leases,
    )


def _load(run: RunStatus) -> Load:
    inputs = run.options["inputs"]
    load = Load(
        done=run.catalogue.is_done("load"),
        process=run.process,
        heard=time.time() - run.heard,
        failure=run.live.failure,
        run_dir=str(run.directory),
        inputs=list(map(str, inputs)) if isinstance(inputs, list) and inputs else ["a template"],
    )
    return _moving(load, run, add.settled(run), add.expected(run))


def _moving(progress: Shown, run: RunStatus, entries: int, expected: int | None) -> Shown:
    """Returns `progress` with the entries, rate and remaining seconds of the run's current step."""
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


def _show_running(seed: Seed | None, loads: Sequence[Load], leases: Sequence[ShownLease]) -> None:
    if seed is not None:
        _show_seed(seed)
    if loads:
        headings = ("add", "entries", "entries/s", "time left", "last heard", "process")
        show_table(headings, [_cells(load) for load in loads])
    for one in leases:
        _show_lease(one)


def _show_seed(seed: Seed) -> None:
    rows = [
        (row.name, units.number(row.entries), units.duration(row.seconds), units.rate(row.entries, row.seconds))
        for row in seed.steps
    ]
    show_table(("step", "entries", "time", "entries/s"), rows)
    facts: dict[str, object] = {}
    running = seed.process is not None
    if seed.step is not None:
        facts["under way" if running else "next"] = seed.step
    if seed.entries is not None:
        facts["entries"] = _so_far(seed)
    if running and seed.rate is not None:
        facts["rate"] = f"{seed.rate:,.0f} entries/s"
    if running and seed.left is not None:
        facts["time left"] = units.duration(seed.left)
    if seed.failure is not None:
        facts |= {"error": f"{seed.failure.message} [{seed.failure.code}]", "failed at": units.moment(seed.failure.at)}
        facts |= {"hint": seed.failure.hint} if seed.failure.hint else {}
    if not seed.done:
        facts["last heard"] = f"{units.duration(seed.heard)} ago"
    if running:
        facts["process"] = seed.process
    elif not seed.done:
        how = "failed; once that is corrected," if seed.failure else "interrupted;"
        facts["state"] = f"{how} the same `{seed.verb}` command resumes"
    if seed.done:
        show("finished")
    show_facts(facts)


def _so_far(progress: Progress) -> str:
    entries, expected = progress.entries or 0, progress.expected
    percent = f" of {units.number(expected)} ({100 * entries // expected} %)" if expected else ""
    return f"{units.number(entries)}{percent}"


def _cells(load: Load) -> tuple[str, ...]:
    is_moving = load.process is not None and not load.done
    how, failure = "interrupted;", load.failure
    if failure:
        how = f"failed: {failure.message} [{failure.code}]; once that is corrected,"
    return (
        " ".join(load.inputs),
        _so_far(load),
        f"{load.rate:,.0f}/s" if is_moving and load.rate else "-",
        units.duration(load.left) if is_moving and load.left is not None else "-",
        f"{units.duration(load.heard)} ago",
        "finished" if load.done else str(load.process or f"{how} the same command resumes"),
    )


def _show_lease(one: ShownLease) -> None:
    if one.kind == preflight.KIND:
        show(f"session log of {one.database} set at {one.taken} by --prepare-provider")
        show(f"  to restore what was before: {one.undo}")
        return
    owner = f"process {one.process} will reset it" if one.process else "nothing will reset it"
    show(f"{one.kind} of {one.database} since {one.taken}: {owner}")
    if one.undo:
        show(f"  the next run does, or by hand: {one.undo}")
