"""Which part of the time of a load each index takes.

The core builds a sample of the entries with all indexes and with none. What the one takes more is divided among the
indexes by their keys, each entry of a key counted: to make a key, to sort it and to write it takes about as long for
any index. Processor time is compared, which depends least on what else the host does.
"""

from __future__ import annotations

from dataclasses import replace

from loader.config import Database
from loader.operations.sizing import sampled
from loader.operations.tune import forecast
from loader.operations.tune.target import Target
from loader.progress import Meter
from loader.server import configuration
from loader.sources.sampling import Sample
from loader.storage import temporary

_ROUNDS = 5  # the least of so many: the first ones are those of a host that does other things, too
_LISTS = 30  # idlexp: every entry of a key counts, also where the key becomes a range


def shares(target: Target, database: Database, sample: Sample, meter: Meter) -> dict[str, float]:
    """Of each table of an index, from 0 to 1, by its name in lower case. Raises NotProven, EmptyInput."""
    given = forecast.target_of(target.config, database)
    whole = replace(given, settings=replace(given.settings, idlexp=_LISTS))
    none = forecast.target_of(target.config, replace(database, indexes=()))
    with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
        all_of_them, without = sampled.costs(sample, [whole, none], scratch, meter, _ROUNDS)
    keys = {name: count for name, count in all_of_them.tables.items() if name not in without.tables}
    part = max(0.0, 1 - without.processor / all_of_them.processor)
    total = sum(keys.values())
    return {name.lower(): part * count / total if total else 0.0 for name, count in keys.items()}
