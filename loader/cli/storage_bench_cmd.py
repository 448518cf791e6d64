"""`ditseed storage bench`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click
import msgspec
from click import IntRange

from loader import units
from loader.cli.options import Shown
from loader.cli.report import show, show_json, show_table
from loader.cli.trees import Tree
from loader.declared import Argument, Size
from loader.declared import command as declare
from loader.errors import EXIT_OK
from loader.operations.storage import bench
from loader.operations.storage.bench import BenchReport, BenchRow, BenchSizes, DiskSpeed

_TEMPLATE = "people"
_HEADINGS = (
    *("file system", "slapadd -q", "slapadd", "nosync is", "ditseed build"),
    *("searches", "per second", "size", "on disk", "on disk (build)"),
)
_DISK_HEADINGS = ("file system", "write", "read", "random reads", "fsyncs")


@dataclass(frozen=True, kw_only=True)
class _Loads:
    """How much is done in each directory."""

    entries: Annotated[int, "-n --entries N", IntRange(1), "Number of entries that are loaded without sync."] = 20_000
    sync_entries: Annotated[
        int,
        "--sync-entries N",
        IntRange(0),
        "Number of entries that are loaded with sync, each a transaction; 0: none.",
    ] = 1_000
    searches: Annotated[int, "--searches N", IntRange(0), "Number of searches; 0: none."] = 20_000
    seed: Annotated[int, "Random seed; a different seed makes different entries."] = 1
    fio_size: Annotated[int, Size(), {"default": "256M"}, "Size of the file that fio reads and writes; 0: none."] = (
        256 << 20
    )


@declare("bench")
def bench_command(
    directories: Annotated[tuple[Path, ...], Argument("DIR..."), click.Path(path_type=Path), {"required": True}],
    loads: _Loads,
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
    recipe = Tree(entries=loads.entries, seed=loads.seed).spec(_TEMPLATE, bench.SUFFIX)
    report = bench.bench(directories, recipe, BenchSizes(**vars(loads)), shown.progress)
    if shown.as_json:
        show_json(msgspec.to_builtins(report))
    else:
        show_bench(report)
    return EXIT_OK


def show_bench(report: BenchReport) -> None:
    show_table(_HEADINGS, [_cells(row) for row in report.rows])
    disks = [(row.name, row.disk) for row in report.rows if row.disk]
    if disks:
        show("")
        show_table(_DISK_HEADINGS, [_disk_cells(name, disk) for name, disk in disks])
    show("", *_notes(report))


def _cells(row: BenchRow) -> list[str]:
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


def _notes(report: BenchReport) -> Iterator[str]:
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
        yield from (f"{row.name}: {one.what} not measured: {one.why}" for one in row.unmeasured)
