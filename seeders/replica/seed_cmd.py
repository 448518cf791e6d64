"""ditseed replica seed: fill the database of a new replica, or measure which strategy to fill it by."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from click import Choice

from loader import defaults, units
from loader.cli import access
from loader.cli.access import Consumer, Servers
from loader.cli.options import RecordedRun, is_given, note, refuse_given
from loader.cli.report import readable_facts, show, show_facts, show_json, show_report, show_table
from loader.declared import command as declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK, UsageProblem
from seeders.replica.options import STRATEGY_NAMES, SeedOptions

# Command-line parameters of those SeedOptions fields whose names differ from the parameter's.
_PARAMETERS = {
    "consumer": ("consumer_uri", "consumer_bind_dn", "consumer_password_file", "consumer_mechanism"),
    "replicas": (),
}


@dataclass(frozen=True, kw_only=True)
class _Entries:
    strategy: Annotated[
        str | None,
        Choice(STRATEGY_NAMES),
        "Source of the entries: a search, LDIF or a database directory; online loads into a running consumer (with "
        "--dry-run, the default is to try each).",
    ] = None
    source: Annotated[
        tuple[Path, ...], "--from", "ldif, online: LDIF files or an export directory; clone: a database directory."
    ] = ()
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


@declare("seed")
def command(entries: _Entries, servers: Servers, options: SeedOptions, at: Consumer, run: RecordedRun) -> int:
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
      ditseed replica seed --dry-run -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --config /etc/ldap/slapd.d --from /mnt/provider/var/lib/ldap --from /srv/export
    """
    from seeders.replica import seed

    name, source = entries.strategy, entries.source
    if name is None and not run.dry_run:
        raise UsageProblem(reason="give --strategy; `ditseed replica seed --dry-run` tells which")
    if name is not None:
        _refuse_unfitting(seed.STRATEGIES[name].takes, source, len(servers.uris))
    # Step names in a profile's timeouts may be of any strategy; those on the command line must fit this one.
    names = [name] if name is not None and is_given("timeouts") else STRATEGY_NAMES
    timeouts = run.timeouts_of(tuple(dict.fromkeys(step for each in names for step in seed.STRATEGIES[each].steps)))
    connection, replicas = access.providers_of(servers)
    admin = None
    if entries.prepare_provider:
        if connection.uri is None:
            raise UsageProblem(reason="--prepare-provider needs the provider: -H URI")
        admin = access.second_of(connection, entries, "config"), access.second_of(connection, entries, "admin")
    options = dataclasses.replace(
        options,
        source=source,
        suffix=connection.base if options.suffix is None else options.suffix,
        connection=connection if connection.uri else None,
        replicas=replicas,
        consumer=access.consumer_of(connection, at),
        admin=admin,
        jobs=options.jobs or defaults.connections(),
    )
    if name is not None:
        options = seed.options_of(name, options)
    if run.dry_run:
        return _try(options, run)
    facts = seed.seed(options, run.progress, timeouts, run.restart)
    note(facts)
    show_report(facts, run.as_json)
    return EXIT_OK


def _refuse_unfitting(takes: Collection[str], source: tuple[Path, ...], providers: int) -> None:
    """Refuses options on the command line that the strategy does not accept; a profile may contain those of others."""
    from seeders.replica.seed import OPTIONAL, STRATEGIES

    for field in sorted(OPTIONAL - set(takes)):
        takers = ", ".join(name for name, strategy in STRATEGIES.items() if field in strategy.takes)
        refuse_given(_PARAMETERS.get(field, (field,)), f"--strategy {takers}")
    if "replicas" not in takes and providers > 1 and is_given("uris"):
        raise UsageProblem(reason="-H several times is only for --strategy search")
    if source:
        refuse_given(("jobs", "pieces", "page"), "reading a provider (-H), not LDIF (--from)")


def _try(options: SeedOptions, run: RecordedRun) -> int:
    from seeders.replica.dry_run import dry_run  # imported here because only a dry run needs it

    plan = dry_run(options, run.progress)
    choice, status = plan.chosen, EXIT_OK if plan.chosen else EXIT_DIFFERENT
    if run.as_json:
        show_json(plan.as_json())
        return status
    take = {"take": f"--strategy {choice.strategy}" if choice else "none", "why": plan.why}
    show_facts({**({} if options.strategy else take), **readable_facts(plan.facts), **plan.measured})
    table = []
    for row in plan.strategies:
        catch_up = "what changed" if row.only_changes else row.catch_up.partition(":")[0]
        reason = "it needs other options" if row.refused == UsageProblem.code else row.refused
        cells = (
            "yes",
            "not known" if row.seconds is None else units.duration(row.seconds),
            "not known" if row.disk is None else units.size(row.disk),
            "NO deletions" if row.loses_deletions else catch_up,
        )
        table.append((row.strategy, *(cells if row.feasible else (f"no: {reason}", "", "", ""))))
    show("")
    show_table(("strategy", "feasible", "time", "disk", "sent at the start of slapd"), table)
    for row in plan.strategies:
        if not row.feasible:
            show("", f"{row.strategy} cannot be taken: {row.reason}", *([f"  {row.advice}"] if row.advice else []))
    if choice:
        show("")
        steps = [(step.name, units.duration(step.seconds), step.why) for step in choice.steps]
        show_table(("step", "planned", "because"), steps, f"long steps of {choice.strategy}")
        for remark in choice.notes:
            show("", *remark.split("\n"))
        if not options.strategy:
            sources = [word for path in choice.source for word in ("--from", path)]
            command = shlex.join(["ditseed", "replica", "seed", "--strategy", choice.strategy, *sources])
            show("", f"carry it out with: {command} ...")
    return status
