"""ditseed replica: seed a new replica, look at a seeding, hold the replica against its provider."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from loader import errors, resources, units
from loader.cli import access, options
from loader.cli.report import for_people, show, show_facts, show_json
from loader.cli.vocabulary import Option
from loader.errors import UsageProblem
from loader.operations.compare import CompareReport, Sample
from loader.progress import Progress
from loader.run.catalogue import Facts
from loader.server.options import Connection
from seeders.replica import online, preparing
from seeders.replica import seed as seeding
from seeders.replica import verify as checking
from seeders.replica.online import OnlineOptions
from seeders.replica.preparing import Admin
from seeders.replica.refresh_cmd import command as refresh
from seeders.replica.release_cmd import command as release
from seeders.replica.seed import SeedOptions, Strategy
from seeders.replica.status_cmd import command as status
from seeders.replica.strategies import clone, ldif, search
from seeders.replica.verify import VerifyOptions

ONLINE = "online"
_STRATEGIES: dict[str, Strategy] = {"search": search.run, "ldif": ldif.run, "clone": clone.run}
Function = TypeVar("Function", bound=Callable[..., Any])


def _consumer_options(required: bool) -> Callable[[Function], Function]:
    """The running replica: where it is, and how to bind there."""
    return options.stack(
        click.option(
            "--consumer",
            "consumer_uri",
            metavar="URI",
            required=required,
            help="URI of the replica: ldap://, ldaps:// or ldapi://.",
        ),
        access.second_options("the replica"),
    )


def _account_options(name: str, purpose: str) -> Callable[[Function], Function]:
    """As whom the provider is prepared."""
    return options.stack(
        click.option(
            f"--{name}-bind-dn",
            metavar="DN",
            help=f"Bind DN for {purpose} (default: -D).",
            cls=Option,
            former=(f"--{name}-dn",),
        ),
        click.option(
            f"--{name}-password-file",
            metavar="FILE",
            help=f"Password file for --{name}-bind-dn (default: -y).",
        ),
    )


def _consumer_of(provider: Connection, given: dict[str, Any]) -> Connection | None:
    """Take the consumer's options out of a command's arguments."""
    uri, bound = given.pop("consumer_uri"), access.second_of(provider, given)
    return None if uri is None else dataclasses.replace(bound, uri=uri)


def _admin_of(provider: Connection, given: dict[str, Any]) -> Admin | None:
    """As whom the provider is prepared; None: it is not."""
    wanted = given.pop("prepare_provider")
    config, data = (
        _bound_as(provider, given.pop(f"{name}_bind_dn"), given.pop(f"{name}_password_file"))
        for name in ("config", "admin")
    )
    if wanted and provider.uri is None:
        raise UsageProblem(reason="--prepare-provider needs the provider: -H URI")
    return Admin(config, data) if wanted else None


def _bound_as(provider: Connection, bind_dn: str | None, file: str | None) -> Connection:
    if bind_dn is None:
        return provider
    sasl = dataclasses.replace(provider.sasl, authcid=None)
    return dataclasses.replace(
        provider,
        bind_dn=bind_dn,
        password_file=file or provider.password_file,
        mechanism=None,
        sasl=sasl,
    )


@click.group("replica")
def command() -> None:
    """Set up a new replica: seed it, follow the seeding, verify the result.

    \b
    The runbook:
      1. On the consumer: install slapd with its configuration (schema, syncrepl, indexes), and stop it.
      2. ditseed replica seed --strategy search|ldif|clone ... --config /etc/ldap/slapd.d
      3. Start slapd: syncrepl fetches what changed meanwhile.
      4. ditseed replica verify -H ldap://provider --consumer ldap://consumer ...
    """


@command.command("seed")
@click.option(
    "--strategy",
    type=click.Choice([*seeding.STRATEGIES, ONLINE]),
    required=True,
    help="Source of the entries: a search, LDIF or a database directory; online loads into a running consumer.",
)
@access.providers_options_beside_w
@options.optional_config_option
@options.consumer_suffix_option
@_consumer_options(required=False)
@click.option(
    "--from",
    "source",
    multiple=True,
    type=click.Path(path_type=Path, readable=False),
    help="ldif, online: LDIF files or an export directory; clone: a database directory.",
)
@click.option(
    "--prepare-provider",
    is_flag=True,
    help="Prepare the provider so that it sends the replica only what changed: set a session log, and make a few "
    "writes that change nothing.",
)
@_account_options("admin", "the writes of --prepare-provider")
@_account_options("config", "changing the provider's cn=config")
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
    help="Seed even if the account cannot read all values, or cannot read them as they are stored.",
)
@click.option(
    "--keep-export",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="search: export into DIR first, build from the export, and keep it.",
)
@access.reading_options(
    "Number of parallel connections to each provider (default: one per processor, at most 4).",
    "search, online: ",
)
@click.option(
    "--nosync",
    is_flag=True,
    help="online: switch nosync on during the load, as `ditseed add --nosync`.",
)
@options.run_dir_option()
@options.dry_run_option
@options.timeout_option
@options.restart_option
@options.progress_option
@options.json_option
def seed(
    config_path: Path | None,
    suffix: str | None,
    dry_run: bool,
    timeouts: tuple[str, ...],
    restart: bool,
    progress_mode: str,
    as_json: bool,
    **seeding_options: Any,
) -> None:
    """Fill a consumer's empty database, so that its own syncrepl only fetches what has changed since.

    The consumer's slapd is stopped, and --config is its configuration. With --strategy online it is running
    (--consumer URI), has no syncrepl yet, and gets the entries over LDAP. -H -D -y -b are for the provider. After an
    interruption the same command resumes; once it has finished, it does nothing.

    Before reading, it reports what the provider will send when the replica is started (the changes, the entryUUIDs of
    all entries, or every entry), how long that takes, and how to improve it (docs/catch-up.md).

    \b
    Examples:
      ditseed replica seed --strategy search -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --config /etc/ldap/slapd.d
      ditseed replica seed --strategy ldif --from /srv/export --config /etc/ldap/slapd.d
      ditseed replica seed --strategy clone --from /mnt/provider/var/lib/ldap -H ldap://provider \\
          -D cn=replicator,dc=example,dc=com -y /root/replicator.pw --config /etc/ldap/slapd.d
      ditseed replica seed --strategy online -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --consumer ldapi:/// --consumer-mechanism EXTERNAL
    """
    connection, replicas = access.providers_of(seeding_options)
    if seeding_options["strategy"] != "search" and not options.is_given("uris"):
        replicas = ()  # several in a profile serve the other verbs
    if replicas and seeding_options["strategy"] != "search":
        raise UsageProblem(reason="-H several times is for --strategy search")
    seeding_options["jobs"] = seeding_options["jobs"] or resources.connections()
    consumer = _consumer_of(connection, seeding_options)
    nosync = seeding_options.pop("nosync")
    seeding_options["admin"] = _admin_of(connection, seeding_options)
    progress = options.progress_of(progress_mode)
    if seeding_options["strategy"] == ONLINE:
        asked_online = _online(connection, consumer, suffix, nosync, seeding_options)
        _show(_seed_online(asked_online, (dry_run, timeouts, restart), progress), as_json)
        return
    if config_path is None or options.is_given("consumer_uri") or options.is_given("nosync"):
        raise UsageProblem(
            reason="give --config of the stopped consumer; --consumer and --nosync are for --strategy online"
        )
    asked = SeedOptions(
        config_path=config_path,
        suffix=connection.base if suffix is None else suffix,
        connection=connection if connection.uri else None,
        replicas=replicas,
        **seeding_options,
    )
    if dry_run:
        facts = seeding.plan(asked, progress)
    else:
        facts = seeding.seed(
            asked,
            _STRATEGIES[asked.strategy],
            progress,
            options.timeouts_of(timeouts, seeding.STEPS),
            restart,
        )
    _show(facts, as_json)


def _online(
    connection: Connection,
    consumer: Connection | None,
    suffix: str | None,
    nosync: bool,
    given: Mapping[str, Any],
) -> OnlineOptions:
    """The options of --strategy online."""
    if consumer is None:
        raise UsageProblem(reason="--strategy online needs the running consumer: --consumer URI")
    same = ("source", "run_dir", "jobs", "pieces", "page", "allow_hidden", "admin")
    return OnlineOptions(
        consumer=dataclasses.replace(consumer, base=connection.base if suffix is None else suffix),
        provider=connection if connection.uri else None,
        nosync=nosync,
        **{name: given[name] for name in same},
    )


def _seed_online(
    asked: OnlineOptions, how: tuple[bool, tuple[str, ...], bool], progress: Progress
) -> Facts:
    dry_run, timeouts, restart = how
    if dry_run:
        return online.plan(asked, progress)
    return online.seed(asked, progress, options.timeouts_of(timeouts, online.STEPS), restart)


def _show(facts: Facts, as_json: bool) -> None:
    if as_json:
        show_json(facts)
    else:
        show_facts(for_people(facts))


command.add_command(status)
command.add_command(release)
command.add_command(refresh)


@command.command("verify")
@access.connection_options
@_consumer_options(required=True)
@options.optional_config_option
@click.option(
    "--wait",
    metavar="SECONDS",
    help="How long to wait for the replica to catch up (default: derived from what the provider has to send).",
)
@options.limit_option(20, "Number of differing entries to name.")
@options.progress_option
@options.json_option
def verify(
    config_path: Path | None,
    wait: str | None,
    limit: int,
    progress_mode: str,
    as_json: bool,
    **connecting: Any,
) -> int:
    """Wait until the replica has caught up, then compare every entry with the provider (-H -D -y -b).

    While waiting it shows what the provider is sending, the contextCSN of both and how far the replica is behind; also
    the phase of the replica's syncrepl, if the bind DN may read cn=Monitor there.

    Of a partial replica, only what its syncrepl selects is compared: as its cn=config says, where the bind DN may read
    it, or --config.

    Exit status: 0 equal, 1 different, 30 a server cannot be reached, 38 the replica did not catch up.

    \b
    Example:
      ditseed replica verify -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --consumer ldap://new-replica
    """
    provider = access.connection_of(connecting)
    consumer = _consumer_of(provider, connecting)
    assert consumer is not None
    seconds = None if wait is None else units.parse_duration(wait)
    asked = VerifyOptions(provider, consumer, config_path, seconds, limit)
    waited, report, how = checking.verify(asked, options.progress_of(progress_mode))
    if as_json:
        show_json(
            {
                "waited": waited,
                "compared_as": how,
                **dataclasses.asdict(report),
                "equal": report.equal,
            }
        )
    else:
        show_facts({"compared as": how, **_compared(waited, report)})
        show(*_how_to_see(report), *preparing.standing(provider.uri or ""))
    return errors.EXIT_OK if report.equal else errors.EXIT_DIFFERENT


def _compared(waited: float, report: CompareReport) -> dict[str, object]:
    return {
        "caught up after": units.duration(waited),
        "entries": f"{report.a.entries:,} and {report.b.entries:,}",
        "checksums": f"{report.a.checksum} and {report.b.checksum}",
        "differences": f"{report.only_a + report.only_b + report.changed:,}",
        **{f"{number}: {_KINDS[one.kind]}": _named(one) for number, one in _numbered(report)},
        **(
            {"not compared": f"{', '.join(report.local)}: each server keeps them for itself"}
            if report.local
            else {}
        ),
        **{f"note {number}": one for number, one in enumerate(report.notes, 1)},
        "verdict": _verdict(report),
    }


_KINDS = {"only-a": "missing", "only-b": "only on the replica", "changed": "differs"}


def _numbered(report: CompareReport) -> Iterator[tuple[int, Sample]]:
    return enumerate(report.samples, 1)


def _named(one: Sample) -> str:
    return f"{one.dn} ({', '.join(one.attributes)})" if one.attributes else one.dn


def _verdict(report: CompareReport) -> str:
    if report.equal:
        return "equal"
    if report.equal_but_for:
        return f"NOT compared in {', '.join(report.equal_but_for)}; equal in everything else"
    return "NOT equal"


def _how_to_see(report: CompareReport) -> Iterator[str]:
    """Of attributes that differ because one of the servers hides them."""
    if not report.equal_but_for:
        return
    for one in report.hidden:
        names = ", ".join(one.attributes)
        yield (
            f"{names}: hidden, not missing, as far as can be told without reading it: {one.location} does not show "
            f"it to {one.who}, and every entry has the same entryCSN on both sides."
        )
        yield (
            "  To compare it too, bind as somebody who may read it (--consumer-bind-dn, --consumer-password-file), or "
            f"add this as the first rule of the database on {one.location}: olcAccess: {one.rule}"
        )
