"""`ditseed storage bench`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import click
import msgspec
from click import IntRange

from loader import units
from loader.cli.options import Shown, refuse_given
from loader.cli.report import show, show_json, show_table
from loader.cli.trees import Tree
from loader.common_options import Scratch
from loader.declared import Argument, Size
from loader.declared import command as declare
from loader.errors import EXIT_OK, UsageProblem
from loader.operations.storage.bench import bench as benches
from loader.operations.storage.bench import places as loop_volumes
from loader.operations.storage.bench import results as drawing
from loader.operations.storage.bench.places import BACKENDS, SUFFIX
from loader.operations.storage.bench.results import Disk, Load, Report, Row, Targets, Wishes

_TEMPLATE = "people"


class Words(click.ParamType[tuple[str, ...]]):
    """Several, with commas between."""

    name = "choice"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        return tuple(word for word in value.split(",") if word)


@dataclass(frozen=True, kw_only=True)
class _Places:
    """What is measured."""

    directories: Annotated[tuple[Path, ...], Argument("[DIR]..."), click.Path(path_type=Path)] = ()
    kinds: Annotated[
        tuple[str, ...] | None,
        "--fs KIND,...",
        Words(),
        f"Make these file systems on loop devices, and measure them: {', '.join(loop_volumes.KINDS)}.",
    ] = ()
    volume_size: Annotated[int, Size(), {"default": "1G"}, "With --fs: size of each."] = 1 << 30
    scratch: Annotated[Scratch, "Directory for the files of --fs (default: /tmp)."] = None
    root: Annotated[
        Path | None,
        "--slapadd ROOT",
        click.Path(path_type=Path, file_okay=False),
        "Measure another OpenLDAP as well: the one in this root directory, entered by chroot.",
    ] = None
    backends: Annotated[
        tuple[str, ...] | None,
        "--backend NAME,...",
        Words(),
        {"default": "mdb", "show_default": True},
        f"With --slapadd: its backends that are measured ({', '.join(BACKENDS)}).",
    ] = ("mdb",)
    chart: Annotated[Path | None, "--chart FILE", "Draw the result into FILE.svg or FILE.png."] = None


@dataclass(frozen=True, kw_only=True)
class _Loads:
    """How much is done in each place."""

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
def bench_command(places: _Places, loads: _Loads, shown: Shown) -> int:
    """Measure how fast databases are loaded and searched in each DIR, and what they take there.

    In a directory of its own in each DIR, which is removed afterwards: slapadd -q (nosync), slapadd, which syncs each
    entry, and `ditseed build` load the same generated people; a private slapd is searched for them; fio measures the
    storage alone. A DIR must belong to you, and nobody else may write to it; any mounted file system will do.

    With --fs, file systems are made in files below --tmp, mounted on loop devices, and removed afterwards; no device
    of yours is touched, and no other process sees the mounts. With --slapadd, the database engines of another OpenLDAP
    are measured in the same places. Both need root.

    \b
      ditseed storage bench /mnt/ext4 /mnt/xfs
      ditseed storage bench --fs ext2,ext3,ext4,xfs,btrfs --tmp /srv/scratch --chart bench.svg
      ditseed storage bench /srv --slapadd /srv/bullseye --backend bdb,hdb,mdb --json
    """
    targets = Targets(
        *(places.directories, places.kinds or (), places.volume_size),
        *(places.root, places.backends or (), places.scratch),
    )
    _require(targets)
    if places.chart is not None:
        drawing.require(places.chart)
    recipe = Tree(entries=loads.entries, seed=loads.seed).spec(_TEMPLATE, SUFFIX)
    report = benches.bench(targets, recipe, Wishes(**vars(loads)), shown.progress)
    if places.chart is not None:
        drawing.draw(report, places.chart)
    if shown.as_json:
        show_json(msgspec.to_builtins(report))
    else:
        show_bench(report)
    return EXIT_OK


def _require(targets: Targets) -> None:
    if not targets.directories and not targets.kinds:
        raise UsageProblem(reason="say what to measure: DIR, or --fs")
    if not targets.kinds:
        refuse_given(("volume_size",), "--fs")
    if targets.root is None:
        refuse_given(("backends",), "--slapadd")
    for one in targets.backends:
        if one not in BACKENDS:
            raise UsageProblem(reason=f"--backend {one}: there are {', '.join(BACKENDS)}")


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
