"""ditseed build: LDIF to a finished database, offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from loader.cli import options
from loader.cli.report import for_people, show_facts, show_json
from loader.operations import build as operation
from loader.operations.build import BuildOptions


@click.command("build")
@click.argument(
    "inputs",
    metavar="LDIF...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, readable=False),
)
@options.config_option
@click.option(
    "-b", "--suffix", "suffix", metavar="SUFFIX", help="Which database (default: the only one)."
)
@click.option(
    "--engine",
    type=click.Choice(operation.ENGINES),
    default="slapadd",
    help="What writes the database.",
)
@options.placing_options
@click.option(
    "-w",
    "write_context",
    is_flag=True,
    help="Write contextCSN from the entries' entryCSN, as slapadd -w.",
)
@click.option(
    "-S",
    "server_id",
    type=click.IntRange(0, 4095),
    help="Server ID of entryCSNs that are made (default: olcServerID).",
)
@options.dry_run_option
@options.timeout_option
@options.restart_option
@options.progress_option
@options.json_option
def command(
    inputs: tuple[Path, ...],
    config_path: Path,
    dry_run: bool,
    timeouts: tuple[str, ...],
    restart: bool,
    progress_mode: str,
    as_json: bool,
    **building: Any,
) -> None:
    """Load LDIF files (plain, .zst, .gz, or an export directory) into the database directory of a configuration.

    slapd must not run on that database. The database is built beside its place, without syncing, then synced, checked
    and renamed: the target is the old one or the new one, never a half. Owner and mode are those of the directory and
    of the configuration.

    \b
    Examples:
      ditseed build people.ldif.zst --config /etc/ldap/slapd.d -b dc=example,dc=com
      ditseed build /srv/export --config /etc/ldap/slapd.d --replace --maxsize auto
    """
    asked = BuildOptions(inputs, config_path, **building)
    progress = options.progress_of(progress_mode)
    if dry_run:
        facts = operation.plan(asked, progress)
    else:
        facts = operation.build(
            asked, progress, options.timeouts_of(timeouts, operation.STEPS), restart
        )
    if as_json:
        show_json(facts)
        return
    show_facts(for_people(facts))
