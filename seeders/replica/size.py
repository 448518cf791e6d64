"""How many entries a provider has, where an account that may only read the tree asks."""

from __future__ import annotations

from collections.abc import Sequence

from loader.errors import LoaderError
from loader.server.session import Session

_ENOUGH = 100  # entries in a sample
_MOST = 20_000
_SECONDS = 5  # for the server, which looks at every entry: enough for some five million
_STEPS = (8, 4)  # bits: samples of a 256th of the tree, and of a 16th
_EVEN = 1.5  # times that the sample of the greatest entryUUIDs may differ from that of the least


def entries(server: Session, suffix: str) -> int | None:
    """As slapd's monitor counts them, else by a sample: about. None where neither tells."""
    counted = server.counted(suffix)
    return _by_sample(server, suffix) if counted is None else counted


def _by_sample(server: Session, suffix: str) -> int | None:
    """By the entries with the least and the greatest entryUUIDs: as many, if UUIDs are spread evenly."""
    try:
        for bits in _STEPS:
            found = [_count(server, suffix, where) for where in _ends(bits)]
            if None in found:
                return None
            counts = [one for one in found if one is not None]
            if min(counts) >= _ENOUGH:
                return _scaled(counts, bits)
    except LoaderError:
        pass
    return None


def _scaled(counts: Sequence[int], bits: int) -> int | None:
    if max(counts) > _EVEN * min(counts):
        return None
    return round(sum(counts) / len(counts)) << bits


def _ends(bits: int) -> tuple[str, str]:
    least = f"{(1 << 32 - bits) - 1:08x}-ffff-ffff-ffff-ffffffffffff"
    most = f"{(1 << 32) - (1 << 32 - bits):08x}-0000-0000-0000-000000000000"
    return f"(entryUUID<={least})", f"(entryUUID>={most})"


def _count(server: Session, suffix: str, where: str) -> int | None:
    found, whole = server.first(suffix, _MOST, ["1.1"], where, _SECONDS)
    return len(found) if whole else None
