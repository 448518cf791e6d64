"""How `ditseed storage watch` is shown: a line for each round, then the figures of all and the verdict."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from loader import units
from loader.cli.report import show, show_table
from loader.operations.storage.watch.layers import Layer, Target
from loader.operations.storage.watch.state import LayerState, State
from loader.operations.storage.watch.verdict import Figures
from loader.operations.storage.watch.watching import Wishes


def headings(found: Sequence[Layer], beside: Sequence[Target], wishes: Wishes) -> list[str]:
    """Above the lines."""
    names = [one.name for one in found] + [one.layer.name for one in beside]
    numbered = [f"  {number}  {name}" for number, name in enumerate(names, 1)]
    columns = " ".join(f"{number:>9}" for number, _ in enumerate(names, 1))
    every = f"one read of each in every {wishes.interval:g} s; times in milliseconds"
    return [every, *numbered, "", f"{'time':<20} {columns}"]


def line(state: State) -> str:
    """Of one round: the last time of each layer."""
    cells = " ".join(f"{_cell(one, state):>9}" for one in state.rows)
    return f"{units.moment(state.written).replace('+00:00', 'Z'):<20} {cells}"


def cells(one: LayerState, state: State, names: Sequence[str]) -> list[str]:
    """Of one row; its last time as `line` has it."""
    figures = {"last": _cell(one, state)}
    return [
        figures.get(name) or (_ms(getattr(one.figures, name)) if one.figures else "-")
        for name in names
    ]


def _cell(one: LayerState, state: State) -> str:
    if one.in_flight_since is not None:
        return f"({(state.written - one.in_flight_since) * 1000:.0f}...)"
    if one.is_error:
        return "failed"
    return "-" if one.problem or one.figures is None else _ms(one.figures.last)


def show_summary(state: State) -> None:
    """Figures of all layers, notes, and the verdict as the last line."""
    show("")
    heads = ("layer", "bytes", "reads", "missed", *Figures.__struct_fields__[:-1], "p99.9", "adds")
    added = {one.layer: one.seconds for one in state.verdict}
    rows = []
    for one in state.rows:
        figures = msgspec.structs.astuple(one.figures) if one.figures else ()
        times = [_ms(value) for value in figures] or ["-"] * len(Figures.__struct_fields__)
        adds = added.get(one.name) if one.on else None
        rows.append(
            (
                one.name,
                one.size or "-",
                one.reads,
                one.missed,
                *times,
                "-" if adds is None else _ms(adds),
            )
        )
    show_table(heads, rows)
    show("", *_notes(state), f"verdict: {state.told}")


def _notes(state: State) -> list[str]:
    notes: dict[str, list[str]] = {}
    for one in state.rows:
        problem = [f"not measured: {one.problem}"] if one.problem and not one.is_error else []
        problem += [f"{one.failed} failed, the last with: {one.error}"] if one.failed else []
        for note in (*one.notes, *problem):
            notes.setdefault(note, []).append(one.name)
    everywhere = len(state.rows)
    return [
        f"note: {note}" if len(names) == everywhere > 1 else f"note: {', '.join(names)}: {note}"
        for note, names in notes.items()
    ]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3f}"
