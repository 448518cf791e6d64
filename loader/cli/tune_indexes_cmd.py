"""`ditseed tune indexes`: the list of indexes, what each takes, and which searches use it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from loader import units
from loader.cli.options import ProgressMode, progress_of
from loader.cli.report import show, show_table
from loader.cli.tune_shown import Change, Further, show_settings, target_of
from loader.declared import command as declare
from loader.errors import UsageProblem
from loader.operations.tune import index_costs, indexing
from loader.operations.tune.index_costs import Asked, Costs, IndexCost, IndexUse, Unindexed, Usage
from loader.operations.tune.indexing import IndexChange
from loader.operations.tune.target import Target
from loader.progress import Progress


@dataclass(frozen=True, kw_only=True)
class _Indexes:
    wanted: Annotated[
        tuple[str, ...], "--set INDEX", 'Replace the whole list: --set "uid eq" --set "cn,sn eq,sub".'
    ] = ()
    add: Annotated[tuple[str, ...], "--add INDEX", 'Add to the list: --add "mail eq".'] = ()
    remove: Annotated[
        tuple[str, ...], "--remove ATTRIBUTE", 'Remove from the list: --remove mail, or one type: --remove "cn sub".'
    ] = ()
    no_reindex: Annotated[bool, "Offline: only change the configuration, and print the slapindex command to run."] = (
        False
    )
    logs: Annotated[
        tuple[Path, ...],
        "--stats-log FILE",
        "slapd's log (loglevel stats), compressed or not, several times if need be: shows which indexes its searches "
        "use, which searches have none, and what an index for them would take.",
    ] = ()
    filters: Annotated[
        tuple[Path, ...], "--filters FILE", "The same for a file with a search filter on each line."
    ] = ()
    with_costs: Annotated[
        bool,
        "--costs",
        "Show what each index takes: bytes, keys, and keys whose entry IDs have become ranges; with --stats-log or "
        "--filters those first that no search uses.",
    ] = False


@declare("indexes")
def indexes_command(options: _Indexes, change: Change, progress_mode: ProgressMode = "auto") -> None:
    """Show which attributes are indexed and which indexes replication lacks; change the list.

    Over LDAP, slapd builds new indexes itself, in the background. Offline, ditseed builds them before the
    configuration changes, so that slapd never relies on an incomplete index.

    \b
    Examples:
      ditseed tune indexes -H ldapi:/// -Y EXTERNAL
      ditseed tune indexes --config /etc/ldap/slapd.d --costs --stats-log /var/log/slapd.log
      ditseed tune indexes --config /etc/ldap/slapd.d --add "entryUUID,entryCSN eq" --apply
    """
    wish = IndexChange(options.wanted or None, options.add, options.remove)
    if change.is_wanted and wish == IndexChange():
        raise UsageProblem(reason="say what to change: --set, --add or --remove")
    asked, suffix = Asked(options.logs, options.filters), change.base
    with target_of(change) as target:
        found = indexing.index_settings(target, suffix)
        progress = progress_of(progress_mode)
        further = list(_looked_at(target, suffix, asked, options.with_costs, progress))
        outcome = (
            None
            if wish == IndexChange()
            else indexing.change_indexes(*(target, suffix, wish, change.applies, not options.no_reindex, progress))
        )
    rows = (row for one in found for row in _index_rows(one))
    headings = ("suffix", "attribute", "index", "records")
    show_settings(target, found, outcome, change.as_json, headings, rows, further)


def _looked_at(
    target: Target, suffix: str | None, asked: Asked, with_costs: bool, progress: Progress
) -> Iterator[Further]:
    """What the indexes of one database cost, and which are used."""
    if asked == Asked() and not with_costs:
        return
    database = target.config.database(suffix)
    use = None
    if asked != Asked():
        use = index_costs.usage(target, database, asked, progress)
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


_HEADINGS = ("index", "takes", "of the file", "of a load", "keys", "records", "ranges", "")


def show_costs(found: Costs, place: Sequence[str]) -> None:
    """`place`: the options that name the target."""
    taken = units.size(sum(one.bytes for one in found.tables))
    show("", f"the indexes of {found.suffix} take {taken} of {units.size(found.used)} in use")
    show_table(_HEADINGS, [row for one in found.tables for row in _cost_rows(one, found.used)])
    show(*_cost_notes(found), *_removal(found, place))


def _cost_rows(one: IndexCost, used: int) -> Iterator[tuple[str, ...]]:
    """Of the table, and of each kind of those that share it."""
    yield _cost_row(one)
    for kind in one.kinds if len(one.kinds) > 1 else ():
        if kind.bytes is not None:
            remark = "not used" if kind.unused else ""
            size, share = units.size(kind.bytes), f"{kind.bytes / used:.1%}"
            yield f"  {kind.index}", size, share, "", "", "", "", remark


def _cost_row(one: IndexCost) -> tuple[str, ...]:
    return (
        ", ".join(one.indexes) or one.attribute,
        units.size(one.bytes),
        f"{one.share:.1%}",
        "" if one.of_load is None else f"{one.of_load:.0%}",
        units.number(one.keys),
        units.number(one.records),
        units.number(one.ranges),
        _remark(one),
    )


def _remark(one: IndexCost) -> str:
    if not one.indexes:
        return "not configured"
    if one.is_unused:
        return "not used"
    return f"not used: {', '.join(one.unused)}" if one.unused else ""


def _cost_notes(found: Costs) -> Iterator[str]:
    ranges = sum(one.ranges for one in found.tables)
    if ranges:
        most = units.number((1 << found.idlexp) - 1)
        yield (
            f"note: {units.number(ranges)} keys had more than {most} entries (idlexp {found.idlexp}) and are ranges: a "
            "search by one looks at every entry from its first to its last"
        )
    if found.reckoned:
        yield f"note: {found.reckoned}"
    if any(not one.indexes for one in found.tables):
        yield "note: a table that is no longer configured stays until the database is built again"


def _removal(found: Costs, place: Sequence[str]) -> Iterator[str]:
    words = [word for one in found.tables for gone in one.unused or () for word in ("--remove", gone)]
    if words:
        command = ["ditseed", "tune", "indexes", *place, "-b", found.suffix, *words, "--apply"]
        yield f"to remove what no search uses{_price(found)}: {shlex.join(command)}"


def _price(found: Costs) -> str:
    sizes = [kind.bytes for one in found.tables for kind in one.kinds if kind.unused]
    known = [size for size in sizes if size is not None]
    return f", which takes {units.size(sum(known))}" if len(known) == len(sizes) else ""


_SHOWN = 20


def show_usage(found: Usage, place: Sequence[str]) -> None:
    """`place`: the options that name the target."""
    told = f"{units.number(found.searches)} searches below {found.suffix}"
    if found.of_base:
        told += f", and {units.number(found.of_base)} of a single entry by its DN, which need no index"
    show("", told)
    if found.searches:
        show_table(("index", "kind", "used by", ""), list(map(_use_row, found.indexes)))
        _show_unindexed(found.unindexed)
        _show_proposals(found, place)
    show(*(f"note: {note}" for note in found.notes))


def _use_row(one: IndexUse) -> tuple[str, str, str, str]:
    why = "" if one.searches else "not used"
    if one.needed_for_sync:
        why = "replication needs it"
    return one.attribute, one.kind, units.number(one.searches), why


def _show_unindexed(found: Sequence[Unindexed]) -> None:
    if not found:
        show("", "every search is served by indexes")
        return
    show("")
    rows = [
        (
            one.filter,
            units.number(one.searches),
            "-" if one.seconds is None else f"{one.seconds:.3f} s",
            "-" if one.entries is None else f"{one.entries:.1f}",
            ", ".join(one.lacking) or "no index serves it",
        )
        for one in found[:_SHOWN]
    ]
    headings = ("unindexed search", "searches", "each took", "each found", "lacks")
    show_table(headings, rows)
    if len(found) > _SHOWN:
        show(f"and {units.number(len(found) - _SHOWN)} more (--json has all)")


def _show_proposals(found: Usage, place: Sequence[str]) -> None:
    if not found.proposals:
        return
    show("")
    rows = [
        (
            one.index,
            units.number(one.searches),
            "-" if not one.seconds else units.duration(one.seconds),
            "-" if one.bytes is None else units.size(one.bytes),
        )
        for one in found.proposals[:_SHOWN]
    ]
    show_table(("proposed index", "serves", "which took", "its table"), rows)
    show(*_addition(found, place))


def _addition(found: Usage, place: Sequence[str]) -> Iterator[str]:
    words = [word for one in found.proposals[:_SHOWN] for word in ("--add", one.index)]
    command = ["ditseed", "tune", "indexes", *place, "-b", found.suffix, *words, "--apply"]
    yield f"to add all of them: {shlex.join(command)}"
