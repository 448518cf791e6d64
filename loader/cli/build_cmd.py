"""ditseed build: LDIF to a finished database, offline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from loader.cli import options, recording, trees
from loader.cli.report import for_people, show_facts, show_json, warn_of_rejects
from loader.errors import EXIT_DIFFERENT, EXIT_OK
from loader.operations import build as operation
from loader.operations.build import MOST_SHARDS, BuildOptions


@click.command("build")
@click.argument("inputs", metavar="[LDIF]...", nargs=-1)
@trees.from_option
@trees.tree_options
@options.config_option
@options.suffix_option
@options.target_option
@click.option(
    "-g",
    "--no-glue",
    "glue",
    is_flag=True,
    callback=options.negated,
    help="Do not build the databases glued to it (subordinate), as slapadd -g.",
)
@options.engine_option
@options.placing_options
@options.verify_new_option(operation.FULL)
@click.option(
    "-w",
    "--write-context-csn",
    "write_context",
    is_flag=True,
    help="Write contextCSN from the entries' entryCSN, as slapadd -w.",
)
@click.option(
    "-S",
    "--server-id",
    type=click.IntRange(0, 4095),
    help="Server ID for generated entryCSNs (default: olcServerID).",
)
@click.option(
    "--shards",
    type=click.IntRange(1, MOST_SHARDS),
    help="With --engine slapadd: number of slapadds to run in parallel (default: by size, processors and memory).",
)
@options.native_options
@options.space_option
@options.dry_run_option
@options.timeout_option
@options.restart_option
@options.progress_option
@options.json_option
@recording.recorded
def command(
    inputs: tuple[str, ...],
    config_path: Path,
    dry_run: bool,
    timeouts: tuple[str, ...],
    restart: bool,
    progress_mode: str,
    as_json: bool,
    suffix: str | None,
    **building: Any,
) -> int:
    """Load LDIF (plain, .zst, .gz, an export directory, - for stdin) into the database directory of a configuration.

    slapd must not be running on that database. The new database is built beside the old one, checked, and renamed into
    place, so the directory holds the old one or the new one, never half of it. Its owner and mode follow the directory
    and the configuration.

    With --from, the tree of a template is generated and loaded in one go, under the database's suffix, without LDIF on
    disk. The same command makes the same file.

    Databases that are glued to the one of -b (subordinate) are built with it, each from the entries that belong to it;
    all are checked before the first is put into place. With --target or -g only the one database is built, and entries
    of the others are rejected.

    Entries that slapd would not accept are written to the file of rejects, with the reason; if there are more than
    --max-rejects, the build fails and the target stays as it was. Exit status 1: done, with rejects.

    \b
    Examples:
      ditseed build people.ldif.zst --config /etc/ldap/slapd.d -b dc=example,dc=com
      ditseed build /srv/export --config /etc/ldap/slapd.d --replace --maxsize auto
      ditseed build --from accounts -n 30000000 --config /etc/ldap/slapd.d --maxsize auto
    """
    files, tree = trees.source_of(building, inputs, None)
    asked = BuildOptions(files, config_path, suffix, tree=tree, **building)
    progress = options.progress_of(progress_mode)
    if dry_run:
        facts = operation.plan(asked, progress)
    else:
        facts = operation.build(
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
    return for_people(facts)
