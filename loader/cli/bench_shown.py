"""How `storage bench` shows what it measured."""

from __future__ import annotations

from collections.abc import Iterator

from loader import units
from loader.cli.report import show, show_table
from loader.operations.storage.bench.results import Disk, Load, Report, Row

_HEADINGS = (
    *("file system", "engine", "slapadd -q", "slapadd", "nosync is", "ditseed build"),
    *("searches", "per second", "size", "on disk", "on disk (build)"),
)
_DISK = ("file system", "write", "read", "random reads", "fsyncs")


def show_bench(report: Report) -> None:
    show_table(_HEADINGS, [_cells(row) for row in report.rows])
    disks = [(row.name, row.disk) for row in report.rows if row.disk]
    if disks:
        show("")
        show_table(_DISK, [_disk(name, disk) for name, disk in disks])
    show("", *_notes(report))


def _cells(row: Row) -> list[str]:
    return [
        row.name,
        f"back-{row.backend} {row.version}",
        f"{row.nosync.seconds:.2f} s",
        units.rate(row.sync.entries, row.sync.seconds) if row.sync else "-",
        f"{row.times:.0f} times as fast" if row.times else "-",
        f"{row.native.seconds:.2f} s" if row.native else "-",
        f"{row.searched.seconds:.2f} s" if row.searched else "-",
        f"{row.searched.rate:.0f}" if row.searched else "-",
        units.size(row.nosync.apparent),
        units.size(row.nosync.allocated),
        _size(row.native),
    ]


def _size(load: Load | None) -> str:
    return units.size(load.allocated) if load else "-"


def _disk(name: str, disk: Disk) -> list[str]:
    speeds = [f"{units.size(one)}/s" for one in (disk.write, disk.read)]
    return [name, *speeds, f"{disk.random_reads:.0f}/s", f"{disk.fsyncs:.0f}/s"]


def _notes(report: Report) -> Iterator[str]:
    wishes, first = report.wishes, report.rows[0]
    entries = units.number(first.nosync.entries)
    yield f"slapadd -q and ditseed build: {entries} entries, until all is on the disk, on {report.host}"
    if first.sync:
        yield f"slapadd: {units.number(first.sync.entries)} entries, each synced; a whole load takes as much an entry"
    if first.searched:
        yield (
            f"searches: {units.number(wishes.searches)} for an indexed attribute at random, one after the other by one "
            "client on this host; the database was not in memory before"
        )
    if any(row.disk for row in report.rows):
        yield f"fio: direct, 1 at a time, in a file of {units.size(wishes.fio_size)}; random reads and fsyncs of 4 KiB"
    for row in report.rows:
        yield from (f"{row.name}: {one.what} not measured: {one.why}" for one in row.unmeasured)
