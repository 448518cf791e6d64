"""ditseed replica plan: which strategy to seed a replica by, and how long that will take."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from loader import resources, units
from loader.cli import access, options
from loader.cli.report import show, show_facts, show_json, show_table
from loader.errors import EXIT_DIFFERENT, UsageProblem
from loader.sources.location import Kind, locate
from seeders.replica.planning import making
from seeders.replica.planning import plan as plans
from seeders.replica.planning.making import PlanOptions
from seeders.replica.planning.plan import SeedPlan, StrategyPlan
from seeders.replica.strategies import SeedOptions

_UNKNOWN = "not known"
_NOT_ASKED = "it needs other options"


@click.command("plan")
@access.connection_options_beside_w
@options.optional_config_option
@options.consumer_suffix_option
@access.consumer_options(required=False)
@click.option(
    "--from",
    "source",
    multiple=True,
    help="LDIF or an export (ldif, online), or the provider's database directory (clone). Repeat it for both.",
)
@options.engine_option
@options.placing_options
@options.verify_new_option()
@click.option(
    "-w",
    "--write-context-csn",
    "write_context",
    is_flag=True,
    help="ldif: compute contextCSN from the entries, as slapadd -w (for the output of slapcat only).",
)
@click.option(
    "--allow-hidden",
    is_flag=True,
    help="Plan even if the account cannot read all values, or cannot read them as they are stored.",
)
@access.reading_options(
    "Number of parallel connections to the provider (default: one per processor, at most 4).",
    "search, online: ",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, readable=False),
    metavar="FILE",
    help="Write the plan into FILE, for `ditseed replica seed --plan FILE`.",
)
@options.progress_option
@options.json_option
def command(
    output: Path | None,
    progress_mode: str,
    as_json: bool,
    **given: Any,
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
    made = making.make(_options_of(given), options.progress_of(progress_mode))
    if output is not None:
        plans.write(made, output)
    if as_json:
        show_json(dataclasses.asdict(made))
    else:
        _tell(made)
        if output is not None and made.chosen:
            show("", f"carry it out with: {_command(made, output)}")
    if made.chosen is None:
        click.get_current_context().exit(EXIT_DIFFERENT)


def _options_of(given: dict[str, Any]) -> PlanOptions:
    found = [locate(text, Kind.LDIF, Kind.DATABASE) for text in given.pop("source")]
    connection = access.connection_of(given)
    consumer, suffix = access.consumer_of(connection, given), given.pop("suffix")
    given["jobs"] = given["jobs"] or resources.connections()
    asked = SeedOptions(
        strategy="",
        suffix=connection.base if suffix is None else suffix,
        connection=connection if connection.uri else None,
        consumer=consumer,
        **given,
    )
    ldif = tuple(path for one in found if one.kind is Kind.LDIF for path in one.paths)
    databases = tuple(path for one in found if one.kind is Kind.DATABASE for path in one.paths)
    return PlanOptions(asked, ldif, databases)


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
    rows = [
        (one.name, units.duration(one.seconds), units.duration(one.timeout), one.why)
        for one in chosen.steps
    ]
    show_table(("step", "planned", "timeout", "because"), rows, f"steps of {chosen.strategy}")


def _command(plan: SeedPlan, path: object) -> str:
    """What carries it out; the options of the connection and --config as they were given for the plan."""
    return shlex.join(["ditseed", "replica", "seed", "--plan", str(path)]) + " ..."
