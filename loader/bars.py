"""One running step on a terminal, with rich's bar: step, bar, part done, entries, rate, time left; the note below."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from loader import plain, units

if TYPE_CHECKING:
    from loader.progress import Sample

_NAME = 20  # columns of a step's name, beside which all the rest fits into 80
_LEAST_NAME = 15
_GAP = 2
_LEAST_BAR = 4


@contextmanager
def shown(stream: TextIO) -> Iterator[Callable[[Sample], None]]:
    """A function that shows a sample in the place of the one before. At the end the place is cleared."""
    # Here, because rich takes longer to import than a small build.
    from rich.console import Console
    from rich.live import Live

    console = Console(file=stream)
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield lambda sample: live.update(_drawn(sample, console.width), refresh=True)


def _drawn(sample: Sample, width: int = 80) -> Any:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    cells: list[Any] = [Text(plain.sentence(sample.step))]
    beside = width - min(_LEAST_NAME, cells[0].cell_len)
    words = _fitting(list(_words(sample)), beside - _GAP)
    beside -= len(words) + 2 * _GAP  # of the words and the least name
    grid.add_column(no_wrap=True, overflow="ellipsis", max_width=_NAME)
    has_bar = bool(sample.total) and beside >= _LEAST_BAR
    if sample.total and has_bar:
        grid.add_column(ratio=1)
        cells.append(ProgressBar(sample.total, min(sample.entries, sample.total)))
    grid.add_column(no_wrap=True, ratio=None if has_bar else 1)
    cells.append(Text(words))
    grid.add_row(*cells)
    note = plain.sentence(sample.note)
    return Group(grid, Text(f"  {note}")) if note else grid


def _fitting(words: list[str], width: int) -> str:
    """As many words as fit: the part done and the time left longest, the rate goes first, and then the counts."""
    for place in (2, 1, 0):
        if len("  ".join(words)) <= width or len(words) == 1:
            break
        del words[min(place, len(words) - 2)]
    return "  ".join(words)


def _words(sample: Sample) -> Iterator[str]:
    if sample.bytes and not sample.entries and not sample.total:
        yield units.size(sample.bytes)
        yield f"{units.size(sample.bytes / sample.seconds if sample.seconds else 0.0)}/s"
        return
    if sample.total:
        yield f"{min(1.0, sample.entries / sample.total):.0%}"
        yield f"{units.brief(sample.entries)} of {units.brief(sample.total)}"
    else:
        yield f"{units.brief(sample.entries)} entries"
    yield f"{units.brief(sample.recent)}/s"
    if sample.left is not None:
        yield f"{units.duration(sample.left)} left"
