"""ditseed replica seed: fill the database of a new replica."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import click

from loader import resources
from loader.cli import access, options, recording
from loader.cli.options import Function
from loader.cli.report import for_people, show_facts, show_json
from loader.errors import UsageProblem
from loader.server.options import Connection
from seeders.replica import seed as seeding
from seeders.replica.planning.following import Followed
from seeders.replica.preparing import Admin
from seeders.replica.seed import STRATEGIES
from seeders.replica.strategies import SeedOptions

_OF_CONSUMER = ("uri", "bind_dn", "password_file", "mechanism")
# The parameters of a field of SeedOptions, if they have other names.
_PARAMETERS = {"consumer": tuple(f"consumer_{name}" for name in _OF_CONSUMER), "replicas": ()}
_READING = ("jobs", "pieces", "page")


def _account_options(name: str, purpose: str) -> Callable[[Function], Function]:
    """As whom the provider is prepared."""
    return options.stack(
        click.option(
            f"--{name}-bind-dn",
            metavar="DN",
            help=f"Bind DN for {purpose} (default: -D).",
        ),
        click.option(
            f"--{name}-password-file",
            metavar="FILE",
            help=f"Password file for --{name}-bind-dn (default: -y).",
        ),
    )


@click.command("seed")
@click.option(
    "--strategy",
    type=click.Choice(list(STRATEGIES)),
    help="Source of the entries: a search, LDIF or a database directory; online loads into a running consumer "
    "(default: that of --plan).",
)
@click.option(
    "--plan",
    "plan_path",
    type=click.Path(path_type=Path, readable=False),
    metavar="FILE",
    help="Carry out a plan of `ditseed replica plan -o FILE`: its strategy, --from and timeouts.",
)
@access.providers_options_beside_w
@options.optional_config_option
@options.consumer_suffix_option
@access.consumer_options(required=False)
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
@recording.recorded
def command(
    dry_run: bool,
    timeouts: tuple[str, ...],
    restart: bool,
    progress_mode: str,
    as_json: bool,
    plan_path: Path | None,
    **given: Any,
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
      ditseed replica seed --plan /root/replica.plan -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --config /etc/ldap/slapd.d
    """
    followed = Followed.read(plan_path, given) if plan_path else None
    if given["strategy"] is None:
        raise UsageProblem(reason="give --strategy, or --plan FILE of `ditseed replica plan`")
    strategy = STRATEGIES[given["strategy"]]
    _refuse_unfitting(given)
    serving = [strategy] if options.is_given("timeouts") else [*STRATEGIES.values()]
    steps = dict.fromkeys(step for one in serving for step in one.steps)
    allowed = options.timeouts_of(timeouts, tuple(steps))
    asked, progress = _options_of(strategy.takes, given), options.progress_of(progress_mode)
    if followed:
        allowed = followed.timeouts(allowed)
        recording.note({}, followed.seconds)
        followed.require_same(asked)
    how = (progress, allowed, restart, followed.seconds if followed else {})
    facts = seeding.plan(asked, progress) if dry_run else seeding.seed(asked, *how)
    recording.note(facts)
    if as_json:
        show_json(facts)
    else:
        show_facts(for_people(facts))


def _refuse_unfitting(given: Mapping[str, Any]) -> None:
    """Options on the command line that the chosen strategy does not take. A profile serves all strategies."""
    chosen = STRATEGIES[given["strategy"]].takes
    for field in sorted({name for one in STRATEGIES.values() for name in one.takes} - chosen):
        takers = ", ".join(name for name, one in STRATEGIES.items() if field in one.takes)
        options.refuse_given(_PARAMETERS.get(field, (field,)), f"--strategy {takers}")
    if "replicas" not in chosen and len(given["uris"]) > 1 and options.is_given("uris"):
        raise UsageProblem(reason="-H several times is only for --strategy search")
    if given["source"]:
        options.refuse_given(_READING, "reading a provider (-H), not LDIF (--from)")


def _options_of(takes: Collection[str], given: dict[str, Any]) -> SeedOptions:
    """What the strategy takes of what was given."""
    connection, replicas = access.providers_of(given)
    more = {"consumer": access.consumer_of(connection, given), "replicas": replicas}
    admin, suffix = _admin_of(connection, given), given.pop("suffix")
    jobs = given["jobs"] or resources.connections()
    fields = {**given, **more, "jobs": jobs}
    return SeedOptions(
        suffix=connection.base if suffix is None else suffix,
        connection=connection if connection.uri else None,
        admin=admin,
        **{name: fields[name] for name in {"strategy", "run_dir", *takes}},
    )


def _admin_of(provider: Connection, given: dict[str, Any]) -> Admin | None:
    """As whom the provider is prepared; None: it is not."""
    wanted = given.pop("prepare_provider")
    config, data = (access.second_of(provider, given, name) for name in ("config", "admin"))
    if wanted and provider.uri is None:
        raise UsageProblem(reason="--prepare-provider needs the provider: -H URI")
    return Admin(config, data) if wanted else None
