"""`ditseed tune indexes --costs`: what each index takes, and the command that removes those that no search uses."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from loader import units
from loader.cli.report import show, show_table
from loader.operations.tune.index_costs import Costs, IndexCost

_HEADINGS = ("index", "takes", "of the file", "of a load", "keys", "records", "ranges", "")


def show_costs(found: Costs, place: Sequence[str]) -> None:
    """`place`: the options that name the target."""
    taken = units.size(sum(one.bytes for one in found.tables))
    show(
        "",
        f"the indexes of {found.suffix} take {taken} of {units.size(found.used)} in use",
    )
    show_table(_HEADINGS, [row for one in found.tables for row in _rows(one, found.used)])
    show(*_notes(found), *_commands(found, place))


def _rows(one: IndexCost, used: int) -> Iterator[tuple[str, ...]]:
    """Of the table, and of each kind of those that share it."""
    yield _row(one)
    for kind in one.kinds if len(one.kinds) > 1 else ():
        if kind.bytes is not None:
            remark = "not used" if kind.unused else ""
            size, share = units.size(kind.bytes), f"{kind.bytes / used:.1%}"
            yield f"  {kind.index}", size, share, "", "", "", "", remark


def _row(one: IndexCost) -> tuple[str, ...]:
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


def _notes(found: Costs) -> Iterator[str]:
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


def _commands(found: Costs, place: Sequence[str]) -> Iterator[str]:
    words = [
        word for one in found.tables for gone in one.unused or () for word in ("--remove", gone)
    ]
    if words:
        command = ["ditseed", "tune", "indexes", *place, "-b", found.suffix, *words, "--apply"]
        yield f"to remove what no search uses{_price(found)}: {shlex.join(command)}"


def _price(found: Costs) -> str:
    sizes = [kind.bytes for one in found.tables for kind in one.kinds if kind.unused]
    known = [size for size in sizes if size is not None]
    return f", which takes {units.size(sum(known))}" if len(known) == len(sizes) else ""
