"""Samples the entries of a running server: reads the entries in some windows of entryUUID, all over the tree.

A bulk load generates entryUUIDs that lie close together, so the number of entries in some windows does not imply the
total. slapd's monitor has the total; else a search without attributes counts the entries.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from loader import units
from loader.operations.export import ExportOptions, trial_plan
from loader.progress import Meter
from loader.server.options import Connection, Search
from loader.server.session import session
from loader.sources import ldap as source
from loader.sources import planner, sampling
from loader.sources.planner import filters, spread
from loader.sources.sampling import Sample, SampleSize

_COUNT_FOR = 30.0  # seconds; slapd returns the DNs of some million entries in this time
_READ_WHOLE = 100_000  # entries; a tree with no more is read in full, so that no large entry is missed
_SPREAD = 16  # minimum number of windows in a part
_LEAST = 4  # a part with fewer than 1/4 of the requested entries is too small
_WIDER = 8  # factor by which the next part is larger then


def of_server(connection: Connection, wanted: SampleSize, scratch: Path, meter: Meter) -> Sample:
    """Returns a sample, with notes on what the server hides. The server evaluates all entries; if entries have no
    entryUUID, all are read. Raises LimitTooLow, EmptyInput, NoSuchBase, ServerDown."""
    options = ExportOptions(connection, scratch, pieces=1)
    start, cut = trial_plan(options, meter)
    (whole, *_) = cut.pieces(options.page)
    entries, counted = cut.expected, True
    if entries is None:
        entries, counted = _count(connection, whole.search, scratch, meter)
    parts, path = 1 if entries <= _READ_WHOLE else int(entries / wanted.of(entries)), scratch / "sample.ldif"
    distribution = None
    if parts > 1:
        with session(connection) as server:
            looked = planner.sample(server, start.base)
        if (uuids := looked.uuids()) is not None and not looked.whole:
            distribution = spread(uuids, cut.expected)
    while distribution and parts > 1:
        windows = replace(distribution, each=max(distribution.each, _SPREAD))
        source.fetch(connection, replace(whole.search, where=filters(windows, parts)[parts // 2]), path, meter)
        read = sampling.count(path)
        if read >= wanted.records / _LEAST:
            how = f"one of {units.number(parts)} parts by entryUUID"
            total = entries if counted else max(entries, parts * read)
            break
        parts = parts // _WIDER
    else:
        source.fetch(connection, whole.search, path, meter)
        how, total, counted = "all of it was read", 0, True  # `of_part` counts the entries
    sample = sampling.of_part([path], total, wanted, how, counted)
    return replace(sample, notes=tuple(cut.hidden))


def _count(connection: Connection, search: Search, scratch: Path, meter: Meter) -> tuple[int, bool]:
    """Counts the entries by a search without attributes. Returns the count, and whether it includes all entries."""
    asked = {scratch / "names.ldif": replace(search, attributes=("1.1",))}
    entries, _, whole = source.fetch_for(_COUNT_FOR, connection, asked, meter)
    for left in scratch.glob("*names.ldif"):
        left.unlink()
    return entries, whole
