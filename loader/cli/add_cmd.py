"""ditseed add: LDIF into a running server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from loader.cli import options
from loader.cli.report import for_people, show_facts, show_json, warn_of_rejects
from loader.errors import EXIT_DIFFERENT, EXIT_OK
from loader.operations import add as operation
from loader.operations.add import AddOptions


class Batch(click.ParamType[int]):
    """Entries, or `auto`, which is 0."""

    name = "batch"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value == "auto":
            return 0
        count = click.IntRange(1).convert(value, param, ctx)
        return int(count)


@click.command("add")
@click.argument(
    "inputs",
    metavar="[LDIF]...",
    nargs=-1,
    type=click.Path(path_type=Path, readable=False),
)
@options.from_option
@options.tree_options
@options.tree_suffix_option
@options.connection_options
@click.option(
    "--jobs", type=click.IntRange(1), default=3, show_default=True, help="Connections side by side."
)
@click.option(
    "--batch",
    type=Batch(),
    default="auto",
    show_default=True,
    metavar="N|auto",
    help="Entries a transaction; 1: none, every entry by itself.",
)
@click.option(
    "--on-exists",
    type=click.Choice(operation.ON_EXISTS),
    default=operation.ON_EXISTS[0],
    show_default=True,
    help="What becomes of an entry that is there already.",
)
@click.option(
    "--max-rejects",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="How many entries may be refused before the load ends.",
)
@click.option(
    "--rejects",
    type=click.Path(path_type=Path, readable=False),
    metavar="FILE",
    help="Where refused entries go, as LDIF (default: in the run directory).",
)
@click.option("--max-rate", type=click.IntRange(1), metavar="N", help="At most N entries a second.")
@click.option(
    "--nosync",
    is_flag=True,
    help="Switch nosync on meanwhile (through cn=config), and off again at the end, whatever that is.",
)
@click.option(
    "--keep-operational",
    is_flag=True,
    help="Send entryUUID, creatorsName, createTimestamp ... too, with the relax control.",
)
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path, readable=False),
    metavar="DIR",
    help="Where the run keeps its state (default: below the state directory, one for each list of files and server).",
)
@options.dry_run_option
@options.timeout_option
@options.restart_option
@options.progress_option
@options.json_option
def command(
    inputs: tuple[Path, ...],
    max_rate: int | None,
    dry_run: bool,
    timeouts: tuple[str, ...],
    restart: bool,
    progress_mode: str,
    as_json: bool,
    tree_suffix: str | None,
    **given: Any,
) -> int:
    """Add LDIF (plain, .zst, .gz, an export directory, - for stdin) to a running server.

    In LDAP transactions (RFC 5805) where the server has these, many times faster than ldapadd and as durable. An entry
    may come before its parent. An entry that the server does not take goes to the file of rejects, with the reason; are
    there more than --max-rejects, the load ends. Exit status 1: done, with rejects.

    With --from the tree of a template is made and added in one go.

    Stopped at any moment, on either side, the same command goes on: no entry twice, none left out.

    \b
    Examples:
      ditseed add people.ldif.zst -H ldapi:/// -Y EXTERNAL
      ditseed add /srv/export -H ldap://server -D cn=admin,dc=example,dc=com -y /root/admin.pw --on-exists skip
      ditseed add --from people -n 100000 -H ldapi:/// -Y EXTERNAL --nosync
    """
    tree = options.tree_of(given, inputs, tree_suffix)
    connection = options.connection_of(given)
    asked = AddOptions(connection, inputs, max_rate=max_rate or 0, tree=tree, **given)
    progress = options.progress_of(progress_mode)
    if dry_run:
        facts = operation.plan(asked, progress)
    else:
        facts = operation.add(
            asked, progress, options.timeouts_of(timeouts, operation.STEPS), restart
        )
    if as_json:
        show_json(facts)
    else:
        show_facts(_readable(facts))
    return EXIT_DIFFERENT if facts.get("rejected") else EXIT_OK


def _readable(facts: Mapping[str, Any]) -> dict[str, object]:
    warn_of_rejects(facts)
    if not facts.get("seconds"):
        return for_people(facts)
    return for_people(
        {**facts, "rate": round((facts["read"] - facts["before"]) / facts["seconds"])}
    )
