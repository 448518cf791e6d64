"""ditseed export: a server's entries as LDIF shards with a manifest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from loader import defaults
from loader.cli import options
from loader.cli.report import show_facts, show_json
from loader.operations.export import STEPS, ExportOptions, export


@click.command("export")
@options.connection_options
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path, readable=False),
    required=True,
    help="Directory for shards and manifest.",
)
@click.option(
    "--jobs", type=click.IntRange(1), default=os.cpu_count() or 2, help="Connections side by side."
)
@click.option("--page", type=click.IntRange(1), default=defaults.PAGE_SIZE, help="Entries a page.")
@click.option(
    "--compress",
    type=click.Choice(["zstd", "none"]),
    default=defaults.COMPRESS,
    help="Shards' compression.",
)
@options.timeout_option
@options.restart_option
@options.progress_option
@options.json_option
def command(
    output: Path,
    jobs: int,
    page: int,
    compress: str,
    timeouts: tuple[str, ...],
    restart: bool,
    progress_mode: str,
    as_json: bool,
    **connecting: Any,
) -> None:
    """Read a running server with several paged searches side by side: all user and operational attributes.

    The LDIF loads in the order of the manifest (parents first), and its suffix entry carries the contextCSN that the
    server had when the export began, so that syncrepl goes on from there. Stopped at any moment, the same command goes
    on with what is missing.

    \b
    Examples:
      ditseed export -H ldap://provider -D cn=replicator,dc=example,dc=com -y /root/replicator.pw \\
          -b dc=example,dc=com -o /srv/export
      ditseed export -H ldapi:/// -Y EXTERNAL -b dc=example,dc=com -o /srv/export --compress none
    """
    connection = options.connection_of(connecting)
    asked = ExportOptions(connection, output.absolute(), jobs, page, compress)
    made = export(
        asked, options.progress_of(progress_mode), options.timeouts_of(timeouts, STEPS), restart
    )
    if as_json:
        show_json(
            {"output": output, **made.__dict__, "shards": [shard.__dict__ for shard in made.shards]}
        )
        return
    show_facts(
        {
            "base": made.base,
            "entries": f"{made.entries:,}",
            "met twice": f"{made.duplicates:,}",
            "shards": len(made.shards),
            "cut into": made.partitions,
            "contextCSN": " ".join(made.context_csns) or "none (the server has no syncprov)",
            "output": output,
        }
    )
