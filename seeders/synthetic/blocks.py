"""A range of entries as blocks of whole records, in order, made by one process or several.

The bytes depend on the range alone: neither the number of processes nor where blocks end
changes them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from loader.errors import ToolFailed
from seeders.synthetic.entries import Maker, Recipe

BLOCK_ENTRIES = 5_000
AHEAD = 3  # blocks each process may be ahead of the reader

_maker: Maker | None = None  # of a worker process


@dataclass(frozen=True)
class Range:
    """Entries `first` to `end`-1. The containers belong to entry 0."""

    first: int
    end: int

    @property
    def entries(self) -> int:
        return self.end - self.first

    def cut(self, size: int) -> Iterator[Range]:
        """Pieces that end at multiples of `size`, wherever the range begins."""
        first = self.first
        while first < self.end:
            end = min(self.end, first - first % size + size)
            yield Range(first, end)
            first = end


@dataclass(frozen=True)
class Block:
    """Bytes that hold `entries` whole records."""

    data: bytes
    entries: int


class Blocks:
    """Makes blocks of one recipe in `jobs` processes; 1 is this one. A context manager."""

    def __init__(self, recipe: Recipe, jobs: int = 1) -> None:
        self._recipe = recipe
        self._jobs = jobs
        self._maker = Maker(recipe)
        # spawn: a forked child would hold the locks of our threads.
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(jobs, context, _begin, (recipe,)) if jobs > 1 else None

    def of(self, asked: Range) -> Iterator[Block]:
        """The blocks of a range; the containers first when it begins at 0."""
        if asked.first == 0:
            containers = self._maker.containers()
            yield Block(b"".join(containers), len(containers))
        pieces = asked.cut(BLOCK_ENTRIES)
        yield from (
            self._ahead(pieces) if self._pool else (_block(self._maker, piece) for piece in pieces)
        )

    def _ahead(self, pieces: Iterator[Range]) -> Iterator[Block]:
        assert self._pool is not None
        waiting: deque[Future[Block]] = deque()
        try:
            for piece in pieces:
                waiting.append(self._pool.submit(_work, piece))
                if len(waiting) > self._jobs * AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            reason = "it was ended from outside (is memory short?)"
            raise ToolFailed(
                tool="a generating process", status="unknown", reason=reason
            ) from error

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def __enter__(self) -> Blocks:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def _block(maker: Maker, piece: Range) -> Block:
    return Block(maker.block(piece.first, piece.end), piece.entries)


def _begin(recipe: Recipe) -> None:
    """A worker starts. Ctrl-C is its parent's business; it ends with its parent in any case."""
    global _maker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _maker = Maker(recipe)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(piece: Range) -> Block:
    assert _maker is not None
    return _block(_maker, piece)
