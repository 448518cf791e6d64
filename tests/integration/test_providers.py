"""Two providers of one tree, read side by side: while a harsh writer changes it, one killed, or no replica."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.churn import Churn
from fixtures.replication import wait_in_sync
from fixtures.slapd import Slapd
from fixtures.trees import write_people
from fixtures.waiting import until
from loader.errors import OtherTree, UsageProblem
from tests.support.command import ditseed, start
from tests.support.killing import killed
from tests.support.seeding import Pair
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

PEOPLE = 4000
SALES = "ou=sales,ou=Berlin,ou=people,dc=example,dc=com"
SYNCPROV = f"overlay syncprov\nsyncprov-sessionlog {replication.SESSION_LOG}"


@dataclasses.dataclass
class Three:
    """A provider, a replica of it that provides too, and what is to be seeded from both."""

    pair: Pair
    second: Slapd

    def seed(self, second: str | None = None) -> list[str]:
        """The command, with both; the replicator's password is the same at both."""
        return self.pair.seed("search", "-H", second or self.second.uri)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    source = replication.provider()
    ldif = tmp_path / "people.ldif"
    write_people(ldif, source.suffix, PEOPLE)
    source.slapadd(ldif, "-S", "0", "-w")  # so that the end of the load is known, and pieces are even
    settings = dataclasses.replace(source.settings, overlays=(), server_id=None)
    providing = dataclasses.replace(source.settings, overlays=(SYNCPROV,), server_id=2)
    with ExitStack() as stack:
        stack.enter_context(source)
        source.describe("once")
        second = stack.enter_context(closing(replication.consumer(source, providing)))
        _share_password(source, second)
        second.slapadd(source.slapcat(), "-w")
        second.start()
        wait_in_sync(source, second)
        target = stack.enter_context(closing(replication.consumer(source, settings)))
        yield Three(Pair(source, target, tmp_path), second)


def _converges(three: Three) -> None:
    both = three.pair
    with both.consumer:
        wait_in_sync(both.provider, both.consumer)
        assert_same(both.provider, both.consumer)


def _entries_sent(server: Slapd) -> int:
    """In searches of whole subtrees."""
    lines = server.log_lines("SEARCH RESULT.* nentries=")
    return sum(int(line.rpartition("nentries=")[2].split()[0]) for line in lines)


@pytest.mark.long
def test_both_are_read_while_all_changes(three: Three) -> None:
    both = three.pair
    with Churn(both.provider, rate=100, seed=3) as churn:
        churn.wait_for(20)
        where = ("-b", both.provider.suffix, "-o", both.export_dir, "--max-rate", 3000)
        ditseed("export", *both.bind, "-H", three.second.uri, *where).ok()
        ditseed(*both.seed("ldif")).ok()
        churn.wait_for(churn.changes() + 20)
    assert _entries_sent(three.second) > PEOPLE / 5
    _converges(three)


@pytest.mark.rows(1)
@pytest.mark.parametrize("at", ["plan.recorded", "read.partition", "read.recorded", "late.middle"])
@pytest.mark.parametrize("which", ["first", "second"])
def test_one_is_killed(three: Three, at: str, which: str) -> None:
    """With SIGKILL, at named moments; the other has all, and nothing of the dead one is kept."""
    killed(at, *three.seed())
    both = three.pair
    both.provider.describe("changed", SALES)
    if which == "second":
        three.second.kill9()
    else:
        wait_in_sync(both.provider, three.second)
        both.provider.kill9()
    ditseed(*three.seed()).ok()
    if which == "first":
        both.provider.start()
    _converges(three)


@pytest.mark.long
def test_one_is_killed_in_the_middle_of_a_piece(three: Three) -> None:
    both = three.pair
    with Churn(both.provider, rate=50, seed=4):
        where = ("-b", both.provider.suffix, "-o", both.export_dir, "--max-rate", 1500)
        process = start("export", *both.bind, "-H", three.second.uri, *where)
        begun = both.export_dir / ".ditseed"  # a piece of the second provider
        until(lambda: any(begun.rglob("try-1-*")) or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        three.second.kill9()
        _, words = process.communicate(timeout=300)
        assert process.returncode == 0, words
        ditseed(*both.seed("ldif")).ok()
    _converges(three)


@pytest.mark.long
def test_a_rename_that_one_has_seen_later(three: Three) -> None:
    """Pieces of one show it, and those of the other do not."""
    both = three.pair
    killed("plan.recorded", *three.seed())
    three.second.stop()
    with both.provider.connection() as handle:
        handle.rename_s(SALES, "ou=trade", delold=1)
    theirs, nobodys = f"provider={both.provider.uri}", "provider=ldap://127.0.0.1:1"
    three.second.rewrite(lambda text: text.replace(theirs, nobodys))
    three.second.start()
    try:
        killed("read.recorded", *three.seed())
    finally:
        three.second.stop()
        three.second.rewrite(lambda text: text.replace(nobodys, theirs))
        three.second.start()
        wait_in_sync(both.provider, three.second)
    ditseed(*three.seed()).ok()
    _converges(three)


def test_no_replica_is_refused(three: Three, tmp_path: Path) -> None:
    """Before anything is read: another tree of the same suffix, and one that lacks entries."""
    source = three.pair.provider
    ldif = tmp_path / "other.ldif"
    write_people(ldif, source.suffix, 20)
    # Half of the people are missing: access control or a filter of syncrepl.
    records = source.slapcat().split("\n\n")
    dropped = {*[one for one in records if one.startswith("dn: uid=")][::2]}
    for content in (ldif, "\n\n".join(one for one in records if one not in dropped)):
        other = replication.provider()
        other.slapadd(content, "-w")
        _share_password(source, other)
        with other:
            out = tmp_path / "out"
            more = ("-H", other.uri, "-b", source.suffix, "-o", out)
            ditseed("export", *three.pair.bind, *more).refused(OtherTree, other.uri)


def _share_password(source: Slapd, other: Slapd) -> None:
    """Of the replicator, with a server that is stopped."""
    own, theirs = other.replicator_password_file.read_text(), source.replicator_password_file.read_text()
    other.rewrite(lambda text: text.replace(own, theirs))
    other.replicator_password_file.write_text(theirs)


def test_the_same_one_twice_is_refused(three: Three) -> None:
    ditseed(*three.seed(three.pair.provider.uri)).refused(UsageProblem)
