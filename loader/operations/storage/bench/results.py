"""What a bench has measured."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from loader.errors import UsageProblem
from loader.storage import files
from loader.storage.volumes import Unseen


class Load(msgspec.Struct, frozen=True):
    """`seconds`: until all is on the disk. Bytes: `apparent`, as ls tells; `allocated`, as du does."""

    entries: int
    seconds: float
    apparent: int
    allocated: int

    @property
    def rate(self) -> float:
        """Entries per second."""
        return self.entries / self.seconds


class Searched(msgspec.Struct, frozen=True):
    """By one client, one after the other."""

    searches: int
    seconds: float

    @property
    def rate(self) -> float:
        """Searches per second."""
        return self.searches / self.seconds


class Disk(msgspec.Struct, frozen=True):
    """As fio measures it. In bytes per second; in operations per second."""

    write: float
    read: float
    random_reads: float
    fsyncs: float


class Row(msgspec.Struct, frozen=True):
    """A directory, and a database engine in it. `backend`: of slapd. `version`: of OpenLDAP. None: not measured, for a
    reason in `unmeasured`."""

    name: str
    directory: str
    kind: str
    layout: str | None
    backend: str
    version: str
    nosync: Load
    searched: Searched | None
    sync: Load | None
    native: Load | None
    disk: Disk | None
    unmeasured: tuple[Unseen, ...]

    @property
    def times(self) -> float | None:
        """How many times as fast per entry it is without sync."""
        return self.nosync.rate / self.sync.rate if self.sync else None


class Wishes(msgspec.Struct, frozen=True):
    """How much is done in each directory. 0 `sync_entries`, `searches` or `fio_size` (bytes): not at all."""

    entries: int
    sync_entries: int
    searches: int
    seed: int
    fio_size: int


class Targets(msgspec.Struct, frozen=True):
    """What is measured: directories, file systems that are made for it (their kinds, and bytes of each), and the
    `backends` of another OpenLDAP in the directory `root`. `tmp`: where the file systems are; None: $TMPDIR or /tmp."""

    directories: tuple[Path, ...] = ()
    kinds: tuple[str, ...] = ()
    volume_size: int = 1 << 30
    root: Path | None = None
    backends: tuple[str, ...] = ()
    tmp: Path | None = None


class Report(msgspec.Struct, frozen=True):
    """`began`: seconds since the epoch."""

    began: float
    host: str
    wishes: Wishes
    rows: tuple[Row, ...]


# --- chart -----------------------------------------------------------------------------------------------------------
#
# A bench as a picture: rates on a logarithmic axis, and the space that the databases take.


_KINDS = (".svg", ".png")
_LACKING = (
    "needs the Python package matplotlib: pip install 'ditseed[charts]', or your distribution's (Debian: apt install "
    "python3-matplotlib)"
)
_PER_ROW = 1.0  # inches


class _Series(msgspec.Struct, frozen=True):
    """`of`: what a row has of it. Colours of Okabe and Ito, which the colour-blind tell apart."""

    name: str
    colour: str
    of: Callable[[Row], float | None]


def _rate(load: Load | None) -> float | None:
    return load.rate if load else None


_RATES = (
    _Series("ditseed build: entries per second", "#009e73", lambda row: _rate(row.native)),
    _Series("slapadd -q (nosync): entries per second", "#0072b2", lambda row: row.nosync.rate),
    _Series("slapadd: entries per second", "#d55e00", lambda row: _rate(row.sync)),
    _Series("indexed searches per second", "#999999", lambda row: row.searched.rate if row.searched else None),
)
_MIB = 1 << 20
_SPACE = (
    _Series("ditseed build", "#009e73", lambda row: row.native.allocated / _MIB if row.native else None),
    _Series("slapadd -q", "#0072b2", lambda row: row.nosync.allocated / _MIB),
)


def require(path: Path) -> None:
    """Raises UsageProblem where such a file cannot be drawn, before anything is measured."""
    if path.suffix.lower() not in _KINDS:
        raise UsageProblem(reason=f"--chart {path}: the name must end in {' or '.join(_KINDS)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageProblem(reason=f"--chart {_LACKING}")
    with files.explained(path):
        path.absolute().parent.stat()
    files.require_writable(path.absolute().parent)


def draw(report: Report, path: Path) -> None:
    """Raises NoSpace and others."""
    import matplotlib as library  # it takes long to import
    from matplotlib.figure import Figure

    with library.rc_context({"svg.fonttype": "none", "svg.hashsalt": "ditseed"}):
        figure = Figure(figsize=(11, 1.6 + _PER_ROW * len(report.rows)), layout="constrained")
        rates, space = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        rates.set_xscale("log")
        _bars(rates, report, _RATES, f"{report.rows[0].nosync.entries:,} entries", "per second")
        _bars(space, report, _SPACE, "space on disk", "MiB")
        rates.set_yticks(range(len(report.rows)), [_label(row, report) for row in report.rows])
        rates.invert_yaxis()
        shown = rates.get_legend_handles_labels()
        figure.legend(*shown, loc="outside lower center", ncols=4, fontsize=7)
        with files.explained(path), files.creating(path) as file:
            kind = path.suffix[1:].lower()
            figure.savefig(file, format=kind, metadata={"Date": None} if kind == "svg" else None)
            file.flush()
            os.fsync(file.fileno())


def _bars(axes: Any, report: Report, series: tuple[_Series, ...], title: str, unit: str) -> None:
    height = 0.84 / len(series)
    for place, one in enumerate(series):
        there = [(row, one.of(found)) for row, found in enumerate(report.rows)]
        drawn = [(row, value) for row, value in there if value is not None]
        middle = (place - (len(series) - 1) / 2) * height
        bars = axes.barh(
            [row + middle for row, _ in drawn], [value for _, value in drawn], height, color=one.colour, label=one.name
        )
        axes.bar_label(bars, fmt="{:,.0f}", padding=2, fontsize=7)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(unit)
    axes.margins(x=0.12)
    axes.grid(axis="x", alpha=0.3)


def _label(row: Row, report: Report) -> str:
    """The engine, too, where there are several."""
    several = len({(one.backend, one.version) for one in report.rows}) > 1
    return f"{row.name}\nback-{row.backend} {row.version}" if several else row.name
