"""ditseed replica plan: which strategy to seed a replica by, and how long that will take."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from loader import resources
from loader.cli import access, options
from loader.cli.report import show, show_json
from loader.errors import EXIT_DIFFERENT
from loader.sources.location import Kind, locate
from seeders.replica.planning import making, plan, words
from seeders.replica.planning.making import PlanOptions
from seeders.replica.strategies import SeedOptions


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
    type=click.Path(path_type=Path, dir_okay=False),
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
        plan.write(made, output)
    if as_json:
        show_json(dataclasses.asdict(made))
    else:
        words.tell(made)
        if output is not None and made.chosen:
            show("", f"carry it out with: {words.command(made, output)}")
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
