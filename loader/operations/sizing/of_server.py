"""A sample of the entries of a running server: those of some windows of entryUUID, all over the tree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from loader import units
from loader.operations.export import ExportOptions, plan_of, trial_plan
from loader.progress import Meter
from loader.run.catalogue import Facts
from loader.server import entry_count
from loader.server.options import Connection
from loader.server.session import session
from loader.sources import ldap as source
from loader.sources import planner, sampling
from loader.sources.sampling import Sample, SampleSize
from loader.sources.spread import spread
from loader.sources.windows import filters

_SHARE = 0.01  # where neither a share is wanted nor the number of entries known


def of_server(connection: Connection, wanted: SampleSize, scratch: Path, meter: Meter) -> Sample:
    """Its notes are what the server hides. The server looks at all entries; a directory whose entries have no entryUUID
    is read whole. Raises LimitTooLow, EmptyInput, NoSuchBase, ServerDown."""
    asked = ExportOptions(connection, scratch, pieces=1)
    cut = trial_plan(asked, meter)
    (whole, *_) = plan_of(cut, asked.page).partitions
    with session(connection) as server:
        counted = entry_count.entries(server, str(cut["base"]), sampled=True)
    pieces = _pieces(counted, wanted)
    where = _piece(connection, cut, pieces) if pieces > 1 else None
    search, how = whole.search, "all of it"
    if where:
        search = replace(search, where=where)
        how = f"one of {units.number(pieces)} parts by entryUUID"
    else:
        pieces, counted = 1, None  # what is read is counted
    path = scratch / "sample.ldif"
    source.fetch(connection, search, path, meter)
    return replace(sampling.of_part(path, pieces, counted, how), notes=tuple(cut["hidden"]))


def _pieces(entries: int | None, wanted: SampleSize) -> int:
    """1: all of it."""
    if not entries:
        return int(1 / (wanted.share or _SHARE))
    return int(entries / wanted.of(entries))


def _piece(connection: Connection, cut: Facts, pieces: int) -> str | None:
    """A filter for one of so many parts; None where all is read."""
    base = str(cut["base"])
    with session(connection) as server:
        looked = planner.sample(server, base)
    found = looked.stamps()
    if looked.whole or len(found) < len(looked.entries):
        return None
    try:
        lie = spread(found, cut["context_csns"], cut["expected"])
    except ValueError:  # an entryUUID that is none
        return None
    return filters(lie, pieces)[pieces // 2]
