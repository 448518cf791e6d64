"""Shows the steps of a run: as a bar on a terminal (rich), as lines, or as JSON."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TextIO

from loader import log, plain, units
from loader.progress.meter import SCHEMA_VERSION, Meter, Sampler
from loader.progress.recorder import Recorder

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


# --- show ------------------------------------------------------------------------------------------------------------
#
# Shows the steps of a run: on a terminal, as lines, or as JSON.


_log = logging.getLogger(__name__)


def _moves_cursor() -> bool:
    return os.environ.get("TERM") not in ("dumb", "unknown")


class Progress:
    """Shows steps. `mode`: "terminal", "plain", "json" or "none"; "auto" picks by stderr. `recorder`: records them, in
    every mode."""

    def __init__(
        self, mode: str = "auto", stream: TextIO | None = None, every: float = 15.0, recorder: Recorder | None = None
    ) -> None:
        self._recorder = recorder
        self._stream = stream or sys.stderr
        self._told: set[str] = set()  # files whose last line had no end
        if mode == "auto":
            mode = "terminal" if self._stream.isatty() and _moves_cursor() else "plain"
        self._mode = mode
        self._every = {"terminal": 0.25, "json": 1.0}.get(mode, every)

    @contextmanager
    def step(self, name: str, total: int | None = None) -> Iterator[Meter]:
        meter = Meter(name, total)
        _log.info("%s: started", name)
        with self._recorded(meter), self._shown(meter):
            yield meter
        self._close(meter)

    def _recorded(self, meter: Meter) -> AbstractContextManager[None]:
        return self._recorder.following(meter) if self._recorder else nullcontext()

    @contextmanager
    def _shown(self, meter: Meter) -> Iterator[None]:
        if self._mode == "none":
            yield
            return
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(meter, ended), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()

    def passed_over(self, name: str) -> None:
        """A step that an earlier run did."""
        if self._recorder:
            self._recorder.passed_over(name)
        self.say(f"{name}: done before")

    def say(self, text: str) -> None:
        """A line for people; in the modes for machines it is for the log only."""
        _log.info("%s", plain.with_operator_paths(text), extra=log.SHOWN if self._mode != "none" else None)
        if self._mode in ("terminal", "plain"):
            print(plain.shortened(plain.with_operator_paths(text), plain.WHOLE), file=self._stream, flush=True)

    def _tell_open_ends(self, meter: Meter) -> None:
        for path in dict.fromkeys(meter.open_ends):
            if path not in self._told:
                self._told.add(path)
                self.say(f"{path}: note: the last line has no end; it is taken as it is, as slapadd does")

    def _watch(self, meter: Meter, ended: threading.Event) -> None:
        sampler = Sampler(meter)
        if self._mode == "terminal":
            self._draw(sampler, ended)
            return
        while not ended.wait(self._every):
            sample = sampler.look()
            lines = [sample.record()] if self._mode == "json" else sample.lines()
            print("\n".join(lines), file=self._stream, flush=True)

    def _draw(self, sampler: Sampler, ended: threading.Event) -> None:
        """A step that is done at once draws nothing."""
        if ended.wait(self._every):
            return
        with shown(self._stream) as show:
            show(sampler.look())
            while not ended.wait(self._every):
                show(sampler.look())

    def _close(self, meter: Meter) -> None:
        self._tell_open_ends(meter)
        for path, size, _ in meter.files:
            _log.info("%s: read %s (%s)", meter.name, plain.with_operator_paths(path), units.size(size))
        if self._mode == "json":
            facts = {"event": "step", "step": meter.name, "entries": meter.entries, "seconds": meter.seconds}
            print(json.dumps({"schema_version": SCHEMA_VERSION, **facts}), file=self._stream, flush=True)
        speed = f", {units.rate(meter.entries, meter.seconds)}" if meter.entries else ""
        count = f"{units.number(meter.entries)} entries in " if meter.entries else ""
        self.say(f"{meter.name}: {count}{units.duration(meter.seconds)}{speed}")
