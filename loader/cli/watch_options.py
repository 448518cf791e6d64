"""The options of `ditseed storage watch`: what is timed, how often, and what is kept of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from loader.cli import options
from loader.operations.storage.watch.layers import PROBES

_LEAST_INTERVAL = 0.05  # seconds


class Milliseconds(click.ParamType[float]):
    """A limit: above 0. In seconds from here on."""

    name = "ms"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        return click.FloatRange(0, min_open=True).convert(value, param, ctx) / 1000


def _file(name: str, said: str, *more: str) -> Any:
    kind = click.Path(path_type=Path, readable=False)
    return click.option(name, *more, type=kind, metavar="FILE", help=said)


timed_options = options.stack(
    click.option(
        "--interval",
        type=click.FloatRange(_LEAST_INTERVAL),
        default=3.0,
        show_default=True,
        metavar="SECONDS",
        help="Time between two reads of a layer.",
    ),
    click.option(
        "--samples", type=click.IntRange(1), help="End after that many rounds (default: never)."
    ),
    click.option(
        "--layer",
        "words",
        multiple=True,
        metavar="NAME=PATH",
        help="Time these instead of the layers below PATH, from the top down.",
    ),
    click.option(
        "--probe",
        "probes",
        multiple=True,
        type=click.Choice(tuple(PROBES)),
        help="Time this beside the layers, too: flock of a file, a write that ends when the disks have it. "
        "Repeatable.",
    ),
    click.option(
        "--window",
        type=click.IntRange(2),
        default=100,
        show_default=True,
        help="Number of reads that davg and dstd_dev are of.",
    ),
    click.option(
        "--half-life",
        default="5m",
        show_default=True,
        metavar="TIME",
        help="Half-life with which emin and emax are released.",
    ),
)
kept_options = options.stack(
    _file(
        "--state",
        "Write what is known to FILE after each round; with --check, read it.",
        "state_file",
    ),
    options.metrics_option(
        "Write FILE after each round for node_exporter's textfile collector (NAME.prom)."
    ),
)
read_options = options.stack(
    click.option(
        "--check", "is_check", is_flag=True, help="Judge --state, as a monitoring plugin."
    ),
    click.option(
        "-w", "--warning", type=Milliseconds(), metavar="MS", help="WARNING if a davg is above."
    ),
    click.option(
        "-c", "--critical", type=Milliseconds(), metavar="MS", help="CRITICAL if a davg is above."
    ),
)
watch_options = options.stack(timed_options, kept_options, read_options)
