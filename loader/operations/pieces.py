"""Pieces of a tree read into files: `part-PIECE-...` once a piece is whole and the catalogue says so, before that
`try-...` with the connection that reads it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from loader.progress import Meter
from loader.run.log import Catalogue, killpoint
from loader.server.options import Connection
from loader.server.wire import Part
from loader.sources import ldap as source
from loader.sources.planner import Callbacks, ConnectionSlot, Piece, RateLimit, rate_limit, schedule
from loader.storage import files

STEP = "read"
_TRY = "try"


@dataclass(frozen=True)
class Pieces:
    """Where they go, from which servers, and how fast. `jobs`: connections to each server."""

    directory: Path
    catalogue: Catalogue
    servers: Sequence[Connection]
    jobs: int
    compress: bool
    max_rate: int = 0
    max_latency: float | None = None

    def read(self, wanted: Sequence[Piece], meter: Meter, among: Collection[int] | None = None) -> None:
        """From all servers, or from these (by their numbers). Raises what `schedule` does."""
        for path in self.directory.glob(f"{_TRY}-*"):
            path.unlink()  # of an interrupted run
        chosen = range(len(self.servers)) if among is None else sorted(among)
        slots = [ConnectionSlot(server, n) for n in range(self.jobs) for server in chosen]
        pace = RateLimit(self.max_rate)
        with ExitStack() as watched:
            for server in chosen:
                watched.enter_context(rate_limit(pace, self.servers[server], self.max_latency))
            schedule(wanted, slots, self._reading(pace), meter)

    def done(self) -> dict[str, int]:
        """Entries of each piece that is read."""
        return {name: facts["entries"] for name, facts in self.catalogue.partitions(STEP).items()}

    def sums(self) -> dict[str, str]:
        """Of the files of all pieces that are read, by name."""
        found = self.catalogue.partitions(STEP).values()
        return {name: one for facts in found for name, one in facts["sums"].items()}

    def read_elsewhere(self, among: Collection[int]) -> set[str]:
        """Names of pieces that were read from other servers than these."""
        found = self.catalogue.partitions(STEP)
        return {name for name, facts in found.items() if facts.get("server", 0) not in among}

    def _reading(self, pace: RateLimit) -> Callbacks[Part]:
        def read(slot: ConnectionSlot, piece: Piece, meter: Meter) -> Part:
            return source.fetch_part(
                self.servers[slot.server],
                piece.search,
                self.directory,
                _name(slot, piece),
                compress=self.compress,
                meter=meter,
                pace=pace,
                retries=0,
            )

        return Callbacks(read, self._keep, self._discard)

    def _keep(self, slot: ConnectionSlot, piece: Piece, found: Part) -> None:
        for path in self.directory.glob(f"part-{piece.name}[-.]*"):
            path.unlink()  # read before, and not recorded, or from a server that has died
        for path in self._tried(slot, piece):
            path.rename(path.with_name(_final(path.name, slot, piece)))
        files.make_durable(self.directory)
        names = (_final(Path(file).name, slot, piece) for file in found.files)
        facts = {
            "entries": found.entries,
            "bytes": found.bytes,
            "sums": dict(zip(names, found.sums, strict=True)),
            "server": slot.server,
        }
        self.catalogue.finish_partition(STEP, piece.name, facts)
        killpoint("read.partition")

    def _discard(self, slot: ConnectionSlot, piece: Piece) -> None:
        for path in self._tried(slot, piece):
            path.unlink()

    def _tried(self, slot: ConnectionSlot, piece: Piece) -> list[Path]:
        return list(self.directory.glob(f"{_name(slot, piece)}[-.]*"))


def _name(slot: ConnectionSlot, piece: Piece) -> str:
    """Of the files of one try."""
    return f"{_TRY}-{slot}-of-{piece.name}"


def _final(name: str, slot: ConnectionSlot, piece: Piece) -> str:
    return f"part-{piece.name}{name.removeprefix(_name(slot, piece))}"
