"""`ditseed tune indexes`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from loader import units
from loader.cli import options
from loader.cli.index_cost_report import show_costs
from loader.cli.index_use_report import show_usage
from loader.cli.tune_shown import Further, show_settings, taken, target_of, target_options
from loader.errors import UsageProblem
from loader.operations.tune import index_costs, index_use, indexing
from loader.operations.tune.index_use import Asked
from loader.operations.tune.indexing import IndexChange
from loader.operations.tune.target import Target
from loader.progress import Progress


@click.command("indexes")
@click.option(
    "--set",
    "wanted",
    multiple=True,
    metavar="INDEX",
    help='Replace the whole list: --set "uid eq" --set "cn,sn eq,sub".',
)
@click.option("--add", multiple=True, metavar="INDEX", help='Add to the list: --add "mail eq".')
@click.option(
    "--remove",
    multiple=True,
    metavar="ATTRIBUTE",
    help='Remove from the list: --remove mail, or one type: --remove "cn sub".',
)
@click.option(
    "--no-reindex",
    is_flag=True,
    help="Offline: only change the configuration, and print the slapindex command to run.",
)
@click.option(
    "--stats-log",
    "logs",
    multiple=True,
    type=click.Path(path_type=Path, readable=False),
    metavar="FILE",
    help="slapd's log (loglevel stats), compressed or not, several times if need be: shows which indexes its searches "
    "use, which searches have none, and what an index for them would take.",
)
@click.option(
    "--filters",
    multiple=True,
    type=click.Path(path_type=Path, readable=False),
    metavar="FILE",
    help="The same for a file with a search filter on each line.",
)
@click.option(
    "--costs",
    "with_costs",
    is_flag=True,
    help="Show what each index takes: bytes, keys, and keys whose entry IDs have become ranges; with --stats-log or "
    "--filters those first that no search uses.",
)
@options.progress_option
@target_options
def indexes_command(
    wanted: tuple[str, ...],
    add: tuple[str, ...],
    remove: tuple[str, ...],
    no_reindex: bool,
    logs: tuple[Path, ...],
    filters: tuple[Path, ...],
    with_costs: bool,
    progress_mode: str,
    **given: Any,
) -> None:
    """Show which attributes are indexed and which indexes replication lacks; change the list.

    Over LDAP, slapd builds new indexes itself, in the background. Offline, ditseed builds them before the
    configuration changes, so that slapd never relies on an incomplete index.

    \b
    Examples:
      ditseed tune indexes -H ldapi:/// -Y EXTERNAL
      ditseed tune indexes --config /etc/ldap/slapd.d --costs --stats-log /var/log/slapd.log
      ditseed tune indexes --config /etc/ldap/slapd.d --add "entryUUID,entryCSN eq" --apply
    """
    apply, as_json, suffix, wished = taken(given)
    wish = IndexChange(wanted or None, add, remove)
    if wished and wish == IndexChange():
        raise UsageProblem(reason="say what to change: --set, --add or --remove")
    asked = Asked(logs, filters)
    with target_of(given, apply) as target:
        found = indexing.indexing(target, suffix)
        progress = options.progress_of(progress_mode)
        further = list(_looked_at(target, suffix, asked, with_costs, progress))
        outcome = (
            None
            if wish == IndexChange()
            else indexing.change_indexes(target, suffix, wish, apply, not no_reindex, progress)
        )
    rows = (row for one in found for row in _index_rows(one))
    headings = ("suffix", "attribute", "index", "records")
    show_settings(target, found, outcome, as_json, headings, rows, further)


def _looked_at(
    target: Target, suffix: str | None, asked: Asked, with_costs: bool, progress: Progress
) -> Iterator[Further]:
    """What the indexes of one database cost, and which are used."""
    if asked == Asked() and not with_costs:
        return
    database = target.config.database(suffix)
    use = None
    if asked != Asked():
        use = index_use.usage(target, database, asked, progress)
    if with_costs:
        found = index_costs.costs(target, database, use, progress)
        yield Further("costs", found, lambda: show_costs(found, target.place))
    if use is not None:
        yield Further("use", use, lambda: show_usage(use, target.place))


def _index_rows(one: indexing.IndexSettings) -> Iterator[tuple[str, str, str, str]]:
    counts = {name.lower(): count for name, count in one.keys.items()}
    for key, index in one.indexes.items():
        count = counts.get(key.partition(";")[0])
        shown = "-" if count is None else units.number(count)
        yield one.suffix, index.attribute, ",".join(index.kinds), shown
