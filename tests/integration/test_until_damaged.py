"""`backup restore --until` with logs that were damaged in one way each: the tree is as it was, or the run is refused
with a moment up to which it is."""

from __future__ import annotations

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
from loader.errors import LogIncomplete, LogUnsuitable
from loader.operations.backup import options
from tests.integration.test_until import ADD, BASE, ROWS, csn_of, modify, staged, unit
from tests.support.backups import put_back
from tests.support.restoring import Record, Stage

pytestmark = pytest.mark.slapd
TRANSACTION, OTHER = b"1.3.6.1.1.21.2", b"12345678-1234-1234-1234-123456789ab"


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
        state = self.states[max(csns).decode()] = self.stage.source.stored()
        state[BASE]["contextCSN"] = sorted(csns)

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
    """A connection after each operation of which the tree is noted, once there is a backup."""

    def __init__(self, handle: Any, past: Past) -> None:
        self.handle, self.past = handle, past

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def noted(*arguments: Any, **named: Any) -> Any:
            try:
                return getattr(self.handle, name)(*arguments, **named)
            finally:
                if self.past.backup:
                    self.past.note()

        return noted


@pytest.fixture(scope="module")
def past(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    """All rows of `test_until`, a third of them with server ID 2 if the parameter says so. In the end, each entry is
    changed once more, so that its reqOld tells the change before."""
    with staged(tmp_path_factory.mktemp("damaged") / "s") as stage, ExitStack() as stack:
        past, server = Past(stage, {}), stage.source.server
        noting = Noting(stack.enter_context(server.connection()), past)
        rows = [steps(noting, unit(noting, f"ou={name.partition(' ')[0]}", BASE)) for name, steps in ROWS.items()]
        for row in rows:
            next(row)
        past.backup = stage.take()
        past.note()
        (base,) = past.states
        for number, row in enumerate(rows):
            if request.param == "two servers" and number in (6, 12):
                server.stop()
                line = f"serverID {2 if number == 6 else 1}"
                server.rewrite(lambda conf, line=line: re.sub("(?m)^serverID .*", line, conf))
                server.start()
                noting.handle = stack.enter_context(server.connection())
            assert [*row] == []
        for dn in sorted(stage.source.stored()):
            with suppress(ldap.OBJECT_CLASS_VIOLATION):
                modify(noting, dn, (ADD, "description", b"the last"), control=ManageDSAITControl())
        past.records = tuple(stage.source.slapcat(LOG).strip().split(b"\n\n"))
        told = {csn for record in past.records for csn in re.findall(rb"(?m)^reqOld: entryCSN: (\S+)", record)}
        past.changes = tuple(
            at
            for at, record in enumerate(past.records)
            if (csn := csn_of(record)) > base and csn.encode() in told and TRANSACTION not in record
        )
        yield past


# --- the damages: functions of the records and the places of the changes ----------------------------

Damage = Callable[[list[Record], Sequence[int]], list[Record]]
CASES: dict[str, Damage] = {}


def at_each(name: str, positions: int, change: Callable[[Record], Sequence[Record]]) -> None:
    """Adds cases in which `change` replaces one change of the log by other records; the first and the last, too."""
    for number in range(positions):

        def damage(records: list[Record], changes: Sequence[int], number: int = number) -> list[Record]:
            at = changes[number * (len(changes) - 1) // (positions - 1)]
            return [*records[:at], *change(records[at]), *records[at + 1 :]]

        CASES[f"{name} {number}"] = damage


def whole(name: str, *arguments: int) -> Callable[[Callable[..., list[Record]]], None]:
    """Adds cases of a function that also takes one of `arguments`, a position among 10, or a seed."""

    def enter(damage: Callable[..., list[Record]]) -> None:
        for argument in arguments:
            CASES[f"{name} {argument}"] = lambda records, changes, argument=argument: damage(records, changes, argument)

    return enter


def edited(pattern: bytes, by: bytes) -> Callable[[Record], Sequence[Record]]:
    return lambda record: [re.sub(b"(?m)" + pattern, by, record)]


def repeated(record: Record) -> Sequence[Record]:
    (other,) = edited(rb"^entryUUID: .*$", b"entryUUID: " + OTHER + b"c")(record)
    return [record, re.sub(rb"(reqStart[=:] ?\d+)\.\d+Z", rb"\1.999999Z", other)]


at_each("lost", 16, lambda record: [])
at_each("twice", 4, lambda record: [record, record])
at_each("repeated", 6, repeated)
at_each("failed", 4, edited(b"^reqResult: 0", b"reqResult: 53"))
at_each("of another tree", 4, edited(rb"^reqDN: .*$", b"reqDN: ou=x,dc=other"))
at_each("of another entry", 4, edited(rb"^reqEntryUUID: .*$", b"reqEntryUUID: " + OTHER + b"d"))
at_each("without reqOld", 4, edited(rb"^reqOld:.*\n?", b""))
at_each("without reqMod", 6, edited(rb"^reqMod:.*\n?", b""))
at_each("without a CSN", 2, edited(rb"^entryCSN: .*\n?", b""))


@whole("reversed", 0)
def _(records: list[Record], changes: Sequence[int], at: int) -> list[Record]:
    return [records[0], *reversed(records[1:])]


@whole("shuffled", 1, 2, 3)
def _(records: list[Record], changes: Sequence[int], at: int) -> list[Record]:
    return [records[0], *random.Random(at).sample(records[1:], len(records) - 1)]


@whole("reqStart shuffled", 1, 2)
def _(records: list[Record], changes: Sequence[int], at: int) -> list[Record]:
    starts = [match[0] for place in changes if (match := re.search(rb"\d{14}\.\d{6}Z", records[place]))]
    for place, start in zip(changes, random.Random(at).sample(starts, len(starts)), strict=True):
        records[place] = re.sub(rb"(reqStart[=:] ?)\d+\.\d+Z", rb"\g<1>" + start, records[place])
    return records


@whole("head lost", 0, 1, 2, 5, 9)
def _(records: list[Record], changes: Sequence[int], at: int) -> list[Record]:
    return [records[0], *records[changes[at * len(changes) // 10] + 1 :]]


@whole("purged", 0, 1, 2, 5, 9)
def _(records: list[Record], changes: Sequence[int], at: int) -> list[Record]:
    last = changes[at * len(changes) // 10]
    suffix = re.sub(rb"(?m)^(minCSN: ).*$", rb"\g<1>" + csn_of(records[last]).encode(), records[0])
    return [suffix, *records[last + 1 :]]


@whole("purged before the backup", 1, 3)
def _(records: list[Record], changes: Sequence[int], at: int) -> list[Record]:
    last = changes[0] * at // 4
    suffix = re.sub(rb"(?m)^(minCSN: ).*$", rb"\g<1>" + csn_of(records[last]).encode(), records[0])
    return [suffix, *records[last + 1 :]]


@whole("tail lost", 0, 1, 2, 5, 7, 9)
def _(records: list[Record], changes: Sequence[int], at: int) -> list[Record]:
    return records[: changes[at * len(changes) // 10] + 1]


@whole("middle lost", 0, 2, 4, 6, 8)
def _(records: list[Record], changes: Sequence[int], at: int) -> list[Record]:
    return [*records[: changes[at * len(changes) // 10]], *records[changes[(at + 1) * len(changes) // 10] :]]


@whole("set back", 1, 3, 6, 9)
def _(records: list[Record], changes: Sequence[int], at: int) -> list[Record]:
    """Before this change, the clock was set back by an hour. Later changes of an entry name their CSNs in reqOld."""

    def earlier(match: re.Match[bytes]) -> bytes:
        hour = int(match[0][8:10]) - 1
        return match[0][:8] + b"%02d" % hour + match[0][10:] if match[0] >= first else match[0]

    first = csn_of(records[changes[at * len(changes) // 10]]).encode()
    return [re.sub(rb"\d{14}\.\d{6}Z#", earlier, record) for record in records]


@whole("another tree", 0)
def _(records: list[Record], changes: Sequence[int], at: int) -> list[Record]:
    return [record.replace(b"dc=example,dc=com", b"dc=other,dc=com") for record in records]


@whole("another server", 0, 1)
def _(records: list[Record], changes: Sequence[int], at: int) -> list[Record]:
    """A test server with the same tree; 1: it has the same server ID."""
    uuid = re.compile(rb"(?mi)^(entryUUID: |reqEntryUUID: |reqMod: entryUUID:\+ )\S{8}")
    others = [uuid.sub(rb"\g<1>aaaaaaaa", record) for record in records]
    return others if at else [record.replace(b"#001#", b"#002#") for record in others]


@whole("a server ID missing", 1, 2)
def _(records: list[Record], changes: Sequence[int], at: int) -> list[Record]:
    lost = [place for place in changes if f"#{at:03}#" in csn_of(records[place])]
    return [record for place, record in enumerate(records) if place not in lost]


TWO = ("lost", "shuffled", "purged", "tail lost", "a server ID missing")
RUNS = [("one server", name) for name in CASES if "server ID" not in name]
RUNS += [("two servers", name) for name in CASES if name.rpartition(" ")[0] in TWO]


def test_number_of_cases() -> None:
    assert len(RUNS) >= 100


@pytest.mark.rows(8)
@pytest.mark.parametrize(("past", "name"), RUNS, indirect=["past"])
def test_a_damage(name: str, past: Past, tmp_path: Path) -> None:
    log, end = tmp_path / "log.ldif", max(past.states)
    records = CASES[name](list(past.records), past.changes)
    log.write_bytes(b"\n\n".join(records) + b"\n")
    try:
        assert past.restored(log, end) == []
    except LogUnsuitable:
        assert name.startswith("without a CSN")
    except LogIncomplete as error:
        moment = re.search(r"--until (\S+)`", str(error.facts["advice"]))
        assert moment is None or past.restored(log, moment[1]) == []
