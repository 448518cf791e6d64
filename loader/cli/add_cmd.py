"""ditseed add: LDIF into a running server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from loader.cli import access, options, recording, trees
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
@click.argument("inputs", metavar="[LDIF]...", nargs=-1)
@trees.from_option
@trees.tree_options
@trees.tree_suffix_option
@access.connection_options
@options.jobs_option("Number of parallel connections.", default=3)
@click.option(
    "--batch",
    type=Batch(),
    default="auto",
    show_default=True,
    metavar="N|auto",
    help="Entries per transaction; 1: no transactions, each entry by itself.",
)
@click.option(
    "--on-exists",
    type=click.Choice(operation.ON_EXISTS),
    default=operation.ON_EXISTS[0],
    show_default=True,
    help="What to do with an entry that exists already.",
)
@options.max_rejects_option("the load stops")
@options.max_rate_option(1, "")
@click.option(
    "--nosync",
    is_flag=True,
    help="Switch nosync on during the load (through cn=config); it is switched off again however the load ends.",
)
@click.option(
    "--keep-operational",
    is_flag=True,
    help="Send entryUUID, creatorsName, createTimestamp ... as well, with the relax control.",
)
@options.run_dir_option("below the state directory")
@options.dry_run_option
@options.timeout_option
@options.restart_option
@options.progress_option
@options.json_option
@recording.recorded
def command(
    inputs: tuple[str, ...],
    dry_run: bool,
    timeouts: tuple[str, ...],
    restart: bool,
    progress_mode: str,
    as_json: bool,
    tree_suffix: str | None,
    **given: Any,
) -> int:
    """Add LDIF (plain, .zst, .gz, an export directory, - for stdin) to a running server.

    Uses LDAP transactions (RFC 5805) where the server supports them, which is many times faster than ldapadd and as
    durable. An entry may precede its parent. Entries that the server refuses are written to the file of rejects, with
    the reason; if there are more than --max-rejects, the load stops. Exit status 1: done, with rejects.

    With --from, the tree of a template is generated and added in one go.

    After an interruption on either side, give the same command again: it resumes, and adds no entry twice.

    \b
    Examples:
      ditseed add people.ldif.zst -H ldapi:/// -Y EXTERNAL
      ditseed add /srv/export -H ldap://server -D cn=admin,dc=example,dc=com -y /root/admin.pw --on-exists skip
      ditseed add --from people -n 100000 -H ldapi:/// -Y EXTERNAL --nosync
    """
    files, tree = trees.source_of(given, inputs, tree_suffix)
    connection = access.connection_of(given)
    asked = AddOptions(connection, files, tree=tree, **given)
    progress = options.progress_of(progress_mode)
    if dry_run:
        facts = operation.plan(asked, progress)
    else:
        facts = operation.add(
            asked, progress, options.timeouts_of(timeouts, operation.STEPS), restart
        )
    recording.note(facts)
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
