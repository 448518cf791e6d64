"""`ditseed storage watch`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from loader import units
from loader.cli import options, watch_shown
from loader.cli.report import show, show_json, show_json_line
from loader.errors import EXIT_OK, UsageProblem
from loader.operations.storage.watch import layers, plugin
from loader.operations.storage.watch import state as states
from loader.operations.storage.watch.layers import Layer
from loader.operations.storage.watch.plugin import Limits
from loader.operations.storage.watch.state import State
from loader.operations.storage.watch.watching import Watch, Wishes

_LEAST_INTERVAL = 0.05  # seconds
_ONE_CHECKS = ("warning", "critical")
_ONE_WATCHES = ("interval", "samples", "window", "half_life", "words", "metrics_file")


class Milliseconds(click.ParamType[float]):
    """A limit: above 0. In seconds from here on."""

    name = "ms"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        return click.FloatRange(0, min_open=True).convert(value, param, ctx) / 1000


@click.command("watch")
@click.argument("path", required=False, type=click.Path(path_type=Path, readable=False))
@click.option(
    "--interval",
    type=click.FloatRange(_LEAST_INTERVAL),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two reads of a layer.",
)
@click.option(
    "--samples", type=click.IntRange(1), help="End after that many rounds (default: never)."
)
@click.option(
    "--layer",
    "words",
    multiple=True,
    metavar="NAME=PATH",
    help="Time these instead of the layers below PATH, from the top down.",
)
@click.option(
    "--window",
    type=click.IntRange(2),
    default=100,
    show_default=True,
    help="Number of reads that davg and dstd_dev are of.",
)
@click.option(
    "--half-life",
    default="5m",
    show_default=True,
    metavar="TIME",
    help="Half-life with which emin and emax are released.",
)
@click.option(
    "--state",
    "state_file",
    type=click.Path(path_type=Path, readable=False),
    metavar="FILE",
    help="Write what is known to FILE after each round; with --check, read it.",
)
@click.option(
    "--prometheus",
    "metrics_file",
    type=click.Path(path_type=Path, readable=False),
    metavar="FILE",
    help="Write FILE after each round for node_exporter's textfile collector (NAME.prom).",
)
@click.option("--check", "is_check", is_flag=True, help="Judge --state, as a monitoring plugin.")
@click.option(
    "-w", "--warning", type=Milliseconds(), metavar="MS", help="WARNING if a davg is above."
)
@click.option(
    "-c", "--critical", type=Milliseconds(), metavar="MS", help="CRITICAL if a davg is above."
)
@options.json_option
def watch_command(
    path: Path | None,
    interval: float,
    samples: int | None,
    words: tuple[str, ...],
    window: int,
    half_life: str,
    state_file: Path | None,
    metrics_file: Path | None,
    is_check: bool,
    warning: float | None,
    critical: float | None,
    as_json: bool,
) -> int:
    """Time reads of every layer below PATH, and tell which layer adds the delay.

    PATH is a data.mdb, a database directory, or any directory. Its file system, the logical volume, the physical
    volumes and the disks are read directly (past the page cache) at random places, one small read each in every
    interval, each by a thread of its own at real-time priority. Run it as root. It ends after --samples, or by Ctrl-C.

    With --check nothing is read but the state file of a running watch: one line with performance data and one
    line for each layer, exit status 0, 1, 2 or 3. A state that is missing or older than three intervals is UNKNOWN.

    \b
      ditseed storage watch /var/lib/ldap
      ditseed storage watch /var/lib/ldap --state /run/ditseed-watch.json --json >>/var/log/ditseed-watch.jsonl
      ditseed storage watch --check --state /run/ditseed-watch.json -w 20 -c 200
      ditseed storage watch --layer lv=/dev/vg/ldap --layer leg1=/dev/sdb --layer leg2=/dev/sdc
    """
    if is_check:
        options.refuse_given(_ONE_WATCHES, "a watch, not --check")
        return _checked(path, state_file, Limits(warning, critical), as_json)
    options.refuse_given(_ONE_CHECKS, "--check")
    wishes = Wishes(interval, window, _half_life(half_life), samples)
    _watch(_layers(path, words), wishes, _Files(state_file, metrics_file), as_json)
    return EXIT_OK


def _half_life(text: str) -> float:
    seconds = units.parse_duration(text)
    if not seconds:
        raise UsageProblem(reason="--half-life: a time above 0 is needed")
    return seconds


def _layers(path: Path | None, words: Sequence[str]) -> tuple[Layer, ...]:
    if (path is None) == (not words):
        raise UsageProblem(reason="say what to watch: PATH, or --layer")
    return layers.given(words) if path is None else layers.below(path)


def _checked(path: Path | None, state: Path | None, limits: Limits, as_json: bool) -> int:
    if path is not None or state is None:
        raise UsageProblem(reason="--check takes --state FILE, and no PATH")
    found = plugin.check(state, limits)
    if as_json:
        show_json({**msgspec.to_builtins(found), "status": found.status.name})
    else:
        show(*found.text())
    return int(found.status)


class _Files(msgspec.Struct, frozen=True):
    """Where what is known is kept, for other programs."""

    state: Path | None
    metrics: Path | None

    def write(self, found: State) -> None:
        if self.state is not None:
            states.write(found, self.state)
        if self.metrics is not None:
            from loader.operations.storage.watch import prometheus  # it takes long to import

            prometheus.write(found, self.metrics)


def _watch(found: Sequence[Layer], wishes: Wishes, kept: _Files, as_json: bool) -> None:
    """To be ended by a signal is nothing wrong, unless no round was."""
    last: State | None = None
    if not as_json:
        show(*watch_shown.headings(found, wishes))
    try:
        with Watch(found, wishes) as watch:
            for last in watch.rounds():
                kept.write(last)
                if as_json:
                    show_json_line(msgspec.to_builtins(last))
                else:
                    show(watch_shown.line(last))
    except KeyboardInterrupt:
        if last is None:
            raise
    if last is not None and not as_json:
        watch_shown.show_summary(last)
