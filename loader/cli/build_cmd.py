"""ditseed build: LDIF to a finished database, offline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from loader.cli import options
from loader.cli.report import for_people, show_facts, show_json, warn_of_rejects
from loader.errors import EXIT_DIFFERENT, EXIT_OK
from loader.operations import build as operation
from loader.operations.build import MOST_SHARDS, BuildOptions


@click.command("build")
@click.argument(
    "inputs",
    metavar="[LDIF]...",
    nargs=-1,
    type=click.Path(path_type=Path, readable=False),
)
@options.from_option
@options.tree_options
@options.config_option
@click.option(
    "-b", "--suffix", "suffix", metavar="SUFFIX", help="Which database (default: the only one)."
)
@click.option(
    "--target",
    type=click.Path(path_type=Path, readable=False),
    metavar="DIR",
    help="Build into DIR, for the database of the configuration, which stays as it is.",
)
@click.option(
    "-g",
    "--no-glue",
    "glue",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Leave out the databases that are glued to it (subordinate), as slapadd -g.",
)
@options.engine_option
@options.placing_options
@options.verify_option(operation.FULL)
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
@click.option(
    "--shards",
    type=click.IntRange(1, MOST_SHARDS),
    help="With --engine slapadd: cut the LDIF for so many slapadds (default: by size, processors and memory).",
)
@options.native_options
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
    suffix: str | None,
    **building: Any,
) -> int:
    """Load LDIF (plain, .zst, .gz, an export directory, - for stdin) into the database directory of a configuration.

    slapd must not run on that database. The database is built beside its place, then checked and renamed: the target
    is the old one or the new one, never a half. Owner and mode are those of the directory and of the configuration.

    With --from the tree of a template is made and loaded in one go, with the database's suffix, and no LDIF on the
    disk. The same command makes the same file.

    Databases that are glued to the one of -b (subordinate) are made with it, each of the entries that belong to it; all
    are checked before the first one is put in place. With --target, and with -g, it is made alone, and entries of the
    others are refused.

    An entry that slapd would not take goes to the file of rejects, with the reason; are there more than --max-rejects,
    nothing is put in place. Exit status 1: done, with rejects.

    \b
    Examples:
      ditseed build people.ldif.zst --config /etc/ldap/slapd.d -b dc=example,dc=com
      ditseed build /srv/export --config /etc/ldap/slapd.d --replace --maxsize auto
      ditseed build --from accounts -n 30000000 --config /etc/ldap/slapd.d --maxsize auto
    """
    tree = options.tree_of(building, inputs, None)
    asked = BuildOptions(inputs, config_path, suffix, tree=tree, **building)
    progress = options.progress_of(progress_mode)
    if dry_run:
        facts = operation.plan(asked, progress)
    else:
        facts = operation.build(
            asked, progress, options.timeouts_of(timeouts, operation.STEPS), restart
        )
    if as_json:
        show_json(facts)
    else:
        show_facts(_readable(facts))
    return EXIT_DIFFERENT if facts.get("rejected") else EXIT_OK


def _readable(facts: Mapping[str, Any]) -> dict[str, object]:
    warn_of_rejects(facts)
    return for_people(facts)
