"""Pieces shared out among connections, with real threads: failures, errors, the end; and what is tried again."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from loader import _native, defaults
from loader.errors import Cancelled, ConnectionLost, LimitTooLow, LoaderError, ServerSilent
from loader.progress import Meter
from loader.server import wire
from loader.server.options import Connection, Search
from loader.sources import ldap, planner
from loader.sources.planner import ConnectionSlot, Piece, schedule

SIZE = 1000  # entries a piece


PIECES = [Piece(f"p{number}", Search("")) for number in range(6)]


def lost(slot: ConnectionSlot, piece: Piece) -> None:
    raise ConnectionLost(uri="ldap://x", reason="it fell")


@dataclass
class Servers:
    """`rates`: entries a second by server. `fails`: called before each read; raises what goes wrong."""

    rates: dict[int, float]
    fails: Callable[[ConnectionSlot, Piece], None] = lambda slot, piece: None
    kept: list[tuple[ConnectionSlot, Piece]] = field(default_factory=list)
    begun: list[tuple[ConnectionSlot, Piece]] = field(default_factory=list)

    def read(self, slot: ConnectionSlot, piece: Piece, meter: Meter) -> None:
        self.begun.append((slot, piece))
        self.fails(slot, piece)
        for _ in range(20):
            if meter.cancelled.wait(SIZE / 20 / self.rates[slot.server]):
                raise Cancelled(signal="another")
            meter.add(SIZE // 20)
        self.kept.append((slot, piece))

    def share(self, each: int = 1, pieces: list[Piece] = PIECES) -> Meter:
        meter = Meter("read")
        slots = [ConnectionSlot(server, number) for server in self.rates for number in range(each)]
        schedule(pieces, slots, self.read, meter)
        return meter

    def assert_all(self, meter: Meter) -> None:
        """Each piece once, and nothing counted twice."""
        assert Counter(piece for _, piece in self.kept) == Counter(PIECES)
        assert meter.entries == SIZE * len(PIECES)


def test_each_is_read_once() -> None:
    begun = {0: threading.Event(), 1: threading.Event()}

    def until_both_read(slot: ConnectionSlot, piece: Piece) -> None:
        """Otherwise one server may have read all before the threads of the other run for the first time."""
        begun[slot.server].set()
        assert begun[1 - slot.server].wait(60), "each server is given pieces"

    servers = Servers({0: 50_000, 1: 50_000}, until_both_read)
    servers.assert_all(servers.share(each=2))
    assert {slot.server for slot, _ in servers.begun} == {0, 1}


def test_a_server_that_dies() -> None:
    def dies(slot: ConnectionSlot, piece: Piece) -> None:
        if slot.server == 1:
            lost(slot, piece)

    servers = Servers({0: 20_000, 1: 20_000}, dies)
    servers.assert_all(servers.share(each=2))
    assert {slot.server for slot, _ in servers.kept} == {0}


def test_one_that_comes_back() -> None:
    down = threading.Event()

    def fails_once(slot: ConnectionSlot, piece: Piece) -> None:
        if not down.is_set():
            down.set()
            lost(slot, piece)

    servers = Servers({0: 20_000}, fails_once)
    servers.assert_all(servers.share())
    assert len(servers.begun) == len(PIECES) + 1


@pytest.mark.slow
def test_when_none_answers_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "LONGEST_PAUSE", 0.01)
    servers = Servers({0: 1000, 1: 1000}, lost)
    with pytest.raises(ConnectionLost, match="it fell"):
        servers.share()
    tries = Counter(slot for slot, _ in servers.begun)
    assert set(tries.values()) == {defaults.RETRIES + 1}


@pytest.mark.parametrize("error", [LimitTooLow(uri="", limit="", who="", reason="", setting=""), OSError("disk")])
def test_an_error_ends_it_for_all(error: Exception) -> None:
    def refuses(slot: ConnectionSlot, piece: Piece) -> None:
        if piece is PIECES[1]:
            raise error

    servers = Servers({0: 10, 1: 10}, refuses)
    begun = time.monotonic()
    with pytest.raises(type(error)):
        servers.share()
    assert time.monotonic() - begun < 30, "the other would take 100 s"
    assert servers.kept == []


def works(slot: ConnectionSlot, piece: Piece) -> None:
    pass


@pytest.mark.parametrize("fails", [works, lost], ids=["reading", "pausing"])
def test_the_step_is_given_up_while_all_are(fails: Callable[[ConnectionSlot, Piece], None]) -> None:
    meter = Meter("read")
    threading.Timer(0.2, meter.cancel).start()
    with pytest.raises(Cancelled):
        schedule(PIECES, [ConnectionSlot(0, 0), ConnectionSlot(1, 0)], Servers({0: 10, 1: 10}, fails).read, meter)
    assert meter.entries == 0


def test_nothing_to_read() -> None:
    assert Servers({0: 10}).share(pieces=[]).entries == 0


def failing(code: str) -> LoaderError:
    error = _native.NativeError("the server was silent for 300 s")
    error.code = code
    return wire.as_loader_error(error, Connection("ldap://server"), "o=x")


@pytest.mark.parametrize(("code", "tries"), [("ldap.silent", 1), ("ldap.lost", 4)])
def test_a_broken_connection_is_tried_again_and_a_silent_one_is_not(
    monkeypatch: pytest.MonkeyPatch, code: str, tries: int
) -> None:
    """It was told after 20 times 300 s."""
    monkeypatch.setattr(ldap, "LONGEST_PAUSE", 0.001)
    met = []

    def attempt() -> None:
        met.append(code)
        raise failing(code)

    assert isinstance(failing(code), ServerSilent) == (tries == 1)
    with pytest.raises(ConnectionLost):
        ldap.with_retries(attempt, Meter("read"), retries=3)
    assert len(met) == tries
