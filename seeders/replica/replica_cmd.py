"""ditseed replica: seed a new replica, look at a seeding, hold the replica against its provider."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from loader import errors, units
from loader.cli import options
from loader.cli.report import for_people, show, show_facts, show_json
from loader.errors import UsageProblem
from loader.operations.compare import CompareReport
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
from seeders.replica.seed import SeedOptions
from seeders.replica.status_cmd import command as status
from seeders.replica.strategies import BY_NAME
from seeders.replica.verify import VerifyOptions

ONLINE = "online"
Function = TypeVar("Function", bound=Callable[..., Any])


def _consumer_options(required: bool) -> Callable[[Function], Function]:
    """The running replica: where it is, and how to bind there."""
    return options.stack(
        click.option(
            "--consumer",
            "consumer_uri",
            metavar="URI",
            required=required,
            help="The replica: ldap://, ldapi:// ...",
        ),
        click.option("--consumer-dn", metavar="DN", help="Bind there as this DN (default: -D)."),
        click.option(
            "--consumer-password-file", metavar="FILE", help="Its password file (default: -y)."
        ),
        click.option(
            "--consumer-mechanism",
            metavar="MECH",
            help="SASL mechanism there (default: -Y, without --consumer-dn).",
        ),
    )


def _consumer_of(provider: Connection, given: dict[str, Any]) -> Connection | None:
    """Take the consumer's options out of a command's arguments; what they leave open is as for the provider."""
    uri, bind_dn, password_file, mechanism = (
        given.pop(f"consumer_{name}") for name in ("uri", "dn", "password_file", "mechanism")
    )
    if uri is None:
        return None
    return dataclasses.replace(
        provider,
        uri=uri,
        bind_dn=bind_dn or provider.bind_dn,
        password_file=password_file or provider.password_file,
        mechanism=mechanism or (None if bind_dn else provider.mechanism),
        sasl=dataclasses.replace(provider.sasl, authcid=None) if bind_dn else provider.sasl,
    )


def _admin_of(provider: Connection, given: dict[str, Any]) -> Admin | None:
    """As whom the provider is prepared; None: it is not."""
    wanted = given.pop("prepare_provider")
    config, data = (
        _bound_as(provider, given.pop(f"{name}_dn"), given.pop(f"{name}_password_file"))
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
    """Bootstrap a replica: seed it, follow the seeding, check the result.

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
    help="Where the entries come from.",
)
@options.providers_options
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
    help="Have the provider answer the replica with changes alone: set a session log, make writes that change nothing.",
)
@click.option("--admin-dn", metavar="DN", help="Make those writes as this DN (default: -D).")
@click.option("--admin-password-file", metavar="FILE", help="Its password file (default: -y).")
@click.option("--config-dn", metavar="DN", help="Change its cn=config as this DN (default: -D).")
@click.option("--config-password-file", metavar="FILE", help="Its password file (default: -y).")
@options.engine_option
@options.placing_options
@options.verify_option()
@click.option(
    "-w",
    "write_context",
    is_flag=True,
    help="ldif: take contextCSN from the entries (only for a slapcat).",
)
@click.option(
    "--allow-hidden",
    is_flag=True,
    help="Seed although the account is not shown all, or not as it is stored.",
)
@click.option(
    "--keep-export",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="search: read into an export in DIR first, build from that, and keep it.",
)
@options.reading_options("Connections to each provider side by side.", "search, online: ")
@click.option(
    "--nosync", is_flag=True, help="online: nosync meanwhile, as `ditseed add --nosync` has it."
)
@options.run_dir_option
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
    """Fill a consumer's empty database, so that its own syncrepl only fetches what changed since.

    The consumer is stopped, and --config is its configuration. With --strategy online it runs (--consumer URI), has no
    syncrepl yet, and gets the entries over LDAP. -H -D -y -b are the provider. Stopped at any moment, the same command
    goes on; once done, it does nothing.

    Before the entries are read it says what the provider will send when the replica is started: what changed, or the
    entryUUIDs of all entries, or every entry, and how long that takes; and how to mend it (docs/catch-up.md).

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
    connection, replicas = options.providers_of(seeding_options)
    if replicas and seeding_options["strategy"] != "search":
        raise UsageProblem(reason="-H several times is for --strategy search")
    consumer = _consumer_of(connection, seeding_options)
    nosync = seeding_options.pop("nosync")
    seeding_options["admin"] = _admin_of(connection, seeding_options)
    progress = options.progress_of(progress_mode)
    if seeding_options["strategy"] == ONLINE:
        asked_online = _online(connection, consumer, suffix, nosync, seeding_options)
        _show(_seed_online(asked_online, (dry_run, timeouts, restart), progress), as_json)
        return
    if config_path is None or consumer is not None or nosync:
        raise UsageProblem(
            reason="--config is the stopped consumer's; --consumer and --nosync are for --strategy online"
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
            BY_NAME[asked.strategy],
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
        return online.plan(asked)
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
@options.connection_options
@_consumer_options(required=True)
@options.optional_config_option
@click.option(
    "--wait",
    metavar="SECONDS",
    help="How long the replica may take to catch up (default: as long as what the provider sends should take).",
)
@click.option(
    "--limit", type=click.IntRange(0), default=20, help="How many differing entries are named."
)
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

    While it waits it shows what the provider sends to the replica, how much of it, and the contextCSN of both; the
    replica's phase too, where the bind DN may read its monitor.

    Of a partial replica only what its syncrepl selects is compared. What that is, is read from its cn=config if the
    bind DN may read that, or from --config.

    Exit status 0 when they are equal, 1 when they differ, 38 when the replica did not catch up.

    \b
    Example:
      ditseed replica verify -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --consumer ldap://new-replica
    """
    provider = options.connection_of(connecting)
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
        show(*preparing.standing(provider.uri or ""))
    return errors.EXIT_OK if report.equal else errors.EXIT_DIFFERENT


def _compared(waited: float, report: CompareReport) -> dict[str, object]:
    return {
        "caught up after": units.duration(waited),
        "entries": f"{report.a.entries:,} and {report.b.entries:,}",
        "checksums": f"{report.a.checksum} and {report.b.checksum}",
        "differences": f"{report.only_a + report.only_b + report.changed:,}",
        **{f"{number}: {one.kind}": one.dn for number, one in enumerate(report.samples, 1)},
        **(
            {"not compared": f"{', '.join(report.local)}: each server keeps them for itself"}
            if report.local
            else {}
        ),
        **{f"note {number}": one for number, one in enumerate(report.notes, 1)},
        "verdict": "equal" if report.equal else "NOT equal",
    }
