"""`ditseed storage bench` and `ditseed storage watch`: measure the speed of a database's storage.

On a terminal, a watch shows a row per layer with a chart of the last rounds; elsewhere, it prints a line per round. It
ends with the figures of all layers and the verdict.
"""

from __future__ import annotations

import math
import signal
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import msgspec
from click import Choice

from loader import plain, units
from loader.cli.options import Json, Shown, refuse_given
from loader.cli.report import show, show_json, show_json_line, show_table
from loader.cli.trees import Tree
from loader.common_options import Metrics
from loader.declared import Argument, Milliseconds
from loader.declared import command as declare
from loader.errors import EXIT_OK, UsageProblem
from loader.operations.storage import bench
from loader.operations.storage import verdict as states
from loader.operations.storage import watch as watching
from loader.operations.storage.bench import BenchReport, BenchRow, BenchSizes, DiskSpeed
from loader.operations.storage.verdict import Figures, Layer, LayerState, Limits, State, is_hung
from loader.operations.storage.watch import PROBES, Target, Watch, Wishes

if TYPE_CHECKING:
    from rich.console import RenderableType

# --- bench ------------------------------------------------------------------------------------------

_HEADINGS = (
    *("file system", "slapadd -q", "slapadd", "nosync is", "ditseed build"),
    *("searches", "per second", "size", "on disk", "on disk (build)"),
)
_DISK_HEADINGS = ("file system", "write", "read", "random reads", "fsyncs")


@declare("bench")
def bench_command(
    directories: Annotated[tuple[Path, ...], Argument("DIR..."), click.Path(path_type=Path), {"required": True}],
    sizes: BenchSizes,
    shown: Shown,
) -> int:
    """Measure how fast databases are loaded and searched in each DIR, and what they take there.

    In a directory of its own in each DIR, which is removed afterwards: slapadd -q (nosync), slapadd, which syncs each
    entry, and `ditseed build` load the same generated people; a private slapd is searched for them; fio measures the
    storage alone. A DIR must belong to you, and nobody else may write to it; any mounted file system will do.

    \b
      ditseed storage bench /mnt/ext4 /mnt/xfs
      ditseed storage bench /srv --entries 1000000 --sync-entries 0 --json
    """
    recipe = Tree(entries=sizes.entries, seed=sizes.seed).spec("people", bench.SUFFIX)
    report = bench.bench(directories, recipe, sizes, shown.progress)
    if shown.as_json:
        show_json(msgspec.to_builtins(report))
    else:
        show_bench(report)
    return EXIT_OK


def show_bench(report: BenchReport) -> None:
    show_table(_HEADINGS, [_bench_cells(row) for row in report.rows])
    disks = [(row.name, row.disk) for row in report.rows if row.disk]
    if disks:
        show("")
        show_table(_DISK_HEADINGS, [_disk_cells(name, disk) for name, disk in disks])
    show("", *_bench_notes(report))


def _bench_cells(row: BenchRow) -> list[str]:
    return [
        row.name,
        f"{row.nosync.seconds:.2f} s",
        units.rate(row.sync.entries, row.sync.seconds) if row.sync else "-",
        f"{row.times:.0f} times as fast" if row.times else "-",
        f"{row.native.seconds:.2f} s",
        f"{row.searched.seconds:.2f} s" if row.searched else "-",
        f"{row.searched.rate:.0f}" if row.searched else "-",
        units.size(row.nosync.apparent),
        units.size(row.nosync.allocated),
        units.size(row.native.allocated),
    ]


def _disk_cells(name: str, disk: DiskSpeed) -> list[str]:
    speeds = [f"{units.size(speed)}/s" for speed in (disk.write, disk.read)]
    return [name, *speeds, f"{disk.random_reads:.0f}/s", f"{disk.fsyncs:.0f}/s"]


def _bench_notes(report: BenchReport) -> Iterator[str]:
    sizes, first = report.sizes, report.rows[0]
    entries = units.number(first.nosync.entries)
    yield f"OpenLDAP {report.version} on {report.host}"
    yield f"slapadd -q and ditseed build: {entries} entries, until all is on the disk"
    if first.sync:
        yield f"slapadd: {units.number(first.sync.entries)} entries, each synced; a whole load takes as much an entry"
    if first.searched:
        yield (
            f"searches: {units.number(sizes.searches)} for an indexed attribute at random, one after the other by one "
            "client on this host; the database was not in memory before"
        )
    if any(row.disk for row in report.rows):
        yield f"fio: direct, 1 at a time, in a file of {units.size(sizes.fio_size)}; random reads and fsyncs of 4 KiB"
    for row in report.rows:
        yield from (f"{row.name}: {part.what} not measured: {part.why}" for part in row.unmeasured)


# --- watch ------------------------------------------------------------------------------------------

_ONE_CHECKS = ("warning", "critical")
_ONE_WATCHES = ("interval", "samples", "window", "half_life", "words", "probes", "metrics_file")


@dataclass(frozen=True, kw_only=True)
class _Watched:
    words: Annotated[
        tuple[str, ...], "--layer NAME=PATH", "Time these instead of the layers below PATH, from the top down."
    ] = ()
    probes: Annotated[
        tuple[str, ...],
        "--probe",
        Choice(tuple(PROBES)),
        "Time this beside the layers, too: flock of a file, a write that ends when the disks have it. Repeatable.",
    ] = ()
    state_file: Annotated[
        Path | None, "--state FILE", "Write what is known to FILE after each round; with --check, read it."
    ] = None
    metrics_file: Annotated[
        Metrics, "Write FILE after each round for node_exporter's textfile collector (NAME.prom)."
    ] = None
    is_check: Annotated[bool, "--check", "Judge --state, as a monitoring plugin."] = False
    warning: Annotated[float | None, "-w --warning MS", Milliseconds(), "WARNING if a davg is above."] = None
    critical: Annotated[float | None, "-c --critical MS", Milliseconds(), "CRITICAL if a davg is above."] = None

    def write(self, state: State) -> None:
        """Writes the state file and the metrics file, as requested, after a round."""
        if self.state_file is not None:
            states.write(state, self.state_file)
        if self.metrics_file is not None:
            states.write_metrics(state, self.metrics_file)


@declare("watch")
def watch_command(path: Annotated[Path | None, Argument()], wishes: Wishes, watched: _Watched, as_json: Json) -> int:
    """Time reads of every layer below PATH, and tell which layer adds the delay.

    PATH is a data.mdb, a database directory, or any directory. Its file system, the logical volume, the physical
    volumes and the disks are read directly (past the page cache) at random places, one small read each in every
    interval, each by a thread of its own at real-time priority. Run it as root. It ends after --samples, or by
    Ctrl-C; another signal ends it with exit status 128 and its number.

    Beside the layers it times what --probe names. On a terminal it draws a chart while it runs.

    With --check nothing is read but the state file of a running watch: one line with performance data and one
    line for each layer, exit status 0, 1, 2 or 3. Failed reads are CRITICAL for as long as emax shows a peak. A layer
    that is not measured, a watch that has ended, and a state that is missing or older than three intervals are UNKNOWN.

    \b
      ditseed storage watch /var/lib/ldap
      ditseed storage watch /var/lib/ldap --state /run/ditseed-watch.json --json >>/var/log/ditseed-watch.jsonl
      ditseed storage watch --check --state /run/ditseed-watch.json -w 20 -c 200
      ditseed storage watch /var/lib/ldap --probe flock --probe write
      ditseed storage watch --layer lv=/dev/vg/ldap --layer leg1=/dev/sdb --layer leg2=/dev/sdc
    """
    if watched.is_check:
        refuse_given(_ONE_WATCHES, "a watch, not --check")
        limits = Limits(watched.warning, watched.critical)
        return _checked(path, watched.state_file, limits, as_json)
    refuse_given(_ONE_CHECKS, "--check")
    if (path is None) == (not watched.words):
        raise UsageProblem(reason="say what to watch: PATH, or --layer")
    if not wishes.half_life:
        raise UsageProblem(reason="--half-life: a time above 0 is needed")
    found = watching.given(watched.words) if path is None else watching.below(path)
    return _watch(found, watching.beside(watched.probes, found, path), wishes, watched, as_json)


def _checked(path: Path | None, state: Path | None, limits: Limits, as_json: bool) -> int:
    if path is not None or state is None:
        raise UsageProblem(reason="--check takes --state FILE, and no PATH")
    check = states.check(state, limits)
    if as_json:
        show_json({**msgspec.to_builtins(check), "status": check.status.name})
    else:
        show(*check.text())
    return int(check.status)


def _watch(found: Sequence[Layer], beside: Sequence[Target], wishes: Wishes, watched: _Watched, as_json: bool) -> int:
    """Runs a watch; returns the exit status: 0 if it ended after --samples or, without --samples, by Ctrl-C."""
    last: State | None = None
    status = EXIT_OK
    try:
        headings = _headings(found, beside, wishes)
        with _rounds_shown(headings, as_json) as show_round, Watch(found, wishes, beside) as watch:
            for last in watch.rounds():
                watched.write(last)
                show_round(last)
    except KeyboardInterrupt as stop:
        if last is None:
            raise
        number = getattr(signal, str(stop) or "SIGINT")
        if number != signal.SIGINT or wishes.samples is not None:
            status = 128 + number
    if last is not None and not as_json:
        _show_summary(last)
    return status


def _headings(found: Sequence[Layer], beside: Sequence[Target], wishes: Wishes) -> list[str]:
    """Returns the headings of the lines that are printed without a terminal."""
    names = [layer.name for layer in found] + [target.layer.name for target in beside]
    numbered = [f"  {number}  {name}" for number, name in enumerate(names, 1)]
    columns = " ".join(f"{number:>9}" for number, _ in enumerate(names, 1))
    every = f"one read of each in every {wishes.interval:g} s; times in milliseconds"
    return [every, *numbered, "", f"{'time':<20} {columns}"]


def _line(state: State) -> str:
    """Returns the line of a round: the last time of each layer."""
    cells = " ".join(f"{_last(layer, state):>9}" for layer in state.rows)
    return f"{units.moment(state.written).replace('+00:00', 'Z'):<20} {cells}"


def _last(layer: LayerState, state: State) -> str:
    if layer.in_flight_since is not None:
        return f"({(state.written - layer.in_flight_since) * 1000:.0f}...)"
    if layer.is_error:
        return "failed"
    return "-" if layer.problem or layer.figures is None else _ms(layer.figures.last)


def _show_summary(state: State) -> None:
    """Prints the figures of all layers, the notes, and the verdict as the last line."""
    columns = Figures.__struct_fields__
    added = {row.layer: row.seconds for row in state.verdict}
    rows = []
    for layer in state.rows:
        figures = msgspec.structs.astuple(layer.figures) if layer.figures else ()
        times = [_ms(value) for value in figures] or ["-"] * len(columns)
        adds = added.get(layer.name) if layer.on else None
        counts = (layer.name, layer.size or "-", layer.reads, layer.missed)
        rows.append((*counts, *times, "-" if adds is None else _ms(adds)))
    show("")
    show_table(("layer", "bytes", "reads", "missed", *columns[:-1], "p99.9", "adds"), rows)
    show("", *_notes(state), f"verdict: {state.told}")


def _notes(state: State) -> list[str]:
    """Returns each note once, with the names of its layers unless all layers have it."""
    notes: dict[str, list[str]] = {}
    for layer in state.rows:
        problem = [f"not measured: {layer.problem}"] if layer.problem and not layer.is_error else []
        problem += [f"{layer.failed} failed, the last with: {layer.error}"] if layer.failed else []
        for note in (*layer.notes, *problem):
            notes.setdefault(note, []).append(layer.name)
    everywhere = len(state.rows)
    return [
        f"note: {note}" if len(names) == everywhere > 1 else f"note: {', '.join(names)}: {note}"
        for note, names in notes.items()
    ]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3f}"


_BARS = "▁▂▃▄▅▆▇█"
_ASCII = "_.-=+*%#"
_COLUMNS = ("last", "davg", "emax")
_NAME, _NUMBER = 32, 10  # widths of the columns for a layer's name and for a number, in characters
_LEAST = 1e-6  # seconds at the lower end of the scale
_ROUNDS = 1000  # rounds kept per layer: more than a terminal has columns


@contextmanager
def _rounds_shown(headings: Sequence[str], as_json: bool) -> Iterator[Callable[[State], None]]:
    """Yields a function that shows a round: as JSON, as a line, or on a terminal by redrawing the previous round."""
    if as_json:
        yield lambda state: show_json_line(msgspec.to_builtins(state))
        return
    # Imported here because importing rich takes longer than printing --help or an error.
    from rich.console import Console
    from rich.live import Live

    console = Console(file=sys.stdout)
    if not console.is_terminal or console.is_dumb_terminal:
        show(*headings)
        yield lambda state: show(_line(state))
        return
    bars = _ASCII if console.options.ascii_only else _BARS
    heights: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_ROUNDS))
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def show_round(state: State) -> None:
            for layer in state.rows:
                heights[layer.name].append(height_of(layer, state))
            live.update(_drawn(state, heights, console.width, bars), refresh=True)

        yield show_round


def height_of(layer: LayerState, state: State) -> float:
    """Returns the seconds of the last read, or those since a hanging read began; 0 if nothing was measured."""
    last = layer.figures.last if layer.figures and (layer.problem is None or layer.is_error) else 0.0
    since = layer.in_flight_since
    if since is None or not is_hung(layer, state.interval, state.written):
        return last
    return max(last, state.written - since)


def _drawn(state: State, heights: Mapping[str, Sequence[float]], width: int, bars: str) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    rounds = max(8, width - _NAME - len(_COLUMNS) * _NUMBER - 2)
    drawn = {layer.name: list(heights[layer.name])[-rounds:] for layer in state.rows}
    scale = Scale.of(height for row in drawn.values() for height in row)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("milliseconds", width=_NAME - 1, no_wrap=True, overflow="ellipsis")
    for name in _COLUMNS:
        table.add_column(name, justify="right", width=_NUMBER - 1, no_wrap=True)
    table.add_column(scale.legend(bars), no_wrap=True, overflow="crop")
    for layer in state.rows:
        figures = [_ms(getattr(layer.figures, name)) if layer.figures else "-" for name in _COLUMNS[1:]]
        bar = "".join(scale.bar(height, bars) for height in drawn[layer.name])
        table.add_row(*(Text(plain.printable(text)) for text in (layer.name, _last(layer, state), *figures, bar)))
    return Group(table, Text(""), Text(plain.printable(state.told)))


class Scale:
    """A logarithmic scale of seconds, between whole powers of ten."""

    def __init__(self, least: float, most: float) -> None:
        self._low = math.floor(math.log10(max(least, _LEAST)))
        self._high = max(self._low + 1, math.ceil(math.log10(max(most, _LEAST))))

    @classmethod
    def of(cls, heights: Iterable[float]) -> Scale:
        measured = [height for height in heights if height]
        return cls(min(measured, default=_LEAST), max(measured, default=_LEAST))

    def bar(self, height: float, bars: str) -> str:
        """Returns the character for a height; a blank if nothing was measured."""
        if not height:
            return " "
        share = (math.log10(max(height, _LEAST)) - self._low) / (self._high - self._low)
        return bars[min(len(bars) - 1, max(0, int(share * len(bars))))]

    def legend(self, bars: str) -> str:
        return f"{bars[0]} {10**self._low * 1000:g} to {bars[-1]} {10**self._high * 1000:g} ms"
