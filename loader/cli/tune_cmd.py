"""`ditseed tune`: settings of a server's databases, shown and changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from loader import units
from loader.cli import access, leases, load_report, options
from loader.cli.index_cost_report import show_costs
from loader.cli.index_use_report import show_usage
from loader.cli.load_report import Sampled, Share
from loader.cli.report import show, show_json, show_table
from loader.cli.vocabulary import Option
from loader.errors import EXIT_DIFFERENT, EXIT_OK, UsageProblem
from loader.operations.add import nosync as switching
from loader.operations.add import shadow
from loader.operations.tune import (
    forecast,
    history,
    index_costs,
    index_use,
    indexing,
    maxsize,
    syncing,
)
from loader.operations.tune.index_use import Asked
from loader.operations.tune.indexing import IndexChange
from loader.operations.tune.plan import Outcome, State
from loader.operations.tune.target import Target, opened
from loader.progress import Progress
from loader.run.journal import Outcome as Ended
from loader.server.options import Connection
from loader.sources.sampling import SampleSize

target_options = options.stack(
    options.optional_config_option,
    access.connection_options,
    click.option(
        "--apply", is_flag=True, help="Make the change; without it, the change is only shown."
    ),
    options.dry_run_option,
    options.json_option,
)


@click.group("tune")
def command() -> None:
    """Show and change settings of a server's databases.

    Name the server either by --config (slapd.conf, or the slapd.d of a stopped slapd) or by -H and the other
    connection options (cn=config over LDAP). Nothing changes without --apply. The previous values are recorded:
    see `ditseed tune history`.

    \b
    Examples:
      ditseed tune maxsize -H ldapi:/// -Y EXTERNAL
      ditseed tune indexes --config /etc/ldap/slapd.d --add "uid eq" --apply
      ditseed tune sync -H ldapi:/// -Y EXTERNAL --nosync off --apply
    """


@command.command("maxsize")
@click.option(
    "--maxsize",
    "size",
    cls=Option,
    former=("--size",),
    type=options.Size(auto=True),
    help="The new maxsize; `auto` computes it (the default with --apply).",
)
@click.option(
    "--for",
    "source",
    metavar="SOURCE",
    help="LDIF, an export or a database directory that is to be loaded: builds a sample of it in a temporary "
    "directory, and computes the size from that.",
)
@click.option(
    "--growth",
    type=Share(),
    default="50%",
    show_default=True,
    help="With --for: growth to be expected after the load.",
)
@click.option(
    "--sample-size",
    type=Sampled(),
    metavar="N|SHARE",
    help="With --for: entries of the sample, 20000 or 5% (default: 1%, and at least 10,000).",
)
@options.progress_option
@target_options
def maxsize_command(
    size: int | str | None,
    source: str | None,
    growth: float,
    sample_size: SampleSize | None,
    progress_mode: str,
    **given: Any,
) -> None:
    """Show how large each database is and may become; set maxsize.

    The recommendation is three times the bytes in use, in whole GiB, and never less than what is configured. With --for
    it is the sum of what the load takes and the room that slapd needs beside it.

    \b
    Examples:
      ditseed tune maxsize --config /etc/ldap/slapd.conf
      ditseed tune maxsize --config /etc/ldap/slapd.d --for /srv/export --growth 20% --apply
      ditseed tune maxsize -H ldapi:/// -Y EXTERNAL -b dc=example,dc=com --maxsize 250G --apply
    """
    apply, as_json, suffix, wished = _taken(given)
    if source is None:
        options.refuse_given(("growth", "sample_size"), "--for")
    with _target(given, apply) as target:
        found = maxsize.standings(target, suffix)
        load = None
        if source is not None:
            database = target.config.database(suffix)
            progress = options.progress_of(progress_mode)
            wanted = sample_size or SampleSize()
            load = forecast.plan(target, database, source, wanted, growth, progress)
            if size in (None, "auto"):
                size = load.recommended if wished or size else None
        outcome = (
            maxsize.change_maxsize(target, suffix, size, apply)
            if wished or size is not None
            else None
        )
    more = [] if load is None else [Further("load", load, lambda: load_report.show_plan(load))]
    _show(target, found, outcome, as_json, _MAXSIZE, map(_maxsize_row, found), more)


_MAXSIZE = ("suffix", "maxsize", "map size", "used", "file", "on disk", "disk free", "recommended")


def _maxsize_row(one: maxsize.MapUsage) -> list[str]:
    sizes = (
        one.maxsize,
        one.map_size,
        one.used,
        one.apparent,
        one.allocated,
        one.free,
        one.recommended,
    )
    return [one.suffix, *("-" if count is None else units.size(count) for count in sizes)]


@command.command("indexes")
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
    apply, as_json, suffix, wished = _taken(given)
    wish = IndexChange(wanted or None, add, remove)
    if wished and wish == IndexChange():
        raise UsageProblem(reason="say what to change: --set, --add or --remove")
    asked = Asked(logs, filters)
    with _target(given, apply) as target:
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
    _show(target, found, outcome, as_json, headings, rows, further)


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


@command.command("sync")
@click.option(
    "--nosync",
    type=click.Choice(["on", "off"]),
    help="on: slapd no longer syncs commits to disk; off: it does so again.",
)
@click.option(
    "--lease",
    type=options.Duration(),
    help="With --nosync on, over LDAP: only for so long (90m, 4h), and until the next boot at most.",
)
@click.option(
    "--give-back",
    is_flag=True,
    help="Switch off nosync that killed runs, and leases that have ended, left on at the servers of this host.",
)
@target_options
def sync_command(nosync: str | None, lease: float | None, give_back: bool, **given: Any) -> int:
    """Show whether commits are synced to disk (nosync, envflags, checkpoint); switch nosync.

    nosync makes a load faster, but while it is on, a crash of the host can lose or damage the database.

    \b
    Examples:
      ditseed tune sync --config /etc/ldap/slapd.d
      ditseed tune sync -H ldapi:/// -Y EXTERNAL --nosync off --apply
      ditseed tune sync -H ldapi:/// -Y EXTERNAL --nosync on --lease 4h --apply
      ditseed tune sync --give-back
    """
    if give_back:
        return _give_back()
    apply, as_json, suffix, wished = _taken(given)
    if lease is not None and (nosync != "on" or given["config_path"] is not None):
        raise UsageProblem(reason="--lease is for --nosync on, of a running server (-H)")
    if wished and nosync is None:
        raise UsageProblem(reason="say what to change: --nosync on, or --nosync off")
    lent_by = None if lease is None else access.connection_of(dict(given))
    with _target(given, apply) as target:
        found = syncing.syncing(target, suffix)
        outcome = None
        if nosync is not None:
            lent = apply and lease is not None
            # A lease is written down before nosync is switched on.
            outcome = syncing.change_nosync(target, suffix, nosync == "on", apply and not lent)
    if outcome is not None and lease is not None and lent_by is not None and apply:
        switching.lend(lent_by, lease)
        outcome = Outcome(State.CHANGED, outcome.difference, outcome.notes)
    headings = ("suffix", "nosync", "envflags", "checkpoint")
    _show(target, found, outcome, as_json, headings, map(_sync_row, found))
    return EXIT_OK


def _give_back() -> int:
    """1 where something is still left."""
    told = leases.give_back_local()
    show(*(told or ["no leases of nosync are left at servers of this host"]))
    return EXIT_OK if all(one.endswith("put back") for one in told) else EXIT_DIFFERENT


def _sync_row(one: syncing.SyncSettings) -> tuple[str, str, str, str]:
    flags, nosync = " ".join(one.env_flags) or "none", "on" if one.nosync else "off"
    return one.suffix, nosync, flags, one.checkpoint or "none"


@command.command("history")
@options.json_option
def history_command(as_json: bool) -> None:
    """List what `tune` (and `build --maxsize`) changed, with the command that puts the old value back.

    \b
    Example:
      ditseed tune history
    """
    found = history.changes()
    if as_json:
        show_json({"changes": [dataclasses.asdict(one) for one in found]})
        return
    for one in found:
        show(f"{one.time}  {one.by}  {one.target}  {one.database}  ({one.outcome.value})")
        before, after = ("; ".join(values) or "(not set)" for values in (one.before, one.after))
        show(f"  {one.attribute}: {before} -> {after}")
        if one.undo and one.outcome is not Ended.FAILED:
            show(f"  put back: {one.undo}")
    if not found:
        show("no changes are recorded")


@dataclasses.dataclass(frozen=True)
class Further:
    """What a command tells besides settings. `facts`: a dataclass, in JSON under `name`."""

    name: str
    facts: Any
    show: Callable[[], None]


def _taken(given: dict[str, Any]) -> tuple[bool, bool, str | None, bool]:
    """(make the change, print JSON, suffix, a change was asked for)."""
    apply, dry_run = given.pop("apply"), given.pop("dry_run")
    return apply and not dry_run, given.pop("as_json"), given["base"], apply or dry_run


@contextmanager
def _target(given: dict[str, Any], apply: bool) -> Iterator[Target]:
    """What a killed `ditseed add` left loosened there is tightened before anything else is changed."""
    options.keep_strongest(given, ("config_path", "uri"))
    path: Path | None = given.pop("config_path")
    account = [name for name in ("bind_dn", "mechanism") if given[name]]
    named = bool(given["uri"]) or any(path is None or options.is_given(name) for name in account)
    if (path is not None) == named:
        raise UsageProblem(
            reason="say which server: either --config slapd.d or slapd.conf, or -H ldapi:/// -Y EXTERNAL"
        )
    where: Path | Connection = access.connection_of(given) if path is None else path
    if apply and isinstance(where, Connection):
        switching.release_open_leases(where)
        shadow.give_back_standing(where)
    with opened(where) as target:
        yield target


def _show(
    target: Target,
    found: Sequence[Any],
    outcome: Outcome | None,
    as_json: bool,
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    further: Sequence[Further] = (),
) -> None:
    if as_json:
        change = None if outcome is None else dataclasses.asdict(outcome)
        databases = [dataclasses.asdict(one) for one in found]
        told = {one.name: dataclasses.asdict(one.facts) for one in further}
        show_json({"target": target.config.where, "databases": databases, "change": change, **told})
        return
    show_table(headings, list(rows))
    for more in further:
        more.show()
    show(*(f"{one.suffix}: {note}" for one in found for note in one.notes))
    if outcome is not None:
        _show_outcome(outcome)


def _show_outcome(outcome: Outcome) -> None:
    show("")
    if outcome.difference:
        show(*outcome.difference.split("\n"))
    words = {
        State.UNCHANGED: "unchanged: this is the present setting",
        State.PROPOSED: "nothing was changed; --apply makes this change",
        State.CHANGED: "changed",
    }
    show(words[outcome.state])
    for note in outcome.notes:
        show(f"note: {note}")
