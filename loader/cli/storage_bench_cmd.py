"""`ditseed storage bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from loader.cli import options
from loader.cli.bench_shown import show_bench
from loader.cli.report import show_json
from loader.cli.trees import Tree
from loader.declared import Size
from loader.errors import EXIT_OK, UsageProblem
from loader.operations.storage.bench import bench as benches
from loader.operations.storage.bench import chart as drawing
from loader.operations.storage.bench import loop_volumes
from loader.operations.storage.bench.installation import BACKENDS, SUFFIX
from loader.operations.storage.bench.results import Targets, Wishes

_TEMPLATE = "people"


class Words(click.ParamType[tuple[str, ...]]):
    """Several, with commas between."""

    name = "choice"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        return tuple(word for word in value.split(",") if word)


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
@click.option(
    "--fio-size",
    type=Size(),
    default="256M",
    show_default=True,
    help="Size of the file that fio reads and writes; 0: none.",
)
@click.option(
    "--fs",
    "kinds",
    type=Words(),
    default="",
    metavar="KIND,...",
    help="Make these file systems on loop devices, and measure them: "
    f"{', '.join(loop_volumes.KINDS)}.",
)
@click.option(
    "--volume-size",
    type=Size(),
    default="1G",
    show_default=True,
    help="With --fs: size of each.",
)
@options.scratch_option("Directory for the files of --fs (default: /tmp).")
@click.option(
    "--slapadd",
    "root",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="ROOT",
    help="Measure another OpenLDAP as well: the one in this root directory, entered by chroot.",
)
@click.option(
    "--backend",
    "backends",
    type=Words(),
    default="mdb",
    show_default=True,
    metavar="NAME,...",
    help=f"With --slapadd: its backends that are measured ({', '.join(BACKENDS)}).",
)
@click.option(
    "--chart",
    type=click.Path(path_type=Path, readable=False),
    metavar="FILE",
    help="Draw the result into FILE.svg or FILE.png.",
)
@options.progress_option
@options.json_option
def bench_command(
    directories: tuple[Path, ...],
    entries: int,
    sync_entries: int,
    searches: int,
    seed: int,
    fio_size: int,
    kinds: tuple[str, ...],
    volume_size: int,
    scratch: Path | None,
    root: Path | None,
    backends: tuple[str, ...],
    chart: Path | None,
    progress_mode: str,
    as_json: bool,
) -> int:
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
    targets = Targets(directories, kinds, volume_size, root, backends, scratch)
    _require(targets)
    if chart is not None:
        drawing.require(chart)
    wishes = Wishes(entries, sync_entries, searches, seed, fio_size)
    recipe = Tree(entries=entries, seed=seed).spec(_TEMPLATE, SUFFIX)
    report = benches.bench(targets, recipe, wishes, options.progress_of(progress_mode))
    if chart is not None:
        drawing.draw(report, chart)
    if as_json:
        show_json(msgspec.to_builtins(report))
    else:
        show_bench(report)
    return EXIT_OK


def _require(targets: Targets) -> None:
    if not targets.directories and not targets.kinds:
        raise UsageProblem(reason="say what to measure: DIR, or --fs")
    if not targets.kinds:
        options.refuse_given(("volume_size",), "--fs")
    if targets.root is None:
        options.refuse_given(("backends",), "--slapadd")
    for one in targets.backends:
        if one not in BACKENDS:
            raise UsageProblem(reason=f"--backend {one}: there are {', '.join(BACKENDS)}")
