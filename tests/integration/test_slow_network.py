"""A provider far away: a second for each round trip, and a line that breaks. Nothing that was read is read again."""

from __future__ import annotations

import dataclasses
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from fixtures.network import Proxy
from fixtures.slapd import Slapd
from fixtures.waiting import until
from loader.errors import StepTimeout
from tests.support import killing
from tests.support.command import ditseed
from tests.support.seeding import Pair, consumer_of, pair
from tests.support.stopping import stopped_at, stopping

pytestmark = pytest.mark.slapd

PEOPLE = 1500
SMALL = ("--pieces", 8, "--jobs", 2)


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("slow"), PEOPLE) as made:
        yield made


@pytest.fixture
def far(near: Pair) -> Iterator[tuple[Pair, Proxy]]:
    """The same provider behind a proxy, and a consumer of its own."""
    with Proxy(near.provider.uri) as proxy, consumer_of(near) as both:
        yield dataclasses.replace(both, uri=proxy.uri), proxy


def _partition_reads(provider: Slapd, mark: int) -> Counter[str]:
    """How often each partition was asked for: filter -> searches that began (one connection each)."""
    asked = set()
    for line in provider.log_lines(r"SRCH base=.*scope=2.*entry(UUID|CSN)>=", mark):
        found = re.search(r"conn=(\d+) .*filter=\"(.*)\"", line)
        assert found
        if "hasSubordinates" not in found[2]:
            asked.add((found[1], found[2]))
    return Counter(where for _, where in asked)


@pytest.mark.long
def test_a_second_away_and_cut_three_times(far: tuple[Pair, Proxy]) -> None:
    both, proxy = far
    ditseed("export", *both.bind, "-b", both.provider.suffix, "-o", both.scratch / "near", *SMALL).ok()
    whole, mark = proxy.bytes_down, both.provider.log_size()
    started = time.monotonic()
    with stopping(both, ("plan.recorded",), *SMALL) as seeding:
        seeding.wait_for_stop()
        proxy.delay = 0.5
        proxy.cut_after(whole * 4 // 10, whole // 8, whole // 8)
    read = proxy.bytes_down - whole
    print(f"\n{time.monotonic() - started:.0f} s, {read} bytes for {whole}")
    assert proxy.cuts == 3
    assert read < 1.6 * whole
    reads = _partition_reads(both.provider, mark)
    assert len(reads) > 6
    # A cut may fall into a smaller question, which is asked again too.
    assert len(reads) < sum(reads.values()) <= len(reads) + proxy.cuts
    killing.assert_seeded(both)


@pytest.mark.long
def test_the_same_command_reads_only_what_is_missing(far: tuple[Pair, Proxy]) -> None:
    both, _ = far
    command = both.seed("search", *SMALL)
    mark = both.provider.log_size()
    ditseed(*command, env={killing.KILL_AT: "stream.partition"})
    first = _partition_reads(both.provider, mark)
    mark = both.provider.log_size()
    ditseed(*command).ok()
    second = _partition_reads(both.provider, mark)
    # At least one was finished; with two connections one more may have been under way.
    assert 1 <= len(first.keys() - second.keys()) <= 2
    assert len(first | second) > 6
    killing.assert_seeded(both)


@pytest.mark.long
def test_cut_while_it_asks_what_moved(far: tuple[Pair, Proxy]) -> None:
    both, proxy = far
    with stopping(both, ("stream.read",), *SMALL) as seeding:
        seeding.wait_for_stop()
        proxy.cut_after(1, 1, 1)
    assert proxy.cuts == 3
    killing.assert_seeded(both)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_does_not_wait_for_the_line(far: tuple[Pair, Proxy], number: signal.Signals) -> None:
    both, proxy = far
    mark = both.provider.log_size()
    seeding = stopped_at("plan.recorded", *both.seed("search", *SMALL))
    proxy.delay = 0.2
    seeding.go_on()
    until(lambda: _partition_reads(both.provider, mark))
    proxy.delay, sent = 120.0, time.monotonic()
    seeding.process.send_signal(number)
    _, words = seeding.process.communicate()
    assert time.monotonic() - sent < 60
    assert seeding.process.returncode == 128 + number
    assert "Traceback" not in words
    killing.assert_nobody_left(both, "stopped")


def test_a_server_that_stops_answering_is_given_up(far: tuple[Pair, Proxy]) -> None:
    """--timeout: the step ends, nothing stays behind, and the same command goes on."""
    both, proxy = far
    mark = both.provider.log_size()
    seeding = stopped_at("plan.recorded", *both.seed("search", *SMALL, "--timeout", "stream=3"))
    proxy.delay = 0.2
    seeding.go_on()
    until(lambda: _partition_reads(both.provider, mark))
    proxy.delay = 300.0
    seeding.end().refused(StepTimeout, "--timeout stream=SECONDS")
    proxy.delay = 0.0
    proxy.cut()
    ditseed(*both.seed("search", *SMALL)).ok()
    killing.assert_seeded(both)
