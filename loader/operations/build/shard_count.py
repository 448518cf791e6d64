"""How many slapadds share a load, and how many of them run at a time."""

from __future__ import annotations

from loader import backmdb, resources
from loader.operations.build.options import MOST_SHARDS, BuildOptions
from loader.operations.publish import TargetDatabase

# Entries of a slice: fewer are not worth a slapadd that starts, and more make each of them slower.
_FEW = 50_000
_MANY = 64  # slices that are cut for speed alone
_LEAST = 5_000  # entries of a slice that has to be small for want of memory
_SHARE = 2  # of the memory there is, this part for environments that grow
_WORTH = 4  # shared entries are loaded by each: together at most this part of the others


def shard_count(options: BuildOptions, place: TargetDatabase, entries: int, needed: int) -> int:
    """How many slices to cut; 1: none. needed: bytes that the database will take."""
    if options.shards == 1 or options.tree or _why_not(options, place):
        return 1
    if options.shards:
        return options.shards
    processors = resources.processors()
    fitting = -(-needed * processors * _SHARE // resources.memory())
    for_speed = min(_MANY, entries // _FEW)
    return max(1, min(max(fitting, for_speed), entries // _LEAST, MOST_SHARDS))


def _why_not(options: BuildOptions, place: TargetDatabase) -> str | None:
    """Why one slapadd must see all, if it must."""
    own = options.write_context and not options.seeding
    if own and backmdb.settings(place.config, place.database).subentry:
        return "sync_use_subentry puts contextCSN into an entry of its own"
    return None


def parallel_slapadds(needed: int, count: int) -> int:
    """Slapadds that run at a time: as many as processors, if what they make together fits into memory."""
    fitting = resources.memory() // _SHARE // max(1, needed // count)
    return max(1, min(resources.processors(), count, fitting))


def max_useful_slices(shared: int, leaves: int, count: int) -> int:
    """As many slices as do not load shared entries for the most part."""
    return min(count, 1 + leaves // (_WORTH * max(shared, 1)))
