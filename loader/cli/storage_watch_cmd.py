"""`ditseed storage watch`."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from loader import units
from loader.cli import access, options, watch_options, watch_shown
from loader.cli.report import show, show_json
from loader.cli.watch_kept import Kept
from loader.errors import EXIT_OK, UsageProblem
from loader.operations.storage.watch import layers, plugin, replay, targets
from loader.operations.storage.watch.history import History
from loader.operations.storage.watch.layers import Layer
from loader.operations.storage.watch.plugin import Limits
from loader.operations.storage.watch.state import State
from loader.operations.storage.watch.targets import Target
from loader.operations.storage.watch.watching import Watch, Wishes

_ONE_CHECKS = ("warning", "critical")
_ONE_WATCHES = (
    *("interval", "samples", "window", "half_life", "words", "probes", "metrics_file"),
    *access.PARAMETERS,
)
_ONE_DRAWS = ("chart_file",)


@click.command("watch")
@click.argument("path", required=False, type=click.Path(path_type=Path, readable=False))
@watch_options.watch_options
@options.json_option
def watch_command(
    path: Path | None,
    words: tuple[str, ...],
    probes: tuple[str, ...],
    is_check: bool,
    replayed: Path | None,
    state_file: Path | None,
    metrics_file: Path | None,
    chart_file: Path | None,
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

    Beside the layers it times how late the processor lets it run, and what --probe names. On a terminal it draws
    a chart while it runs.

    With --check nothing is read but the state file of a running watch: one line with performance data and one
    line for each layer, exit status 0, 1, 2 or 3. Failed reads are CRITICAL for as long as emax shows a peak. A layer
    that is not measured, a watch that has ended, and a state that is missing or older than three intervals are UNKNOWN.

    \b
      ditseed storage watch /var/lib/ldap
      ditseed storage watch /var/lib/ldap --state /run/ditseed-watch.json --json >>/var/log/ditseed-watch.jsonl
      ditseed storage watch --check --state /run/ditseed-watch.json -w 20 -c 200
      ditseed storage watch /var/lib/ldap --probe flock --probe write --probe ldap -H ldapi:/// -Y EXTERNAL
      ditseed storage watch --replay /var/log/ditseed-watch.jsonl --chart watch.svg
      ditseed storage watch --layer lv=/dev/vg/ldap --layer leg1=/dev/sdb --layer leg2=/dev/sdc
    """
    if is_check:
        options.refuse_given((*_ONE_WATCHES, *_ONE_DRAWS, "replayed"), "a watch, not --check")
        return _checked(path, state_file, Limits(warning, critical), as_json)
    options.refuse_given(_ONE_CHECKS, "--check")
    kept = Kept(state_file, metrics_file, chart_file, as_json)
    if replayed is not None:
        options.refuse_given((*_ONE_WATCHES, "state_file"), "a watch, not --replay")
        _replay(path, replayed, kept)
        return EXIT_OK
    found, beside = _targets(path, words, probes, more)
    wishes = Wishes(
        more["interval"], more["window"], _half_life(more["half_life"]), more["samples"]
    )
    return _watch(found, beside, wishes, kept)


def _half_life(text: str) -> float:
    seconds = units.parse_duration(text)
    if not seconds:
        raise UsageProblem(reason="--half-life: a time above 0 is needed")
    return seconds


def _targets(
    path: Path | None, words: Sequence[str], probes: Sequence[str], more: dict[str, Any]
) -> tuple[tuple[Layer, ...], tuple[Target, ...]]:
    """The layers, and what is timed beside them."""
    if (path is None) == (not words):
        raise UsageProblem(reason="say what to watch: PATH, or --layer")
    if "ldap" not in probes:
        options.refuse_given(access.PARAMETERS, "--probe ldap")
    connection = access.connection_of(more)
    found = layers.given(words) if path is None else layers.below(path)
    return found, targets.beside(probes, found, path, connection)


def _checked(path: Path | None, state: Path | None, limits: Limits, as_json: bool) -> int:
    if path is not None or state is None:
        raise UsageProblem(reason="--check takes --state FILE, and no PATH")
    found = plugin.check(state, limits)
    if as_json:
        show_json({**msgspec.to_builtins(found), "status": found.status.name})
    else:
        show(*found.text())
    return int(found.status)


def _replay(path: Path | None, replayed: Path, kept: Kept) -> None:
    if path is not None:
        raise UsageProblem(reason="--replay takes FILE, and no PATH")
    if kept.as_json:
        raise UsageProblem(reason="--replay shows what --json printed: leave --json out")
    history, last = History(), None
    for last in replay.rounds(replayed):
        history.take(last)
    if last is not None:
        kept.end(last, history)


def _watch(found: Sequence[Layer], beside: Sequence[Target], wishes: Wishes, kept: Kept) -> int:
    """The exit status. Ctrl-C is how a watch without --samples ends; any other signal ends it before its time."""
    last: State | None = None
    status = EXIT_OK
    history = History()
    try:
        headings = watch_shown.headings(found, beside, wishes)
        with kept.shown(headings) as show_round, Watch(found, wishes, beside) as watch:
            for last in watch.rounds():
                history.take(last)
                kept.write(last)
                show_round(last, history)
    except KeyboardInterrupt as stop:
        if last is None:
            raise
        number = getattr(signal, str(stop) or "SIGINT")
        if number != signal.SIGINT or wishes.samples is not None:
            status = 128 + number
    if last is not None:
        kept.end(last, history)
    return status
