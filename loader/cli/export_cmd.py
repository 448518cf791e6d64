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
@click.option(
    "--pieces",
    type=click.IntRange(0),
    default=0,
    help="Searches that the tree is cut into; 0: as many as jobs. A cut connection costs one piece.",
)
@click.option(
    "--max-rate",
    type=click.IntRange(0),
    default=0,
    help="Entries a second, of all connections together; 0: as fast as can be.",
)
@click.option(
    "--max-latency",
    type=click.FloatRange(0, min_open=True),
    help="Read slower while the server takes more milliseconds than this for a small question.",
)
@click.option(
    "--page",
    type=click.IntRange(0),
    default=0,
    help="Entries a page; 0 asks for no pages unless a limit demands them.",
)
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
    pieces: int,
    max_rate: int,
    max_latency: float | None,
    page: int,
    compress: str,
    timeouts: tuple[str, ...],
    restart: bool,
    progress_mode: str,
    as_json: bool,
    **connecting: Any,
) -> None:
    """Read a running server with several searches side by side: all user and operational attributes.

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
    latency = None if max_latency is None else max_latency / 1000
    asked = ExportOptions(
        connection, output.absolute(), jobs, pieces, max_rate, latency, page, compress
    )
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
            **{f"note {number}": note for number, note in enumerate(made.notes, 1)},
        }
    )
