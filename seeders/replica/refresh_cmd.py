"""ditseed replica refresh: a stopped consumer's database brought up to date before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from loader.cli import access, options
from loader.cli.report import for_people, show_facts, show_json
from loader.errors import UsageProblem
from seeders.replica import refresh as refreshing
from seeders.replica.refresh import RefreshOptions


@click.command("refresh")
@access.connection_options
@options.config_option
@options.consumer_suffix_option
@click.option(
    "--allow-hidden",
    is_flag=True,
    help="Refresh even if the account cannot read all values, or cannot read them as they are stored.",
)
@options.run_dir_option()
@options.dry_run_option
@options.timeout_option
@options.restart_option
@options.progress_option
@options.json_option
def command(
    config_path: Path,
    suffix: str | None,
    allow_hidden: bool,
    run_dir: Path | None,
    dry_run: bool,
    timeouts: tuple[str, ...],
    restart: bool,
    progress_mode: str,
    as_json: bool,
    **connecting: Any,
) -> None:
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
    connection = access.connection_of(connecting)
    if not connection.uri:
        raise UsageProblem(reason="give the provider: -H URI")
    asked = RefreshOptions(
        config_path=config_path,
        connection=connection,
        suffix=connection.base if suffix is None else suffix,
        run_dir=run_dir,
        allow_hidden=allow_hidden,
    )
    progress = options.progress_of(progress_mode)
    if dry_run:
        facts = refreshing.plan(asked)
    else:
        allowed = options.timeouts_of(timeouts, refreshing.STEPS)
        facts = refreshing.refresh(asked, progress, allowed, restart)
    if as_json:
        show_json(facts)
    else:
        show_facts(for_people(facts))
