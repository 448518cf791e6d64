"""How many entries a provider has, where an account that may only read the tree asks."""

from __future__ import annotations

from loader.errors import LoaderError
from loader.server.session import Session

_ENOUGH = 100  # entries in a sample
_MOST = 20_000
_SECONDS = 5  # for the server, which looks at every entry: enough for some five million
_STEPS = (8, 4)  # bits: samples of a 256th of the tree, and of a 16th
_EVEN = 1.5  # times that two samples beside each other may differ


def entries(server: Session, suffix: str, sampled: bool) -> int | None:
    """As slapd's monitor counts them, else by a sample (`sampled`: it is worth seconds of the server's work): about.
    None where neither tells."""
    counted = server.counted(suffix)
    return _by_sample(server, suffix) if counted is None and sampled else counted


def _by_sample(server: Session, suffix: str) -> int | None:
    """By the entries with the least entryUUIDs, if UUIDs are spread evenly: twice as many up to twice as far."""
    try:
        for bits in _STEPS:
            one, two = (_count(server, suffix, _below(bits - more)) for more in (0, 1))
            if one is None or two is None:
                return None
            if one >= _ENOUGH:
                even = one / _EVEN < two - one < one * _EVEN
                return two << (bits - 1) if even else None
    except LoaderError:
        pass
    return None


def _below(bits: int) -> str:
    """One of so many bits of the entryUUIDs: 8 for a 256th."""
    return f"(entryUUID<={(1 << 32 - bits) - 1:08x}-ffff-ffff-ffff-ffffffffffff)"


def _count(server: Session, suffix: str, where: str) -> int | None:
    found, whole = server.first(suffix, _MOST, ["1.1"], where, _SECONDS)
    return len(found) if whole else None
