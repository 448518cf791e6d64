"""ditseed replica status: what stands of a seeding, offline or online."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from loader import units
from loader.cli.options import Json, is_given
from loader.cli.report import show, show_facts, show_json, show_table
from loader.common_options import ConsumerSuffix, OptionalConfig, RunDir
from loader.declared import command as declare
from loader.errors import NoRun, UsageProblem
from loader.operations import build
from loader.run.log import Facts, Row
from loader.run.steps import Failure
from seeders.replica import plan, preparing
from seeders.replica import status as standing
from seeders.replica.status import Status
from seeders.replica.strategies import online, stopped


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
    if (config_path is None) == (consumer is None):
        raise UsageProblem(reason="give either --config (a stopped consumer) or --consumer (a running one)")
    suffix = base if suffix is None else suffix
    if consumer is not None:
        _online(consumer, online.run_dir_of(consumer, suffix, run_dir), as_json)
        return
    assert config_path is not None
    place = build.target_database(config_path, suffix, replace=False)
    directory = stopped.run_dir_of(run_dir, place)
    found, expected = standing.of_stopped(directory), plan.noted(directory)
    if as_json:
        show_json(_facts(found, expected))
        return
    _show_seed(found, expected)


def _facts(found: Status, expected: Mapping[str, float]) -> Facts:
    facts: Facts = {**msgspec.to_builtins(found), "steps": [step._asdict() for step in found.steps]}
    return {**facts, "planned": expected} if expected else facts


def _online(uri: str, directory: Path, as_json: bool) -> None:
    loads, leases = standing.loads_of(uri), standing.leases_of(uri)
    found = standing.of_online(directory, uri)
    if found is None and not loads and not leases:
        raise NoRun(path=directory)
    expected = plan.noted(directory) if found else {}
    if as_json:
        seed = _facts(found, expected) if found else None
        show_json(msgspec.to_builtins({"seed": seed, "loads": loads, "leases": leases}))
        return
    if found is not None:
        _show_seed(found, expected)
    _show_loads(loads)
    for one in leases:
        _show_lease(one)


def _show_steps(steps: Sequence[Row], expected: Mapping[str, float]) -> None:
    """What was done, and beside it what a plan had; then the steps of the plan that are left."""
    rows = []
    for step in steps:
        rate = units.rate(step.entries, step.seconds)
        rows.append((step.name, units.number(step.entries), units.duration(step.seconds), rate))
    if not expected:
        show_table(("step", "entries", "time", "entries/s"), rows)
        return
    done = [step.name for step in steps]
    rows += [(name, "", "", "") for name in expected if name not in done]
    beside = [(*row, units.duration(expected[row[0]]) if row[0] in expected else "") for row in rows]
    show_table(("step", "entries", "time", "entries/s", "planned"), beside)
    left = sum(seconds for name, seconds in expected.items() if name not in done)
    show(f"left by the plan: {units.duration(left)}")


def _show_seed(found: Status, expected: Mapping[str, float]) -> None:
    _show_steps(found.steps, expected)
    facts: dict[str, object] = {}
    if found.step is not None:
        facts["next" if found.process is None else "under way"] = found.step
    if found.entries is not None:
        facts["entries"] = _so_far(found.entries, found.expected)
    if found.process is not None:
        facts |= {} if found.rate is None else {"rate": f"{found.rate:,.0f} entries/s"}
        facts |= {} if found.left is None else {"time left": units.duration(found.left)}
    if found.failure is not None:
        facts |= {"error": _failure(found.failure), "failed at": units.moment(found.failure.at)}
        facts |= {"hint": found.failure.hint} if found.failure.hint else {}
    if not found.done:
        facts["last heard"] = f"{units.duration(found.heard)} ago"
    if found.process is not None:
        facts["process"] = found.process
    elif not found.done:
        how = "failed; once that is corrected," if found.failure else "interrupted;"
        facts["state"] = f"{how} the same `{found.verb}` command resumes"
    if found.done:
        show("finished")
    show_facts(facts)


def _failure(failure: Failure) -> str:
    return f"{failure.message} [{failure.code}]"


def _show_loads(loads: Sequence[Facts]) -> None:
    rows = []
    for one in loads:
        failure = one["failure"]
        how = f"failed: {_failure(failure)}; once that is corrected," if failure else "interrupted;"
        state = one["process"] or f"{how} the same command resumes"
        is_moving = one["process"] is not None and not one["done"]
        rate = f"{one['rate']:,.0f}/s" if is_moving and one["rate"] else "-"
        left = units.duration(one["left"]) if is_moving and one["left"] is not None else "-"
        so_far, heard = _so_far(one["entries"], one["expected"]), units.duration(one["heard"])
        shown = (so_far, rate, left, f"{heard} ago", "finished" if one["done"] else state)
        rows.append((" ".join(one["inputs"]), *shown))
    if rows:
        show_table(("add", "entries", "entries/s", "time left", "last heard", "process"), rows)


def _show_lease(one: Facts) -> None:
    held = f"process {one['process']} will reset it" if one["process"] else "nothing will reset it"
    if one["kind"] == preparing.KIND:
        show(f"session log of {one['database']} set at {one['taken']} by --prepare-provider")
        show(f"  to restore what was before: {one['undo']}")
        return
    show(f"{one['kind']} of {one['database']} since {one['taken']}: {held}")
    if one["undo"]:
        show(f"  the next run does, or by hand: {one['undo']}")


def _so_far(entries: int, expected: int | None) -> str:
    if not expected:
        return units.number(entries)
    return f"{units.number(entries)} of {units.number(expected)} ({100 * entries // expected} %)"
