"""Logical volumes and the physical volumes that their extents are on, as lvs(8) and pvs(8) print them."""

from __future__ import annotations

from collections import Counter

import msgspec

from loader.storage.asking import Asker

_FORM = ("--reportformat", "json", "--units", "b", "--nosuffix")
_SEGMENTS = (
    "lv_name,vg_name,lv_dm_path,lv_size,segtype,stripes,data_stripes,stripe_size,seg_size_pe,seg_pe_ranges,"
    "lv_read_ahead,vg_extent_size,data_percent,metadata_percent,pool_lv"
)
_PHYSICAL = "pv_name,vg_name,pe_start,pv_pe_count,pv_pe_alloc_count"


class _Answer(msgspec.Struct):
    """Numbers are strings; lvs adds what it logged."""

    report: list[dict[str, list[dict[str, str]]]]


class Segment(msgspec.Struct, frozen=True):
    """`extents`: how many of the volume. `legs`: (physical volume, extents on it); `stripe_size` in bytes, 0: none.

    `data_stripes`: those without the copies of raid10 and the parity of raid5; for raid1 lvs counts the copies.
    """

    kind: str
    stripes: int
    stripe_size: int
    extents: int
    legs: tuple[tuple[str, int], ...]
    data_stripes: int = 1


class Volume(msgspec.Struct, frozen=True):
    """`pool`: of a thin volume, the name of its pool. Percentages: of a pool; None elsewhere. Sizes in bytes."""

    name: str
    group: str
    path: str
    size: int
    extent_size: int
    read_ahead: str
    segments: tuple[Segment, ...]
    pool: str | None
    data_percent: float | None
    metadata_percent: float | None

    @property
    def extents(self) -> int:
        return sum(segment.extents for segment in self.segments)

    @property
    def legs(self) -> dict[str, int]:
        """Physical volume -> extents of this volume on it."""
        found: Counter[str] = Counter()
        for segment in self.segments:
            found.update(dict(segment.legs))
        return dict(found)


class PhysicalVolume(msgspec.Struct, frozen=True):
    """`start`: bytes before its first extent. `disks`: that it is on; empty where the kernel does not tell."""

    name: str
    group: str
    start: int
    extents: int
    used: int
    disks: tuple[str, ...] = ()

    @property
    def free(self) -> int:
        return self.extents - self.used


class Volumes(msgspec.Struct, frozen=True):
    """All of this host."""

    logical: tuple[Volume, ...] = ()
    physical: tuple[PhysicalVolume, ...] = ()

    def at(self, path: str) -> Volume | None:
        """The volume of a device-mapper path."""
        return next((one for one in self.logical if one.path == path), None)

    def named(self, group: str, name: str) -> Volume | None:
        """One of a group; lvs writes the names of hidden ones in brackets."""
        fits = (one for one in self.logical if one.group == group and one.name.strip("[]") == name)
        return next(fits, None)

    def of_group(self, group: str) -> tuple[PhysicalVolume, ...]:
        return tuple(one for one in self.physical if one.group == group)


def read(asker: Asker) -> Volumes:
    """None of either where the tools give no answer, or one that is not theirs."""
    segments = asker.output("logical volumes", "lvs", "-a", *_FORM, "--segments", "-o", _SEGMENTS)
    physical = asker.output("physical volumes", "pvs", *_FORM, "-o", _PHYSICAL)
    return Volumes(
        asker.parsed("logical volumes", "lvs", segments, parse_segments) or (),
        asker.parsed("physical volumes", "pvs", physical, parse_physical) or (),
    )


def parse_segments(text: str) -> tuple[Volume, ...]:
    rows: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in _rows(text, "seg"):
        rows.setdefault((row["vg_name"], row["lv_name"]), []).append(row)
    return tuple(map(_volume, rows.values()))


def parse_physical(text: str) -> tuple[PhysicalVolume, ...]:
    return tuple(
        PhysicalVolume(
            row["pv_name"],
            row["vg_name"],
            _whole(row["pe_start"]),
            _whole(row["pv_pe_count"]),
            _whole(row["pv_pe_alloc_count"]),
        )
        for row in _rows(text, "pv")
    )


def _rows(text: str, name: str) -> list[dict[str, str]]:
    return [row for one in msgspec.json.decode(text, type=_Answer).report for row in one[name]]


def _volume(rows: list[dict[str, str]]) -> Volume:
    first = rows[0]
    return Volume(
        name=first["lv_name"],
        group=first["vg_name"],
        path=first["lv_dm_path"],
        size=_whole(first["lv_size"]),
        extent_size=_whole(first["vg_extent_size"]),
        read_ahead=first["lv_read_ahead"],
        segments=tuple(map(_segment, rows)),
        pool=first["pool_lv"].strip("[]") or None,
        data_percent=_percent(first["data_percent"]),
        metadata_percent=_percent(first["metadata_percent"]),
    )


def _segment(row: dict[str, str]) -> Segment:
    return Segment(
        row["segtype"],
        _whole(row["stripes"]),
        _whole(row["stripe_size"]),
        _whole(row["seg_size_pe"]),
        tuple(_leg(words) for words in row["seg_pe_ranges"].split() if words.startswith("/")),
        _whole(row["data_stripes"]),
    )


def _leg(words: str) -> tuple[str, int]:
    """Of "/dev/sda:100-199"."""
    name, _, extents = words.rpartition(":")
    first, _, last = extents.partition("-")
    return name, int(last) - int(first) + 1


def _whole(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _percent(text: str) -> float | None:
    """lvs writes them as the locale does."""
    return float(text.replace(",", ".")) if text else None
