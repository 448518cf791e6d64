"""Which part of the time of a load each index takes.

The core builds a sample of the entries with all indexes and with none. What the one takes more is divided among the
indexes by their keys, each entry of a key counted: to make a key and to sort it takes about as long for any index.
Processor time is compared, which depends least on what else the host does. Keys that become ranges in the whole
database, whose entries are not written one by one then, are ranges in the sample, too.
"""

from __future__ import annotations

import math
from dataclasses import replace

from loader.config import Database
from loader.operations.sizing import sampled
from loader.operations.tune import forecast
from loader.operations.tune.target import Target
from loader.progress import Meter
from loader.server import configuration
from loader.sinks.mdb import Target as BuildTarget
from loader.sources.sampling import Sample
from loader.storage import temporary

_ROUNDS = 3  # the least of so many: the first ones are those of a host that does other things, too
_LISTS = 30  # idlexp: every entry of a key counts, also where the key becomes a range


def shares(target: Target, database: Database, sample: Sample, meter: Meter) -> dict[str, float]:
    """Of each table of an index, from 0 to 1, by its name in lower case. Raises NotProven, EmptyInput."""
    given = forecast.target_of(target.config, database)
    none = forecast.target_of(target.config, replace(database, indexes=()))
    timed = [_with_idlexp(given, _scaled(given.settings.idlexp, sample)), none]
    with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
        all_of_them, without = sampled.costs(sample, timed, scratch, meter, _ROUNDS)
        (counted,) = sampled.costs(sample, [_with_idlexp(given, _LISTS)], scratch, meter, 1)
    keys = {name: count for name, count in counted.tables.items() if name not in without.tables}
    part = max(0.0, 1 - without.processor / all_of_them.processor)
    total = sum(keys.values())
    return {name.lower(): part * count / total if total else 0.0 for name, count in keys.items()}


def _with_idlexp(given: BuildTarget, idlexp: int) -> BuildTarget:
    return replace(given, settings=replace(given.settings, idlexp=idlexp))


def _scaled(idlexp: int, sample: Sample) -> int:
    """A key is a range in the sample from as large a share of the entries on as in the whole."""
    sampled, total = len(sample.names), max(1, sample.total)
    return max(1, idlexp + round(math.log2(min(1.0, max(1, sampled) / total))))
