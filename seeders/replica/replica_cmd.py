"""ditseed replica: seed a new replica, show a seeding's progress, compare the replica with its provider."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import click
from msgspec import structs

from loader import errors, units
from loader.cli import access
from loader.cli.access import Consumer, ConsumerUri, Server
from loader.cli.options import Json, Run, Shown
from loader.cli.report import show, show_facts, show_json, show_report
from loader.declared import command as declare
from loader.errors import UsageProblem
from seeders.replica import seed_cmd, status_cmd
from seeders.replica.options import RefreshOptions, VerifyOptions

_KINDS = {"only-a": "missing", "only-b": "only on the replica", "changed": "differs"}


@click.group("replica")
def command() -> None:
    """Set up a new replica: seed it, follow the seeding, verify the result.

    \b
    The runbook:
      1. On the consumer: install slapd with its configuration (schema, syncrepl, indexes), and stop it.
      2. ditseed replica seed --dry-run ... --config /etc/ldap/slapd.d: which strategy, and how long it takes.
      3. ditseed replica seed --strategy search|ldif|clone ... --config /etc/ldap/slapd.d
      4. Start slapd: syncrepl fetches what changed meanwhile.
      5. ditseed replica verify -H ldap://provider --consumer ldap://consumer ...
    """


@declare("release")
def release(
    server: Server,
    forget: Annotated[bool, "Ask no server: forget what was left at one that is gone for good."],
    as_json: Json,
) -> None:
    """Restore the provider's session log to what it was before `replica seed --prepare-provider`.

    Only once the replica has caught up (ditseed replica verify). It is better to keep the session log: without one,
    every consumer that reconnects is sent the entryUUIDs of all entries. -H is the provider, by any of its URIs, on
    the host where the seeding ran.

    Every verb reminds of what a run has left set on a server. If that server is gone for good, --forget with the -H of
    the reminder ends that; nothing is put back anywhere.

    \b
    Examples:
      ditseed replica release -H ldap://provider -D cn=admin,cn=config -y /root/config.pw -b dc=example,dc=com
      ditseed replica release -H ldap://removed -b dc=example,dc=com --forget
    """
    from seeders.replica import prepare

    connection = access.connection_of(server)
    if not forget:
        done = prepare.release(connection, connection.base)
        name, none = "released", "nothing was set by --prepare-provider"
    elif connection.uri is None:
        raise UsageProblem(reason="--forget needs -H, the URI that the reminder names")
    else:
        done = prepare.forget(connection.uri, connection.base)
        name, none = "forgotten", f"nothing stands of {connection.uri}"
    show_report({name: done}, as_json, done or [none])


@declare("refresh")
def refresh(server: Server, options: RefreshOptions, run: Run) -> None:
    """Bring the database of a stopped consumer up to date, before its slapd starts.

    For a seed that has been waiting. The provider (-H -D -y) is asked for everything changed or deleted since the
    database's contextCSN, and all of it goes into the database in one transaction, with the new contextCSN. syncrepl
    then only has to fetch the last minutes. After an interruption the same command resumes; the database is either what
    it was or up to date.

    \b
    Example:
      ditseed replica refresh -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --config /etc/ldap/slapd.d
    """
    from seeders.replica import refresh as refreshing

    connection = access.connection_of(server)
    if not connection.uri:
        raise UsageProblem(reason="give the provider: -H URI")
    suffix = connection.base if options.suffix is None else options.suffix
    options = replace(options, connection=connection, suffix=suffix)
    if run.dry_run:
        facts = refreshing.plan(options)
    else:
        timeouts = run.timeouts_of(refreshing.STEPS)
        facts = refreshing.refresh(options, run.progress, timeouts, run.restart)
    show_report(facts, run.as_json)


@dataclass(frozen=True, kw_only=True)
class _Consumer(Consumer):
    consumer_uri: Annotated[ConsumerUri, {"required": True}] = None


@declare("verify")
def verify(server: Server, at: _Consumer, options: VerifyOptions, shown: Shown) -> int:
    """Wait until the replica has caught up, then compare every entry with the provider (-H -D -y -b).

    While waiting it shows what the provider is sending, the contextCSN of both and how far the replica is behind.

    Of a partial replica, only what its syncrepl selects is compared: as its cn=config says, where the bind DN may read
    it, or --config.

    Exit status: 0 equal, 1 different, 30 a server cannot be reached, 38 the replica did not catch up.

    \b
    Example:
      ditseed replica verify -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --consumer ldap://new-replica
    """
    from seeders.replica import prepare, waiting

    provider = access.connection_of(server)
    options = replace(options, provider=provider, consumer=access.consumer_of(provider, at) or provider)
    waited, report, how = waiting.verify(options, shown.progress)
    status = errors.EXIT_OK if report.equal else errors.EXIT_DIFFERENT
    if shown.as_json:
        show_json({"waited": waited, "compared_as": how, **structs.asdict(report), "equal": report.equal})
        return status
    facts: dict[str, object] = {
        "compared as": how,
        "caught up after": units.duration(waited),
        "entries": f"{report.a.entries:,} and {report.b.entries:,}",
        "checksums": f"{report.a.checksum} and {report.b.checksum}",
        "differences": f"{report.only_a + report.only_b + report.changed:,}",
    }
    for number, sample in enumerate(report.samples, 1):
        attributes = f" ({', '.join(sample.attributes)})" if sample.attributes else ""
        facts[f"{number}: {_KINDS[sample.kind]}"] = f"{sample.dn}{attributes}"
    if report.local:
        facts["not compared"] = f"{', '.join(report.local)}: each server keeps them for itself"
    facts |= {f"note {number}": note for number, note in enumerate(report.notes, 1)}
    facts["verdict"] = "equal" if report.equal else "NOT equal"
    if not report.equal and report.equal_but_for:
        facts["verdict"] = f"NOT compared in {', '.join(report.equal_but_for)}; equal in everything else"
    show_facts(facts)
    for hidden in report.hidden if report.equal_but_for else ():
        show(
            f"{', '.join(hidden.attributes)}: hidden, not missing, as far as can be told without reading it: "
            f"{hidden.location} does not show it to {hidden.who}, and every entry has the same entryCSN on both sides.",
            "  To compare it too, bind as somebody who may read it (--consumer-bind-dn, --consumer-password-file), or "
            f"add this as the first rule of the database on {hidden.location}: olcAccess: {hidden.rule}",
        )
    show(*prepare.standing(provider.uri or ""))
    return status


for verb in (seed_cmd.command, status_cmd.command, release, refresh, verify):
    command.add_command(verb)
