"""ditseed replica seed: fill the database of a new replica, or measure which strategy to fill it by."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from click import Choice

from loader import resources, units
from loader.cli import access
from loader.cli.access import Consumer, Servers
from loader.cli.options import RecordedRun, is_given, note, refuse_given
from loader.cli.report import for_people, show, show_facts, show_json, show_table
from loader.declared import command as declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK, UsageProblem
from loader.server.options import Connection
from seeders.replica import seed as seeding
from seeders.replica.plan import FollowedPlan, SeedPlan, StrategyPlan
from seeders.replica.preparing import Admin
from seeders.replica.seed import OPTIONAL, STRATEGIES
from seeders.replica.strategies import SeedOptions

_OF_CONSUMER = ("uri", "bind_dn", "password_file", "mechanism")
# The parameters of a field of SeedOptions, if they have other names.
_PARAMETERS = {"consumer": tuple(f"consumer_{name}" for name in _OF_CONSUMER), "replicas": ()}
_READING = ("jobs", "pieces", "page")
_UNKNOWN = "not known"
_OTHER_OPTIONS = "it needs other options"


@dataclass(frozen=True, kw_only=True)
class _Entries:
    """Where they come from."""

    strategy: Annotated[
        str | None,
        Choice(list(STRATEGIES)),
        "Source of the entries: a search, LDIF or a database directory; online loads into a running consumer (default: "
        "that of --plan; with --dry-run, each is tried).",
    ] = None
    plan_path: Annotated[
        Path | None, "--plan FILE", "Carry out a plan of --dry-run -o FILE: its strategy, --from and timeouts."
    ] = None
    output: Annotated[Path | None, "-o --output FILE", "With --dry-run: write the plan into FILE, for --plan."] = None
    source: Annotated[
        tuple[Path, ...], "--from", "ldif, online: LDIF files or an export directory; clone: a database directory."
    ] = ()


@dataclass(frozen=True, kw_only=True)
class _Preparing:
    """As whom the provider is prepared."""

    prepare_provider: Annotated[
        bool,
        "Prepare the provider so that it sends the replica only what changed: set a session log, and make a few writes "
        "that change nothing.",
    ] = False
    admin_bind_dn: Annotated[
        str | None, "--admin-bind-dn DN", "Bind DN for the writes of --prepare-provider (default: -D)."
    ] = None
    admin_password_file: Annotated[
        str | None, "--admin-password-file FILE", "Password file for --admin-bind-dn (default: -y)."
    ] = None
    config_bind_dn: Annotated[
        str | None, "--config-bind-dn DN", "Bind DN for changing the provider's cn=config (default: -D)."
    ] = None
    config_password_file: Annotated[
        str | None, "--config-password-file FILE", "Password file for --config-bind-dn (default: -y)."
    ] = None

    def admin(self, provider: Connection) -> Admin | None:
        """None without --prepare-provider."""
        if not self.prepare_provider:
            return None
        if provider.uri is None:
            raise UsageProblem(reason="--prepare-provider needs the provider: -H URI")
        config, data = (access.second_of(provider, self, name) for name in ("config", "admin"))
        return Admin(config, data)


@declare("seed")
def command(
    entries: _Entries, servers: Servers, options: SeedOptions, at: Consumer, preparing: _Preparing, run: RecordedRun
) -> int:
    """Fill a consumer's empty database, so that its own syncrepl only fetches what has changed since.

    The consumer's slapd is stopped, and --config is its configuration. With --strategy online it is running
    (--consumer URI), has no syncrepl yet, and gets the entries over LDAP. -H -D -y -b are for the provider. After an
    interruption the same command resumes; once it has finished, it does nothing.

    Before reading, it reports what the provider will send when the replica is started (the changes, the entryUUIDs of
    all entries, or every entry), how long that takes, and how to improve it (docs/catch-up.md).

    --dry-run makes all checks, and predicts the time of each step. For that it reads the provider for three seconds,
    builds a sample of what came with the consumer's configuration, and copies a part of the database if --from names
    one. Without --strategy it does so for each, and says which to take and why others cannot be taken; if none can, it
    exits with status 1.

    \b
    Examples:
      ditseed replica seed --strategy search -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --config /etc/ldap/slapd.d
      ditseed replica seed --strategy ldif --from /srv/export --config /etc/ldap/slapd.d
      ditseed replica seed --strategy clone --from /mnt/provider/var/lib/ldap -H ldap://provider \\
          -D cn=replicator,dc=example,dc=com -y /root/replicator.pw --config /etc/ldap/slapd.d
      ditseed replica seed --strategy online -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --consumer ldapi:/// --consumer-mechanism EXTERNAL
      ditseed replica seed --dry-run -o /root/replica.plan -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --config /etc/ldap/slapd.d --from /mnt/provider/var/lib/ldap --from /srv/export
      ditseed replica seed --plan /root/replica.plan -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --config /etc/ldap/slapd.d
    """
    followed = FollowedPlan.read(entries.plan_path, entries.strategy) if entries.plan_path else None
    name = followed.row.strategy if followed else entries.strategy
    if not run.dry_run:
        _refuse_trying(name, entries.output)
    source = entries.source or (tuple(map(Path, followed.row.source)) if followed else ())
    if name is not None:
        _refuse_unfitting(STRATEGIES[name].takes, source, len(servers.uris))
    timeouts = run.timeouts_of(_steps(name))
    connection, replicas = access.providers_of(servers)
    options = dataclasses.replace(
        options,
        source=source,
        suffix=connection.base if options.suffix is None else options.suffix,
        connection=connection if connection.uri else None,
        replicas=replicas,
        consumer=access.consumer_of(connection, at),
        admin=preparing.admin(connection),
        jobs=options.jobs or resources.connections(),
    )
    if name is not None:
        options = seeding.options_of(name, options)
    if followed:
        followed.require_same(options)
    if run.dry_run:
        return _try(options, run, entries.output)
    seconds: dict[str, float] = {}
    if followed:
        timeouts, seconds = followed.timeouts(timeouts), followed.seconds
        note({}, seconds)
    facts = seeding.seed(options, run.progress, timeouts, run.restart, seconds)
    note(facts)
    if run.as_json:
        show_json(facts)
    else:
        show_facts(for_people(facts))
    return EXIT_OK


def _steps(name: str | None) -> tuple[str, ...]:
    """That --timeout may name: a profile serves all strategies."""
    strategies = [STRATEGIES[name]] if name is not None and is_given("timeouts") else STRATEGIES.values()
    return tuple(dict.fromkeys(step for strategy in strategies for step in strategy.steps))


def _refuse_trying(name: str | None, output: Path | None) -> None:
    if name is None:
        raise UsageProblem(reason="give --strategy, or --plan FILE of `ditseed replica seed --dry-run -o FILE`")
    if output is not None:
        raise UsageProblem(reason="-o is only for --dry-run")


def _refuse_unfitting(takes: Collection[str], source: tuple[Path, ...], providers: int) -> None:
    """Options on the command line that the chosen strategy does not take. A profile serves all strategies."""
    for field in sorted(OPTIONAL - set(takes)):
        takers = ", ".join(name for name, one in STRATEGIES.items() if field in one.takes)
        refuse_given(_PARAMETERS.get(field, (field,)), f"--strategy {takers}")
    if "replicas" not in takes and providers > 1 and is_given("uris"):
        raise UsageProblem(reason="-H several times is only for --strategy search")
    if source:
        refuse_given(_READING, "reading a provider (-H), not LDIF (--from)")


def _try(options: SeedOptions, run: RecordedRun, output: Path | None) -> int:
    from seeders.replica.dry_run import dry_run  # a seeding does not need it

    plan, facts = dry_run(options, run.progress)
    if output is not None:
        plan.write(output)
    if run.as_json:
        show_json({**dataclasses.asdict(plan), **facts})
        return EXIT_OK if plan.chosen else EXIT_DIFFERENT
    take = {"take": f"--strategy {plan.chosen}" if plan.chosen else "none", "why": plan.why}
    show_facts({**({} if options.strategy else take), **for_people(facts), **plan.measured})
    _show_strategies(plan)
    if output is not None and plan.chosen:
        command = shlex.join(["ditseed", "replica", "seed", "--plan", str(output)])
        show("", f"carry it out with: {command} ...")
    return EXIT_OK if plan.chosen else EXIT_DIFFERENT


def _show_strategies(plan: SeedPlan) -> None:
    show("")
    headings = ("strategy", "feasible", "time", "disk", "provider sends", "then, to catch up")
    show_table(headings, [_cells(row) for row in plan.strategies])
    for row in plan.strategies:
        show("", *_refusal(row)) if not row.feasible else None
    if plan.choice is None:
        return
    show("")
    steps = [(one.name, units.duration(one.seconds), units.duration(one.timeout), one.why) for one in plan.choice.steps]
    show_table(("step", "planned", "timeout", "because"), steps, f"steps of {plan.chosen}")
    for remark in plan.choice.notes:
        show("", *remark.split("\n"))


def _cells(row: StrategyPlan) -> tuple[str, ...]:
    if not row.feasible:
        reason = _OTHER_OPTIONS if row.refused == UsageProblem.code else row.refused
        return (row.strategy, f"no: {reason}", "", "", "", "")
    seconds = _UNKNOWN if row.seconds is None else units.duration(row.seconds)
    disk = _UNKNOWN if row.disk is None else units.size(row.disk)
    load = row.load
    sent = _UNKNOWN if row.strategy in ("search", "online") else "nothing"
    if load:
        rate = units.number(round(load.entries_per_second))
        sent = f"{units.size(load.bytes)} over {load.connections} connections, {rate} entries/s"
    return (row.strategy, "yes", seconds, disk, sent, _catch_up(row))


def _catch_up(row: StrategyPlan) -> str:
    if row.loses_deletions:
        return "NO deletions"
    return "what changed" if row.only_changes else row.catch_up.partition(":")[0]


def _refusal(row: StrategyPlan) -> Iterator[str]:
    yield f"{row.strategy} cannot be taken: {row.reason}"
    if row.advice:
        yield f"  {row.advice}"
