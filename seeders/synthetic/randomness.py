"""Counter-based randomness: value = f(seed, name, entry number).

No state, so any range of entries can be made alone.
The mixing is splitmix64's (Steele, Lea, Flood 2014): a few multiplications, the same in any
language.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

Draw = Callable[[int], int]  # entry number -> 64 random bits

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


def stream(seed: int, name: str) -> Draw:
    """The draws of one name; those of other names or seeds have nothing to do with them."""
    digest = hashlib.blake2b(f"{seed}\0{name}".encode(), digest_size=8).digest()
    start = int.from_bytes(digest, "big")

    def draw(number: int) -> int:
        bits = (start + number * _GAMMA) & _MASK
        bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
        return bits ^ (bits >> 31)

    return draw


def below(bits: int, count: int) -> int:
    """64 random bits as a number from 0 to count-1."""
    return (bits * count) >> 64
