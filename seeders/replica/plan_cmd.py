"""ditseed replica plan: which strategy to seed a replica by, and how long that will take."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import click

from loader import resources, units
from loader.cli import access
from loader.cli.access import Consumer, Server
from loader.cli.options import Shown
from loader.cli.report import show, show_facts, show_json, show_table
from loader.declared import command as declare
from loader.errors import EXIT_DIFFERENT, UsageProblem
from loader.sources.location import Kind, locate
from seeders.replica.planning import making
from seeders.replica.planning import plan as plans
from seeders.replica.planning.making import PlanOptions
from seeders.replica.planning.plan import SeedPlan, StrategyPlan
from seeders.replica.strategies import SeedOptions, SeedRules

_UNKNOWN = "not known"
_NOT_ASKED = "it needs other options"


@declare("plan")
def command(
    server: Server,
    source: Annotated[
        tuple[str, ...],
        "--from",
        "LDIF or an export (ldif, online), or the provider's database directory (clone). Repeat it for both.",
    ],
    rules: SeedRules,
    at: Consumer,
    output: Annotated[
        Path | None, "-o --output FILE", "Write the plan into FILE, for `ditseed replica seed --plan FILE`."
    ],
    shown: Shown,
) -> None:
    """Measure, and say which strategy to seed a replica by, how long each step will take, and why others cannot be
    taken.

    It takes what `ditseed replica seed` takes, and makes the same checks. It reads the provider for three seconds,
    builds a sample of what came with the consumer's configuration, and copies a part of the database if --from names
    one. Nothing is changed. If no strategy can be carried out, it exits with status 1.

    \b
    Examples:
      ditseed replica plan -H ldap://provider -D cn=replicator,dc=example,dc=com -y /root/replicator.pw \\
          --config /etc/ldap/slapd.d -o /root/replica.plan
      ditseed replica plan -H ldap://provider -D cn=replicator,dc=example,dc=com -y /root/replicator.pw \\
          --config /etc/ldap/slapd.d --from /mnt/provider/var/lib/ldap --from /srv/export
      ditseed replica seed --plan /root/replica.plan -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --config /etc/ldap/slapd.d
    """
    found = [locate(text, Kind.LDIF, Kind.DATABASE) for text in source]
    connection = access.connection_of(server)
    asked = SeedOptions(
        **{
            **vars(rules),
            "suffix": connection.base if rules.suffix is None else rules.suffix,
            "jobs": rules.jobs or resources.connections(),
        },
        connection=connection if connection.uri else None,
        consumer=access.consumer_of(connection, at),
    )
    ldif, databases = (
        tuple(path for one in found if one.kind is kind for path in one.paths) for kind in (Kind.LDIF, Kind.DATABASE)
    )
    made = making.make(PlanOptions(asked, ldif, databases), shown.progress)
    if output is not None:
        plans.write(made, output)
    if shown.as_json:
        show_json(dataclasses.asdict(made))
    else:
        _tell(made)
        if output is not None and made.chosen:
            show("", f"carry it out with: {_command(made, output)}")
    if made.chosen is None:
        click.get_current_context().exit(EXIT_DIFFERENT)


def _tell(plan: SeedPlan) -> None:
    chosen = plan.choice
    show_facts(dict(_head(plan)))
    show("")
    headings = ("strategy", "feasible", "time", "disk", "provider sends", "then, to catch up")
    show_table(headings, [_row(one) for one in plan.strategies])
    for one in plan.strategies:
        show("", *_refused(one)) if not one.feasible else None
    if chosen is not None:
        _tell_steps(chosen)
        for note in chosen.notes:
            show("", *note.split("\n"))


def _head(plan: SeedPlan) -> Iterator[tuple[str, object]]:
    yield "take", f"--strategy {plan.chosen}" if plan.chosen else "none"
    yield "why", plan.why
    yield "suffix", plan.suffix
    if plan.entries is not None:
        yield "entries", units.number(plan.entries)
    for line in plan.measured:
        what, _, found = line.partition(": ")
        yield what, found


def _row(one: StrategyPlan) -> tuple[str, ...]:
    if not one.feasible:
        why = _NOT_ASKED if one.refused == UsageProblem.code else one.refused
        return (one.strategy, f"no: {why}", "", "", "", "")
    seconds = _UNKNOWN if one.seconds is None else units.duration(one.seconds)
    disk = _UNKNOWN if one.disk is None else units.size(one.disk)
    load = one.load
    sent = (
        f"{units.size(load.bytes)} over {load.connections} connections, "
        f"{units.number(round(load.entries_per_second))} entries/s"
        if load
        else "nothing"
    )
    return (one.strategy, "yes", seconds, disk, sent, _catch_up(one))


def _catch_up(one: StrategyPlan) -> str:
    if one.loses_deletions:
        return "NO deletions"
    return "what changed" if one.only_changes else one.catch_up.partition(":")[0]


def _refused(one: StrategyPlan) -> Iterator[str]:
    yield f"{one.strategy} cannot be taken: {one.reason}"
    if one.advice:
        yield f"  {one.advice}"


def _tell_steps(chosen: StrategyPlan) -> None:
    show("")
    rows = [(one.name, units.duration(one.seconds), units.duration(one.timeout), one.why) for one in chosen.steps]
    show_table(("step", "planned", "timeout", "because"), rows, f"steps of {chosen.strategy}")


def _command(plan: SeedPlan, path: object) -> str:
    """What carries it out; the options of the connection and --config as they were given for the plan."""
    return shlex.join(["ditseed", "replica", "seed", "--plan", str(path)]) + " ..."
