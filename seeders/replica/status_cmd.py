"""ditseed replica status: shows the progress of a seeding that is running or was interrupted, from the run's records on
this host. Contacts no server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from loader import units
from loader.cli.options import Json, is_given
from loader.cli.report import show, show_facts, show_json, show_table
from loader.declared import ConsumerSuffix, OptionalConfig, RunDir
from loader.declared import command as declare
from loader.errors import NoRun, UsageProblem

if TYPE_CHECKING:
    from loader.run.log import Row
    from loader.run.steps import Failure, RunStatus


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
    from loader.operations import build
    from loader.run.log import report_of
    from loader.run.steps import status_of
    from seeders.replica import online, strategies

    if is_given("consumer") and not is_given("config_path"):
        config_path = None
    if is_given("config_path") and not is_given("consumer"):
        consumer = None
    suffix = base if suffix is None else suffix
    if config_path is not None and consumer is None:
        directory = strategies.run_dir_of(run_dir, build.target_database(config_path, suffix, replace=False))
        run = status_of(directory)
        if run is None:
            raise NoRun(path=directory)
        done = run.live.done or run.catalogue.is_done("publish")
        step = None if done else run.under_way
        counted = (run, run.live.entries, run.live.total) if step else None
        seed = _progress(run, step, done, counted)
        show_json(report_of(seed)) if as_json else _show_run(seed)
    elif config_path is None and consumer is not None:
        _show_running(consumer, online.run_dir_of(consumer, suffix, run_dir), as_json)
    else:
        raise UsageProblem(reason="give either --config (a stopped consumer) or --consumer (a running one)")


def _show_running(consumer: str, directory: Path, as_json: bool) -> None:
    """Shows what runs have done to a running consumer: the seeding in `directory`, loads, and settings changed."""
    from loader.operations import add
    from loader.run import lease
    from loader.run.log import report_of
    from seeders.replica import prepare

    seed = _online(directory)
    loads = []
    for run in add.loads_of(consumer):
        done = run.catalogue.is_done("load")
        loads.append(_progress(run, None if done else "load", done, (run, add.settled(run), add.expected(run))))
    leases = [(standing, standing.process) for standing in lease.standing() if standing.target == consumer]
    if not (seed or loads or leases):
        raise NoRun(path=directory)
    if as_json:
        settings = [
            {name: getattr(standing, name) for name in ("kind", "database", "taken")}
            | {"process": process, "undo": None if process else standing.undo}
            for standing, process in leases
        ]
        show_json({"seed": seed and report_of(seed), "loads": loads, "leases": settings})
        return
    if seed:
        _show_run(seed)
    for load in loads:
        show("", f"add {' '.join(load.inputs) or 'a template'}")
        _show_run(load)
    for standing, process in leases:
        if standing.kind == prepare.KIND:
            show(f"session log of {standing.database} set at {standing.taken} by --prepare-provider")
            show(f"  to restore what was before: {standing.undo}")
        else:
            owner = f"process {process} will reset it" if process else "nothing will reset it"
            show(f"{standing.kind} of {standing.database} since {standing.taken}: {owner}")
            if not process:
                show(f"  undone by the next run, or by hand: {standing.undo}")


def _online(directory: Path) -> RunProgress | None:
    """Returns the state of a seeding by --strategy online; None if `directory` has no run."""
    from loader.operations import add
    from loader.operations.export import STEPS, ReadingPlan
    from loader.run.steps import status_of

    run = status_of(directory)
    if run is None:
        return None
    load, step, counted = status_of(directory / "add"), None, None
    if not run.catalogue.is_done("claim"):
        exporting = STEPS if run.options["provider"] else ()
        is_joined = run.catalogue.is_done("join")
        own = () if is_joined else ("preflight", *exporting, "join")
        steps = [*((name, run) for name in own), *((name, load) for name in add.STEPS), ("claim", run)]
        step = next(name for name, where in steps if where is None or not where.catalogue.is_done(name))
    if step == "read":
        cut = run.catalogue.facts_of("plan", ReadingPlan)
        counted = (run, run.read, cut.expected if cut else None)
    elif step == "load" and load:
        counted = (load, add.settled(load), add.expected(load))
    return _progress(run, step, step is None, counted, load.steps if load else ())


def _progress(
    run: RunStatus,
    step: str | None,
    done: bool,
    counted: tuple[RunStatus, int, int | None] | None,
    more: Sequence[Row] = (),
) -> RunProgress:
    """`counted`: the run that counts the entries of the current step, its entries so far, and those expected. `more`:
    finished steps of another run."""
    counting, entries, expected = counted or (None, None, None)
    inputs = run.options.get("inputs")
    rate = counting.live.rate if counting else None
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
        entries=entries,
        expected=expected,
        rate=rate,
        left=max(0, expected - (entries or 0)) / rate if expected and rate else None,
    )


def _show_run(run: RunProgress) -> None:
    rows = [
        (row.name, units.number(row.entries), units.duration(row.seconds), units.rate(row.entries, row.seconds))
        for row in run.steps
    ]
    show_table(("step", "entries", "time", "entries/s"), rows)
    if run.done:
        show("finished")
    is_running, failure = run.process is not None, run.failure
    percent = ""
    if run.entries is not None and run.expected:
        percent = f" of {units.number(run.expected)} ({100 * run.entries // run.expected} %)"
    how = "failed; once that is corrected," if failure else "interrupted;"
    facts = {
        "under way" if is_running else "next": run.step,
        "entries": None if run.entries is None else f"{units.number(run.entries)}{percent}",
        "rate": f"{run.rate:,.0f} entries/s" if is_running and run.rate is not None else None,
        "time left": units.duration(run.left) if is_running and run.left is not None else None,
        "error": failure and f"{failure.message} [{failure.code}]",
        "failed at": failure and units.moment(failure.at),
        "hint": failure and failure.hint,
        "last heard": None if run.done else f"{units.duration(run.heard)} ago",
        "process": run.process,
        "state": None if is_running or run.done else f"{how} the same `{run.verb}` command resumes",
    }
    show_facts({name: fact for name, fact in facts.items() if fact is not None})
