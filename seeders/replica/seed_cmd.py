"""ditseed replica seed: fill the database of a new replica."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated

from click import Choice

from loader import resources
from loader.cli import access, recording
from loader.cli.access import Consumer, Servers
from loader.cli.options import is_given, refuse_given
from loader.cli.recording import RecordedRun
from loader.cli.report import for_people, show_facts, show_json
from loader.declared import command as declare
from loader.errors import UsageProblem
from loader.server.options import Connection
from seeders.replica import seed as seeding
from seeders.replica.planning.plan import Followed
from seeders.replica.preparing import Admin
from seeders.replica.seed import STRATEGIES
from seeders.replica.strategies import SeedOptions

_OF_CONSUMER = ("uri", "bind_dn", "password_file", "mechanism")
# The parameters of a field of SeedOptions, if they have other names.
_PARAMETERS = {"consumer": tuple(f"consumer_{name}" for name in _OF_CONSUMER), "replicas": ()}
_READING = ("jobs", "pieces", "page")
_NOT_ALWAYS = {name for one in STRATEGIES.values() for name in one.takes}  # not every strategy


@dataclass(frozen=True, kw_only=True)
class _Entries:
    """Where they come from."""

    strategy: Annotated[
        str | None,
        Choice(list(STRATEGIES)),
        "Source of the entries: a search, LDIF or a database directory; online loads into a running consumer (default: "
        "that of --plan).",
    ] = None
    plan_path: Annotated[
        Path | None,
        "--plan FILE",
        "Carry out a plan of `ditseed replica plan -o FILE`: its strategy, --from and timeouts.",
    ] = None
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
    followed = Followed.read(entries.plan_path, entries.strategy) if entries.plan_path else None
    name = followed.row.strategy if followed else entries.strategy
    if name is None:
        raise UsageProblem(reason="give --strategy, or --plan FILE of `ditseed replica plan`")
    source = entries.source or (tuple(map(Path, followed.row.source)) if followed else ())
    strategy = STRATEGIES[name]
    _refuse_unfitting(strategy.takes, source, len(servers.uris))
    serving = [strategy] if is_given("timeouts") else [*STRATEGIES.values()]
    steps = dict.fromkeys(step for one in serving for step in one.steps)
    timeouts = run.timeouts_of(tuple(steps))
    connection, replicas = access.providers_of(servers)
    options = replace(
        options,
        strategy=name,
        source=source,
        suffix=connection.base if options.suffix is None else options.suffix,
        connection=connection if connection.uri else None,
        replicas=replicas,
        consumer=access.consumer_of(connection, at),
        admin=preparing.admin(connection),
        jobs=options.jobs or resources.connections(),
    )
    unfitting = {one.name: one.default for one in fields(options) if one.name in _NOT_ALWAYS - strategy.takes}
    options = SeedOptions(**{**vars(options), **unfitting})
    if followed:
        timeouts = followed.timeouts(timeouts)
        recording.note({}, followed.seconds)
        followed.require_same(options)
    facts = (
        seeding.plan(options, run.progress)
        if run.dry_run
        else seeding.seed(*(options, run.progress, timeouts, run.restart), followed.seconds if followed else {})
    )
    recording.note(facts)
    if run.as_json:
        show_json(facts)
    else:
        show_facts(for_people(facts))


def _refuse_unfitting(takes: Collection[str], source: tuple[Path, ...], providers: int) -> None:
    """Options on the command line that the chosen strategy does not take. A profile serves all strategies."""
    for field in sorted(_NOT_ALWAYS - set(takes)):
        takers = ", ".join(name for name, one in STRATEGIES.items() if field in one.takes)
        refuse_given(_PARAMETERS.get(field, (field,)), f"--strategy {takers}")
    if "replicas" not in takes and providers > 1 and is_given("uris"):
        raise UsageProblem(reason="-H several times is only for --strategy search")
    if source:
        refuse_given(_READING, "reading a provider (-H), not LDIF (--from)")
