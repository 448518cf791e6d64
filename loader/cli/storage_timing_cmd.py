"""`ditseed storage bench` and `ditseed storage watch`: measure the speed of a database's storage."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click
from click import Choice

from loader import plain, units
from loader.cli.options import Json, Shown, refuse_given
from loader.cli.report import show, show_check, show_json_line, show_report, show_table
from loader.cli.trees import Tree
from loader.declared import Argument, Metrics, Milliseconds
from loader.declared import command as declare
from loader.errors import EXIT_OK, UsageProblem
from loader.operations import monitoring
from loader.operations.monitoring import Status
from loader.operations.storage import bench, verdict
from loader.operations.storage import watch as watching
from loader.operations.storage.bench import BenchReport, BenchSizes
from loader.operations.storage.verdict import Layer, Limits, State
from loader.operations.storage.watch import PROBES, Target, Watch, WatchOptions

# --- bench ------------------------------------------------------------------------------------------

_BENCH_HEADINGS = (
    *("file system", "slapadd -q", "slapadd", "ditseed build", "searches", "on disk"),
    *("write", "read", "random reads", "fsyncs"),
)


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
    show_report(report, shown.as_json, lambda: show_bench(report))
    return EXIT_OK


def show_bench(report: BenchReport) -> None:
    rows = []
    for row in report.rows:
        disk = ["-"] * 4
        if row.disk is not None:
            disk = [f"{units.size(speed)}/s" for speed in (row.disk.write, row.disk.read)]
            disk += [f"{rate:.0f}/s" for rate in (row.disk.random_reads, row.disk.fsyncs)]
        sync = units.rate(row.sync.entries, row.sync.seconds) if row.sync else "-"
        searches = f"{row.searches:.0f}/s" if row.searches else "-"
        loads = f"{row.nosync.seconds:.2f} s", sync, f"{row.native.seconds:.2f} s"
        rows.append([row.name, *loads, searches, units.size(row.nosync.allocated), *disk])
    show_table(_BENCH_HEADINGS, rows)
    show("", f"OpenLDAP {report.version}; docs/storage.md says what each column measures")
    show(*(f"{row.name}: fio not measured: {row.no_disk}" for row in report.rows if row.no_disk))


# --- watch ------------------------------------------------------------------------------------------

_CHECK_OPTIONS = ("warning", "critical")
_WATCH_OPTIONS = ("interval", "samples", "window", "half_life", "words", "probes", "metrics_file")


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
        Path | None, "--state FILE", "Write the state to FILE after each round; with --check, read it."
    ] = None
    metrics_file: Annotated[
        Metrics, "Write FILE after each round for node_exporter's textfile collector (NAME.prom)."
    ] = None
    is_check: Annotated[bool, "--check", "Judge --state, as a monitoring plugin."] = False
    warning: Annotated[float | None, "-w --warning MS", Milliseconds(), "WARNING if a davg is above."] = None
    critical: Annotated[float | None, "-c --critical MS", Milliseconds(), "CRITICAL if a davg is above."] = None


@declare("watch")
def watch_command(
    path: Annotated[Path | None, Argument()], options: WatchOptions, watched: _Watched, as_json: Json
) -> int:
    """Time reads of every layer below PATH, and tell which layer adds the delay.

    PATH is a data.mdb, a database directory, or any directory. Its file system, the logical volume, the physical
    volumes and the disks are read directly (past the page cache) at random places, one small read each in every
    interval, each by a thread of its own at real-time priority. Run it as root. It ends after --samples, or by
    Ctrl-C; another signal ends it with exit status 128 and its number.

    Beside the layers it times what --probe names. It shows a table, on a terminal also while it runs; a log needs
    --json.

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
        refuse_given(_WATCH_OPTIONS, "a watch, not --check")
        if path is not None or watched.state_file is None:
            raise UsageProblem(reason="--check takes --state FILE, and no PATH")
        check = verdict.check(watched.state_file, Limits(watched.warning, watched.critical))
        return show_check(check, as_json)
    refuse_given(_CHECK_OPTIONS, "--check")
    if (path is None) == (not watched.words):
        raise UsageProblem(reason="say what to watch: PATH, or --layer")
    if not options.half_life:
        raise UsageProblem(reason="--half-life: a time above 0 is needed")
    layers = watching.given(watched.words) if path is None else watching.below(path)
    return _watch(layers, watching.beside(watched.probes, layers, path), options, watched, as_json)


def _watch(
    layers: Sequence[Layer], beside: Sequence[Target], options: WatchOptions, watched: _Watched, as_json: bool
) -> int:
    """Runs a watch; returns the exit status: 0 if it ended after --samples or, without --samples, by Ctrl-C."""
    last: State | None = None
    status = EXIT_OK
    try:
        with _rounds_shown(as_json) as show_round, Watch(layers, options, beside) as watch:
            for last in watch.rounds():
                if watched.state_file is not None:
                    verdict.write(last, watched.state_file)
                if watched.metrics_file is not None:
                    monitoring.write(verdict.metrics(last), watched.metrics_file)
                show_round(last)
    except KeyboardInterrupt as stop:
        if last is None:
            raise
        number = getattr(signal, str(stop) or "SIGINT")
        if number != signal.SIGINT or options.samples is not None:
            status = 128 + number
    if last is not None and not as_json:
        show_table(_HEADINGS, [*_rows(last)])
        show("", *_notes(last), f"verdict: {last.told}")
    return status


@contextmanager
def _rounds_shown(as_json: bool) -> Iterator[Callable[[State], None]]:
    """Yields a function that shows a round: as JSON, or on a terminal as a table that replaces the last."""
    if as_json:
        yield show_json_line
        return
    # Imported here because importing rich takes longer than printing --help or an error.
    from rich.console import Console, Group
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout)
    if not console.is_terminal or console.is_dumb_terminal:
        yield lambda state: None
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def show_round(state: State) -> None:
            table = Table(*_HEADINGS, box=None, pad_edge=False, header_style="bold")
            for row in _rows(state):
                table.add_row(*(Text(plain.printable(cell)) for cell in row))
            live.update(Group(table, Text(""), Text(plain.printable(state.told))), refresh=True)

        yield show_round


_HEADINGS = ("milliseconds", "reads", "davg", "emax", "adds", "state")


def _rows(state: State) -> Iterator[tuple[str, ...]]:
    """Yields the cells of each layer and probe. The state is what `--check` says without limits."""
    added = {row.layer: row.seconds for row in state.verdict}
    for row in state.rows:
        davg, emax = (_ms(row.figures.davg), _ms(row.figures.emax)) if row.figures else ("-", "-")
        adds = added.get(row.name) if row.on else None
        status, text = verdict.judge(row, state, Limits(), state.written)
        added_text, state_text = "-" if adds is None else _ms(adds), "ok" if status is Status.OK else text
        yield row.name, str(row.reads), davg, emax, added_text, state_text


def _notes(state: State) -> list[str]:
    """Returns each note once, with the names of its layers unless all layers have it."""
    notes: dict[str, list[str]] = {}
    for row in state.rows:
        failed = [f"{row.failed} failed, the last with: {row.error}"] if row.failed else []
        for note in (*row.notes, *failed):
            notes.setdefault(note, []).append(row.name)
    everywhere = len(state.rows)
    return [
        f"note: {note}" if len(names) == everywhere > 1 else f"note: {', '.join(names)}: {note}"
        for note, names in notes.items()
    ]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3f}"
