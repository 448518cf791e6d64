"""`ditseed storage watch`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from loader import units
from loader.cli import options, watch_live, watch_options, watch_shown
from loader.cli.report import show, show_json, show_json_line
from loader.errors import EXIT_OK, UsageProblem
from loader.operations.storage.watch import layers
from loader.operations.storage.watch import state as states
from loader.operations.storage.watch.layers import Layer, Target
from loader.operations.storage.watch.state import Limits, State
from loader.operations.storage.watch.watching import Watch, Wishes

_ONE_CHECKS = ("warning", "critical")
_ONE_WATCHES = ("interval", "samples", "window", "half_life", "words", "probes", "metrics_file")


@click.command("watch")
@click.argument("path", required=False, type=click.Path(path_type=Path, readable=False))
@watch_options.watch_options
@options.json_option
def watch_command(
    path: Path | None,
    words: tuple[str, ...],
    probes: tuple[str, ...],
    is_check: bool,
    state_file: Path | None,
    metrics_file: Path | None,
    warning: float | None,
    critical: float | None,
    as_json: bool,
    **more: Any,
) -> int:
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
    if is_check:
        options.refuse_given(_ONE_WATCHES, "a watch, not --check")
        return _checked(path, state_file, Limits(warning, critical), as_json)
    options.refuse_given(_ONE_CHECKS, "--check")
    if (path is None) == (not words):
        raise UsageProblem(reason="say what to watch: PATH, or --layer")
    found = layers.given(words) if path is None else layers.below(path)
    beside = layers.beside(probes, found, path)
    wishes = Wishes(
        more["interval"], more["window"], _half_life(more["half_life"]), more["samples"]
    )
    return _watch(found, beside, wishes, Kept(state_file, metrics_file, as_json))


def _half_life(text: str) -> float:
    seconds = units.parse_duration(text)
    if not seconds:
        raise UsageProblem(reason="--half-life: a time above 0 is needed")
    return seconds


def _checked(path: Path | None, state: Path | None, limits: Limits, as_json: bool) -> int:
    if path is not None or state is None:
        raise UsageProblem(reason="--check takes --state FILE, and no PATH")
    found = states.check(state, limits)
    if as_json:
        show_json({**msgspec.to_builtins(found), "status": found.status.name})
    else:
        show(*found.text())
    return int(found.status)


class Kept(msgspec.Struct, frozen=True):
    """Where the rounds of a watch go: to a terminal, into lines, and into files for other programs."""

    state: Path | None
    metrics: Path | None
    as_json: bool

    @contextmanager
    def shown(self, headings: Sequence[str]) -> Iterator[Callable[[State], None]]:
        """A function that shows a round."""
        if self.as_json:
            yield lambda state: show_json_line(msgspec.to_builtins(state))
            return
        with watch_live.shown() as show_live:
            if show_live is None:
                show(*headings)
            yield show_live or (lambda state: show(watch_shown.line(state)))

    def write(self, found: State) -> None:
        if self.state is not None:
            states.write(found, self.state)
        if self.metrics is not None:
            from loader.operations.storage.watch import prometheus  # it takes long to import

            prometheus.write(found, self.metrics)


def _watch(found: Sequence[Layer], beside: Sequence[Target], wishes: Wishes, kept: Kept) -> int:
    """The exit status. Ctrl-C is how a watch without --samples ends; any other signal ends it before its time."""
    last: State | None = None
    status = EXIT_OK
    try:
        headings = watch_shown.headings(found, beside, wishes)
        with kept.shown(headings) as show_round, Watch(found, wishes, beside) as watch:
            for last in watch.rounds():
                kept.write(last)
                show_round(last)
    except KeyboardInterrupt as stop:
        if last is None:
            raise
        number = getattr(signal, str(stop) or "SIGINT")
        if number != signal.SIGINT or wishes.samples is not None:
            status = 128 + number
    if last is not None and not kept.as_json:
        watch_shown.show_summary(last)
    return status
