"""`ditseed tune indexes --stats-log`: which indexes are used, which searches have none, and what to add."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from loader import units
from loader.cli.report import show, show_table
from loader.operations.tune.index_use import IndexUse, Unindexed, Usage

_SHOWN = 20


def show_usage(found: Usage, place: Sequence[str]) -> None:
    """`place`: the options that name the target."""
    told = f"{units.number(found.searches)} searches below {found.suffix}"
    if found.of_base:
        told += (
            f", and {units.number(found.of_base)} of a single entry by its DN, which need no index"
        )
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
    show(*_commands(found, place))


def _commands(found: Usage, place: Sequence[str]) -> Iterator[str]:
    words = [word for one in found.proposals[:_SHOWN] for word in ("--add", one.index)]
    command = ["ditseed", "tune", "indexes", *place, "-b", found.suffix, *words, "--apply"]
    yield f"to add all of them: {shlex.join(command)}"
