"""`backup restore --until` with damaged logs: the tree is as it was, or a refusal names a moment up to which it is."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ldap
import pytest
from ldap.controls.simple import ManageDSAITControl

from fixtures.partial import LOG, Stored, differences
from fixtures.random_changes import ADD, modify
from loader.errors import LogIncomplete, LogUnsuitable
from loader.operations.backup import options
from tests.integration.test_until import BASE, LONG, ROWS, csn_of, repeated, staged, unit
from tests.support.backups import put_back
from tests.support.restoring import Record, Stage

pytestmark = pytest.mark.slapd
TRANSACTION, OTHER = b"1.3.6.1.1.21.2", b"12345678-1234-1234-1234-123456789abd"


@dataclass
class Past:
    """`states`: the tree after each change since the backup, by its CSN. `records`: of the log; the suffix is first.
    `changes`: the places in `records` of those after the backup that a later one of the same entry follows."""

    stage: Stage
    states: dict[str, Stored]
    backup: str = ""
    records: tuple[Record, ...] = ()
    changes: tuple[int, ...] = ()

    def note(self) -> None:
        server = self.stage.source.server
        csns = server.search(attributes=("contextCSN",), scope=ldap.SCOPE_BASE)[0][1]["contextCSN"]
        if self.backup and (last := max(csns).decode()) not in self.states:
            self.states[last] = self.stage.source.stored()
            self.states[last][BASE]["contextCSN"] = sorted(csns)

    def restored(self, log: Path, moment: str) -> list[str]:
        """Restores to the moment. Returns how the result differs from the tree at that moment."""
        server, until = self.stage.target.server, options.Moment.parse(moment)
        where: dict[str, Any] = {"suffix": BASE, "replace": True, "verify": "quick"}
        put_back(self.stage.repo, server, self.backup, until=until, log=str(log), **where)
        for old in server.database_dir.glob("data.mdb.replaced-*"):
            old.unlink()
        at = max(csn for csn in self.states if csn <= until.csn)
        return differences(self.states[at], self.stage.target.stored())


class Noting:
    """A connection. Before each operation, the tree that the one before left is noted."""

    def __init__(self, handle: Any, past: Past) -> None:
        self.handle, self.past = handle, past

    def __getattr__(self, name: str) -> Any:
        self.past.note()
        return getattr(self.handle, name)


@pytest.fixture(scope="module")
def pasts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Past]]:
    with ExitStack() as stack:
        yield functools.cache(lambda servers: _past(tmp_path_factory.mktemp("damaged") / "s", servers, stack))


def _past(directory: Path, servers: str, stack: ExitStack) -> Past:
    """The short rows of `test_until`; of "two servers", a third of them with server ID 2. In the end, each entry is
    changed once more, so that its reqOld tells the change before."""
    past = Past(stack.enter_context(staged(directory)), {})
    server = past.stage.source.server
    noting = Noting(stack.enter_context(server.connection()), past)
    names = [name for name in ROWS if name not in LONG]
    rows = [ROWS[name](noting, unit(noting, f"ou={name.partition(' ')[0]}", BASE)) for name in names]
    for row in rows:
        next(row)
    past.backup = past.stage.take()
    past.note()
    (base,) = past.states
    for number, row in enumerate(rows):
        if servers == "two servers" and number in (6, 12):
            server.stop()
            line = f"serverID {2 if number == 6 else 1}"
            server.rewrite(lambda conf, line=line: re.sub("(?m)^serverID .*", line, conf))
            server.start()
            noting.handle = stack.enter_context(server.connection())
        assert [*row] == []
    for dn in sorted(past.stage.source.stored()):
        with suppress(ldap.OBJECT_CLASS_VIOLATION):
            modify(noting, dn, (ADD, "description", b"the last"), control=ManageDSAITControl())
    past.note()
    past.records = tuple(past.stage.source.slapcat(LOG).strip().split(b"\n\n"))
    told = {csn.decode() for csn in re.findall(rb"(?m)^reqOld: entryCSN: (\S+)", b"\n".join(past.records))}
    later = [(at, csn_of(record)) for at, record in enumerate(past.records) if TRANSACTION not in record]
    past.changes = tuple(at for at, csn in later if csn > base and csn in told)
    return past


# A function of the records, `Past.changes`, and a position or a seed.
Damage = Callable[[list[Record], Sequence[int], int], list[Record]]


def at_one(change: Callable[[Record], Sequence[Record]]) -> Damage:
    """Replaces the first (0), last (9) or another change by other records."""

    def damage(records: list[Record], changes: Sequence[int], at: int) -> list[Record]:
        place = changes[at * (len(changes) - 1) // 9]
        return [*records[:place], *change(records[place]), *records[place + 1 :]]

    return damage


def edited(pattern: bytes, by: bytes = b"") -> Damage:
    return at_one(lambda record: [re.sub(b"(?m)" + pattern, by, record)])


def other_starts(records: list[Record], changes: Sequence[int], seed: int) -> list[Record]:
    starts = [match[0] for place in changes if (match := re.search(rb"\d{14}\.\d{6}Z", records[place]))]
    for place, start in zip(changes, random.Random(seed).sample(starts, len(starts)), strict=True):
        records[place] = re.sub(rb"(reqStart[=:] ?)\d+\.\d+Z", rb"\g<1>" + start, records[place])
    return records


def purged(records: list[Record], changes: Sequence[int], at: int) -> list[Record]:
    """Negative: before the backup, which loses nothing."""
    last = changes[at] if at >= 0 else changes[0] // (1 - at)
    suffix = re.sub(rb"(?m)^(minCSN: ).*$", rb"\g<1>" + csn_of(records[last]).encode(), records[0])
    return [suffix, *records[last + 1 :]]


def set_back(records: list[Record], changes: Sequence[int], at: int) -> list[Record]:
    """Before this change, the clock was set back by a year. Later changes of an entry name their CSNs in reqOld."""

    def earlier(match: re.Match[bytes]) -> bytes:
        return b"%d" % (int(match[1]) - 1) + match[2] if match[0] >= first else match[0]

    first = csn_of(records[changes[at]]).encode()
    return [re.sub(rb"(\d{4})(\d{10}\.\d{6}Z#)", earlier, record) for record in records]


def of_another(records: list[Record], changes: Sequence[int], same_id: int) -> list[Record]:
    """A test server with the same tree, perhaps with the same server ID."""
    uuid = re.compile(rb"(?mi)^(entryUUID: |reqEntryUUID: |reqMod: entryUUID:\+ )\S{8}")
    others = [uuid.sub(rb"\g<1>aaaaaaaa", record) for record in records]
    return others if same_id else [record.replace(b"#001#", b"#002#") for record in others]


def without(records: list[Record], changes: Sequence[int], server: int) -> list[Record]:
    return [one for at, one in enumerate(records) if at not in changes or f"#{server:03}#" not in csn_of(one)]


DAMAGES: dict[str, tuple[Damage, Sequence[int]]] = {
    "lost": (at_one(lambda record: []), range(10)),
    "twice": (at_one(lambda record: [record, record]), (9,)),
    "repeated": (at_one(repeated), (0, 2, 9)),
    "failed": (edited(b"^reqResult: 0", b"reqResult: 53"), (0, 3, 6, 9)),
    "of another tree": (edited(rb"^reqDN: .*$", b"reqDN: ou=x,dc=other"), (0, 5, 9)),
    "of another entry": (edited(rb"^reqEntryUUID: .*$", b"reqEntryUUID: " + OTHER), (0, 5, 9)),
    "without reqOld": (edited(rb"^reqOld:.*\n?"), (0, 5, 9)),
    "without reqMod": (edited(rb"^reqMod:.*\n?"), (0, 3, 6, 9)),
    "without a CSN": (edited(rb"^entryCSN: .*\n?"), (0, 9)),
    "shuffled": (lambda all_, _, seed: [all_[0], *random.Random(seed).sample(all_[1:], len(all_) - 1)], (1, 2, 3)),
    "other reqStarts": (other_starts, (1, 2)),
    "head lost": (lambda records, changes, at: [records[0], *records[changes[at] + 1 :]], (0, 9, 40, -9)),
    "purged": (purged, (-1, -2, 0, 9, 40)),
    "tail lost": (lambda records, changes, at: records[: changes[at] + 1], (0, 9, 40, -2)),
    "middle lost": (lambda all_, changes, at: all_[: changes[at]] + all_[changes[at + 4] :], (0, 9, 25, 40)),
    "set back": (set_back, (5, 15, 30, 45)),
    "another tree": (lambda all_, *_: [record.replace(b"dc=example", b"dc=other") for record in all_], (0,)),
    "another server": (of_another, (0, 1)),
    "a server ID missing": (without, (1, 2)),
}
TWO = ("lost", "shuffled", "purged", "tail lost", "a server ID missing")
CASES = [*(("one server", name) for name in [*DAMAGES][:-1]), *(("two servers", name) for name in TWO)]
RUNS = [(servers, name, number) for servers, name in CASES for number in DAMAGES[name][1]]
assert len(RUNS) >= 75


@pytest.mark.rows(8)
@pytest.mark.parametrize(("servers", "name", "number"), RUNS)
def test_a_damage(servers: str, name: str, number: int, pasts: Callable[[str], Past], tmp_path: Path) -> None:
    past, log = pasts(servers), tmp_path / "log.ldif"
    log.write_bytes(b"\n\n".join(DAMAGES[name][0](list(past.records), past.changes, number)) + b"\n")
    try:
        assert past.restored(log, max(past.states)) == []
    except LogUnsuitable:
        assert name == "without a CSN"
    except LogIncomplete as error:
        moment = re.search(r"--until (\S+)`", str(error.facts["advice"]))
        assert moment is None or past.restored(log, moment[1]) == []
