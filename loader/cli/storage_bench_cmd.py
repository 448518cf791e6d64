"""`ditseed storage bench`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from loader import units
from loader.cli import options, trees
from loader.cli.report import show, show_json, show_table
from loader.errors import EXIT_OK, UsageProblem
from loader.operations.storage.bench import bench as benches
from loader.operations.storage.bench.installation import SUFFIX
from loader.operations.storage.bench.results import Load, Report, Row, Wishes

_TEMPLATE = "people"


@click.command("bench")
@click.argument("directories", nargs=-1, metavar="[DIR]...", type=click.Path(path_type=Path))
@click.option(
    "-n",
    "--entries",
    type=click.IntRange(1),
    default=20_000,
    show_default=True,
    metavar="N",
    help="Number of entries that are loaded without sync.",
)
@click.option(
    "--sync-entries",
    type=click.IntRange(0),
    default=1_000,
    show_default=True,
    metavar="N",
    help="Number of entries that are loaded with sync, each a transaction; 0: none.",
)
@click.option(
    "--searches",
    type=click.IntRange(0),
    default=20_000,
    show_default=True,
    metavar="N",
    help="Number of searches; 0: none.",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Random seed; a different seed makes different entries.",
)
@options.progress_option
@options.json_option
def bench_command(
    directories: tuple[Path, ...],
    entries: int,
    sync_entries: int,
    searches: int,
    seed: int,
    progress_mode: str,
    as_json: bool,
) -> int:
    """Measure how fast databases are loaded and searched in each DIR: one row for each of them.

    \b
      ditseed storage bench /mnt/ext4 /mnt/xfs
    """
    if not directories:
        raise UsageProblem(reason="say what to measure: DIR")
    wishes = Wishes(entries, sync_entries, searches, seed)
    recipe = trees.recipe_of(_TEMPLATE, _tree(entries, seed), SUFFIX)
    report = benches.bench(directories, recipe, wishes, options.progress_of(progress_mode))
    if as_json:
        show_json(msgspec.to_builtins(report))
    else:
        _show(report)
    return EXIT_OK


def _tree(entries: int, seed: int) -> dict[str, object]:
    return {"entries": entries, "seed": seed, "defines": (), "operational": False}


def _show(report: Report) -> None:
    headings = (
        "file system",
        "slapadd -q",
        "slapadd",
        "nosync",
        "native",
        "searches",
        "size",
        "on disk",
    )
    show_table(headings, [_cells(row) for row in report.rows])
    show("", *_notes(report))


def _cells(row: Row) -> list[str]:
    return [
        row.name,
        f"{row.nosync.seconds:.2f} s",
        _rate(row.sync),
        f"{row.times:.0f} times" if row.times else "-",
        f"{row.native.seconds:.2f} s" if row.native else "-",
        f"{row.searched.seconds:.2f} s" if row.searched else "-",
        units.size(row.nosync.apparent),
        units.size(row.nosync.allocated),
    ]


def _rate(load: Load | None) -> str:
    return units.rate(load.entries, load.seconds) if load else "-"


def _notes(report: Report) -> Iterator[str]:
    wishes = report.wishes
    yield f"slapadd -q, native: {units.number(report.rows[0].nosync.entries)} entries, until all is on the disk"
