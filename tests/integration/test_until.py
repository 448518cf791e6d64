"""`backup restore --until`: the tree is what slapcat printed at the moment, whatever was done before and after it."""

from __future__ import annotations

import datetime
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import ldap
import pytest
from ldap.controls.simple import ManageDSAITControl

from fixtures.history import LOGOLD, SETTINGS, History, Moment, history
from fixtures.partial import DELTA, LOG, differences
from fixtures.random_changes import (
    ADD,
    DELETE,
    IN_TRANSACTION,
    INCREMENT,
    NOOP,
    PERMISSIVE,
    RELAX,
    REPLACE,
    begin,
    changes,
    end,
    modify,
    tree,
)
from fixtures.replication import following, wait_in_sync
from fixtures.trees import CERTIFICATE
from fixtures.waiting import until
from loader.errors import UsageProblem
from tests.support.command import ditseed
from tests.support.restoring import PURGING, Record, Stage, edited

pytestmark = pytest.mark.slapd

BASE = SETTINGS.suffix
MEMBERS = 200
# Results that are not 0, of which each must have come up in random changes.
REFUSED = {b"16", b"18", b"32", b"65", b"66", b"68", b"16654"}


@contextmanager
def staged(place: Path, **options: Any) -> Iterator[Stage]:
    """Yields a running source with `tree`, one write of which is in its log. `options`: of both histories."""
    with history(place / "source", **options) as source, history(place / "target", **options) as target:
        source.server.slapadd(tree(BASE, MEMBERS), "-w")
        source.server.start()
        source.note()
        yield Stage(source, target, place / "repo")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("until") / "s") as made:
        yield made


def clock(csn: str, microseconds: int = 0) -> str:
    """Returns the time of a CSN, some microseconds later, as generalizedTime."""
    at = datetime.datetime.strptime(csn.partition("#")[0], "%Y%m%d%H%M%S.%fZ")
    return f"{at + datetime.timedelta(microseconds=microseconds):%Y%m%d%H%M%S.%fZ}"


# --- random changes -------------------------------------------------------------------------------


@pytest.mark.parametrize("success", ["FALSE", pytest.param("TRUE", marks=pytest.mark.long)])
def test_random_changes(success: str, tmp_path: Path) -> None:
    logs = f"logops writes\nlogsuccess {success}\n{LOGOLD}"
    with staged(tmp_path / "s", logs=logs) as stage:
        backup_id = stage.take()
        with changes(stage.source.server, seed=1, members=MEMBERS, rolled_back=success == "FALSE") as writers:
            moments = []
            for _ in range(5):
                writers.make(60)
                moments.append(stage.source.note())
            writers.make(20)
        assert sum(" refused: " not in kind for kind in writers.counts) >= 45, writers.counts
        for number, moment in enumerate(moments):
            # logsuccess hides whether a transaction was rolled back. Here, none was.
            accepting = ("--accept-gaps",) if success == "TRUE" else ()
            stage.restored(backup_id, moment, moment.forms[number % 4], *accepting)
        log = stage.source.stored(LOG).values()
    results = {entry["reqResult"][0] for entry in log if "reqResult" in entry}
    assert results == ({b"0"} if success == "TRUE" else {b"0"} | REFUSED)


# --- one kind of change at a time: rows of accesslog-facts -----------------------------------------
#
# Each row prepares its entries, yields where the backup is taken, and goes on with what the log must tell.

Row = Callable[[Any, str], Iterator[None]]
ROWS: dict[str, Row] = {}
LONG: list[str] = []


def row(name: str, *, long: bool = False) -> Callable[[Row], Row]:
    def enter(work: Row) -> Row:
        ROWS[name] = work
        LONG.extend([name] * long)
        return work

    return enter


def thing(handle: Any, rdn: str, at: str, **values: list[bytes]) -> str:
    """Adds an entry, and returns its DN."""
    dn = f"{rdn},{at}"
    needed = {"objectClass": [b"gEntry"], "cn": [b"thing"], "sn": [b"of"]}
    handle.add_s(dn, list({**needed, **values}.items()))
    return dn


def unit(handle: Any, rdn: str, at: str) -> str:
    dn = f"{rdn},{at}"
    handle.add_s(dn, [("objectClass", [b"organizationalUnit"])])
    return dn


@row("1 add, modify, modrdn, delete")
def _(handle: Any, at: str) -> Iterator[None]:
    gone, changed, moved = (thing(handle, f"cn={name}", at) for name in ("gone", "changed", "moved"))
    yield
    thing(handle, "cn=added", at)
    modify(handle, changed, (ADD, "description", b"changed"))
    handle.rename_s(moved, "cn=was moved")
    handle.delete_s(gone)


@row("4 values of any bytes")
def _(handle: Any, at: str) -> Iterator[None]:
    values = [b"", b"\0", b"a\nb", b"x: + y", b": +", b" ", b"gOctets:+ 1"]
    changed = thing(handle, "cn=changed", at)
    yield
    thing(handle, "cn=added", at, gOctets=values, description=[b"a\nb", b"c\0d", b" e "])
    modify(handle, changed, (ADD, "gOctets", values), (ADD, "description", b"with\n: + "))
    modify(handle, changed, (DELETE, "gOctets", [b"", b"\0"]), (ADD, "description;lang-de", b"Wert"))
    modify(handle, changed, (ADD, "userCertificate;binary", CERTIFICATE), (ADD, "description;lang-fr;lang-de", b"v"))


@row("5 one attribute replaced twice")
def _(handle: Any, at: str) -> Iterator[None]:
    changed = thing(handle, "cn=changed", at)
    yield
    modify(handle, changed, (REPLACE, "description", [b"1", b"2"]), (REPLACE, "description", b"3"))
    modify(handle, changed, (REPLACE, "o", None), (REPLACE, "o", [b"1", b"2"]), (REPLACE, "o", b"3"), (ADD, "o", b"4"))
    modify(handle, changed, (ADD, "o", b"5"), (DELETE, "o", b"5"), (ADD, "o", b"6"), (DELETE, "o", b"3"))


@row("6 increments")
def _(handle: Any, at: str) -> Iterator[None]:
    two = thing(handle, "cn=two", at, gInteger=[b"1", b"100"])
    wraps, lacks = thing(handle, "cn=wraps", at, gInteger=[b"9223372036854775807"]), thing(handle, "cn=lacks", at)
    yield
    modify(handle, two, (INCREMENT, "gInteger", b"5"))
    modify(handle, two, (INCREMENT, "gInteger", b"-2"), (INCREMENT, "gInteger", b"-2"))
    modify(handle, wraps, (INCREMENT, "gInteger", b"100"))
    modify(handle, lacks, (INCREMENT, "gInteger", b"7"), control=PERMISSIVE)


@row("7 changes that a hot backup has already")
def _(handle: Any, at: str) -> Iterator[None]:
    """Its contextCSN on disk is that of the last checkpoint."""
    changed, moved = thing(handle, "cn=changed", at, gInteger=[b"1"]), thing(handle, "cn=moved", at)
    modify(handle, changed, (INCREMENT, "gInteger", b"5"))
    handle.rename_s(moved, "cn=was moved")
    handle.delete_s(thing(handle, "cn=gone", at))
    handle.delete_s(thing(handle, "cn=again", at))
    thing(handle, "cn=again", at)
    yield
    modify(handle, changed, (INCREMENT, "gInteger", b"7"))
    thing(handle, "cn=gone", at)


@row("8 failed operations, noop, referral")
def _(handle: Any, at: str) -> Iterator[None]:
    changed, box = thing(handle, "cn=changed", at), unit(handle, "ou=box", at)
    referral, manage = f"cn=referral,{at}", ManageDSAITControl()
    values = [("objectClass", [b"referral", b"extensibleObject"]), ("ref", [b"ldap://other.invalid/"])]
    handle.add_ext_s(referral, values, serverctrls=[manage])
    thing(handle, "cn=in it", box)
    yield
    first = (ADD, "description", b"never")
    for error, work in [
        (ldap.NO_SUCH_ATTRIBUTE, lambda: modify(handle, changed, first, (DELETE, "description", b"absent"))),
        (ldap.NO_SUCH_OBJECT, lambda: modify(handle, f"cn=nobody,{at}", first)),
        (ldap.NOT_ALLOWED_ON_NONLEAF, lambda: handle.delete_s(box)),
        (ldap.ALREADY_EXISTS, lambda: thing(handle, "cn=changed", at)),
        (ldap.LDAPError, lambda: modify(handle, changed, first, control=NOOP)),
        (ldap.REFERRAL, lambda: modify(handle, referral, first)),
    ]:
        with pytest.raises(error):
            work()
    modify(handle, referral, (ADD, "description", b"of the referral"), control=manage)


@row("9 transactions committed, rolled back, aborted")
def _(handle: Any, at: str) -> Iterator[None]:
    changed = thing(handle, "cn=changed", at)
    yield
    for number, kind in enumerate(("committed", "rolled back", "aborted", "committed too")):
        begin(handle)
        values = [("objectClass", [b"gOther"]), ("cn", [b"x"])]
        handle.add_ext_s(f"cn={kind},{at}", values, serverctrls=[IN_TRANSACTION])
        modify(handle, changed, (REPLACE, "description", b"%d" % number), control=IN_TRANSACTION)
        if kind == "rolled back":
            handle.delete_ext_s(f"cn=nobody,{at}", serverctrls=[IN_TRANSACTION])
            with pytest.raises(ldap.NO_SUCH_OBJECT):
                end(handle, commit=True)
        else:
            end(handle, commit=kind != "aborted")


@row("10 a container renamed, then its new DN used")
def _(handle: Any, at: str) -> Iterator[None]:
    box = unit(handle, "ou=box", at)
    thing(handle, "cn=child", unit(handle, "ou=inner", box))
    other = unit(handle, "ou=other", at)
    yield
    handle.rename_s(box, "ou=renamed", other, delold=0)
    modify(handle, f"cn=child,ou=inner,ou=renamed,{other}", (ADD, "description", b"found"))
    thing(handle, "cn=new", f"ou=inner,ou=renamed,{other}")
    thing(handle, "cn=where it was", unit(handle, "ou=box", at))


@row("11 two DNs swapped")
def _(handle: Any, at: str) -> Iterator[None]:
    one, two = unit(handle, "ou=one", at), unit(handle, "ou=two", at)
    for dn in (one, two):
        thing(handle, "cn=child", dn)
    yield
    handle.rename_s(one, "ou=between")
    handle.rename_s(two, "ou=one")
    handle.rename_s(f"ou=between,{at}", "ou=two")
    modify(handle, f"cn=child,{two}", (ADD, "description", b"was of one"))


@row("12 deleted and added again")
def _(handle: Any, at: str) -> Iterator[None]:
    again = thing(handle, "cn=again", at, description=[b"before"])
    yield
    handle.delete_s(again)
    thing(handle, "cn=again", at)
    modify(handle, again, (ADD, "description", b"of the second"))
    handle.delete_s(again)
    thing(handle, "cn=again", at, description=[b"third"])


@row("13 renames of every form")
def _(handle: Any, at: str) -> Iterator[None]:
    names = [f"cn={name}" for name in ("kept", "dropped", "several", "case", "moved")]
    kept, dropped, several, case, moved = (thing(handle, name, at) for name in names)
    box = unit(handle, "ou=box", at)
    yield
    handle.rename_s(kept, "cn=new", delold=0)
    handle.rename_s(dropped, "sn=of", delold=1)
    handle.rename_s(several, "cn=one+sn=two", delold=0)
    handle.rename_s(f"cn=one+sn=two,{at}", "SN=Two+cn=three+uid=four", delold=1)
    handle.rename_s(case, "cn=CASE", delold=1)
    handle.rename_s(moved, "cn=MOVED", box, delold=0)
    handle.rename_s(f"cn=MOVED,{box}", "cn=Moved", at, delold=1)


@row("14 ordered values")
def _(handle: Any, at: str) -> Iterator[None]:
    changed = thing(handle, "cn=changed", at, gOrdered=[b"one", b"two", b"three"])
    yield
    thing(handle, "cn=added", at, gOrdered=[b"x", b"y"])
    modify(handle, changed, (ADD, "gOrdered", b"{1}between"))
    modify(handle, changed, (DELETE, "gOrdered", b"{0}"))
    modify(handle, changed, (ADD, "gOrdered", [b"last", b"{0}first"]), (DELETE, "gOrdered", b"{2}"))
    modify(handle, thing(handle, "cn=other", at), (REPLACE, "gOrdered", [b"{1}b", b"{0}a"]), (ADD, "gOrdered", b"c"))


@row("numbers of ordered values")
def _(handle: Any, at: str) -> Iterator[None]:
    """slapd compares the numbers of both values if both have one, and reads them with strtol(3) to add values."""
    letters = [b"{%d}%c" % pair for pair in enumerate(b"abcdefghij")]
    names = ("deleted", "named", "repeated", "octal", "negative")
    deleted, named, repeated, octal, negative = (thing(handle, f"cn={name}", at, gOrdered=letters) for name in names)
    mixed = thing(handle, "cn=mixed", at, gOrdered=[b"{2}c", b"{0}a"], gSibling=[b"{3}7"])
    yield
    modify(handle, thing(handle, "cn=added", at, gOrdered=[b"{1}x", b"{0}x"]), (ADD, "gOrdered", b"y"))
    modify(handle, deleted, (DELETE, "gOrdered", [b"{0}", b"{9}"]), (DELETE, "gOrdered", [b"{0}", b"b"]))
    modify(handle, named, (DELETE, "gOrdered", [b"{1}B", b"c"]))
    modify(handle, repeated, (ADD, "gOrdered", [b"{3}a", b"{0}z", b"{12}a"]), (DELETE, "gOrdered", b"{4}a"))
    modify(handle, octal, (ADD, "gOrdered", [b"{010}eight", b"{0x1}one", b"{ 2}two"]))
    modify(handle, negative, (ADD, "gOrdered", b"{-1}last"))
    modify(handle, mixed, (ADD, "gOrdered", b"{1}b"), (REPLACE, "gSibling", b"{4}8"))


@row("15 another spelling, no equality rule")
def _(handle: Any, at: str) -> Iterator[None]:
    changed = thing(handle, "cn=changed", at, o=[b"A  Firm", b"Other"], gText=[b"a", b"b"])
    yield
    modify(handle, changed, (DELETE, "O", b"a firm"), (ADD, "2.5.4.10", b"New"))
    modify(handle, changed, (REPLACE, "o", b"OTHER"))
    modify(handle, changed, (DELETE, "gText", None))
    modify(handle, changed, (REPLACE, "gText", [b"c", b"C"]))


@row("16 permissive modify")
def _(handle: Any, at: str) -> Iterator[None]:
    changed = thing(handle, "cn=changed", at, description=[b"Present"])
    yield
    modify(handle, changed, (ADD, "description", [b"PRESENT", b"new"]), (DELETE, "o", None), control=PERMISSIVE)
    modify(handle, changed, (DELETE, "street", b"absent"), (ADD, "o", b"x"), control=PERMISSIVE)


@row("17 relax: createTimestamp and entryUUID")
def _(handle: Any, at: str) -> Iterator[None]:
    changed = thing(handle, "cn=changed", at)
    yield
    modify(handle, changed, (REPLACE, "createTimestamp", b"20010101000000Z"), control=RELAX)
    modify(handle, changed, (REPLACE, "entryUUID", b"12345678-1234-1234-1234-123456789abc"), control=RELAX)
    modify(handle, changed, (ADD, "description", b"of the new UUID"))
    handle.rename_s(changed, "cn=renamed")


@row("password exop")
def _(handle: Any, at: str) -> Iterator[None]:
    person = f"cn=person,{at}"
    handle.add_s(person, [("objectClass", [b"person"]), ("sn", [b"x"])])
    yield
    handle.passwd_s(person, None, "secret")


@row("spellings by many rules", long=True)
def _(handle: Any, at: str) -> Iterator[None]:
    dn = thing(handle, "cn=a", at, objectClass=[b"gEntry", b"extensibleObject"], seeAlso=[b"cn=X Y,dc=a", b"cn=b+sn=c"])
    values = [(ADD, "description", [b"A B", b"c"]), (ADD, "telephoneNumber", b"+1 2-3"), (ADD, "name", b"n")]
    modify(handle, dn, (ADD, "userCertificate;binary", CERTIFICATE), *values)
    yield
    modify(handle, dn, (DELETE, "userCertificate;binary", CERTIFICATE))
    modify(handle, dn, (DELETE, "seeAlso", [b"CN=x  y, DC=A", b"SN=C+CN=B"]))
    modify(handle, dn, (DELETE, "description", b"a   b "), (ADD, "description", b"  A B"))
    modify(handle, dn, (DELETE, "telephoneNumber", b"+123"), (ADD, "telephoneNumber", b"+1 2 3"))
    modify(handle, dn, (DELETE, "name", None), (DELETE, "sn", b"OF"), (ADD, "sn", b"Of"))
    modify(handle, dn, (REPLACE, "description", b"C"), (ADD, "2.5.4.13", b"d"), (DELETE, "DESCRIPTION", b"c"))


@row("renames of several values and long DNs", long=True)
def _(handle: Any, at: str) -> Iterator[None]:
    dn = thing(handle, "cn=a+sn=b", at)
    other = thing(handle, r"cn=Str\2cange \23", at)
    below = unit(handle, "ou=" + "x" * 200, at)
    for number in range(5):
        below = unit(handle, f"ou={number}" + "y" * 90, below)
    yield
    handle.rename_s(dn, "cn=a+sn=b")
    handle.rename_s(dn, "sn=b+cn=a", delold=1)
    handle.rename_s(f"cn=a+sn=b,{at}", "sn=B+cn=z", delold=1)
    handle.rename_s(f"cn=z+sn=b,{at}", "cn=z", delold=0)
    handle.rename_s(other, "cn=  two   words ", delold=1)
    handle.rename_s(f"ou={'x' * 200},{at}", "ou=short")


@row("brief entries of one second", long=True)
def _(handle: Any, at: str) -> Iterator[None]:
    yield
    for number in range(40):
        box = unit(handle, "ou=box", at)
        dn = thing(handle, "cn=c", box)
        if number % 3 == 0:
            handle.rename_s(box, "ou=moved")
            handle.rename_s(f"cn=c,ou=moved,{at}", "cn=d", unit(handle, "ou=box", at))
            handle.delete_s(f"ou=moved,{at}")
            dn = f"cn=d,{box}"
        handle.delete_s(dn)
        handle.delete_s(box)
    thing(handle, "cn=c", unit(handle, "ou=box", at))
    handle.rename_s(f"ou=box,{at}", "ou=in", unit(handle, "ou=new", at))


@row("many members", long=True)
def _(handle: Any, at: str) -> Iterator[None]:
    dn, members = f"cn=g,{at}", [b"cn=m%d,dc=a" % number for number in range(10_000)]
    handle.add_s(dn, [("objectClass", [b"groupOfNames"]), ("member", members[:5000])])
    yield
    modify(handle, dn, (ADD, "member", members[5000:]))
    modify(handle, dn, (DELETE, "member", [member.upper() for member in members[::3]]))
    modify(handle, dn, (ADD, "member", members[3:300:3]), (DELETE, "member", members[1:300:3]))


@row("indexes of ordered values", long=True)
def _(handle: Any, at: str) -> Iterator[None]:
    dn = thing(handle, "cn=o", at, gOrdered=[b"a", b"b", b"c", b"d"])
    yield
    modify(handle, dn, (ADD, "gOrdered", b"{9}e"))
    modify(handle, dn, (DELETE, "gOrdered", [b"{0}", b"{3}"]))
    modify(handle, dn, (ADD, "gOrdered", [b"{0}x", b"{9}y", b"{1}z"]))
    modify(handle, dn, (REPLACE, "gOrdered", [b"{5}e", b"{1}f", b"g"]))
    modify(handle, dn, (DELETE, "gOrdered", b"{0}"), (ADD, "gOrdered", b"{1}h"))


@pytest.mark.long(*LONG)
@pytest.mark.parametrize("name", ROWS)
def test_a_row(name: str, stage: Stage) -> None:
    with stage.source.server.connection() as handle:
        steps = ROWS[name](handle, unit(handle, f"ou={name.partition(' ')[0]}", BASE))
        next(steps)
        backup_id = stage.take()
        assert list(steps) == []
    stage.restored(backup_id, stage.source.note())


def test_two_writes_of_one_second(stage: Stage) -> None:
    """2: each form of the moment divides them; a CSN and a reqStart are inclusive, as a time is."""
    backup_id = stage.take()
    first, second = until(lambda: _of_one_second(stage.source.note(), stage.source.note()))
    for form in (*first.forms, clock(second.csn, -1), clock(first.csn)):
        assert "move it away" in stage.restored(backup_id, first, form).err  # the log goes on
    stage.restored(backup_id, second, second.start)


def _of_one_second(one: Moment, other: Moment) -> tuple[Moment, Moment] | None:
    return (one, other) if one.csn[:14] == other.csn[:14] else None


# --- refusals -------------------------------------------------------------------------------------
#
# The log has been altered: records of LDIF, of which the first is the suffix, in the order of their entry IDs.


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    with history(tmp_path_factory.mktemp("editor") / "e") as made:
        yield made


@pytest.fixture(scope="module")
def told(stage: Stage) -> tuple[str, list[Moment]]:
    """A backup, and five later moments, each of one modify of the suffix."""
    return stage.take(), [stage.source.note() for _ in range(5)]


def csn_of(record: Record) -> str:
    match = re.search(rb"^entryCSN: (\S+)", record, re.MULTILINE)
    assert match is not None
    return match[1].decode()


def newer(records: list[Record], csn: str) -> list[Record]:
    """Returns the suffix, and what was written after `csn`."""
    return [records[0], *(record for record in records[1:] if csn_of(record) > csn)]


def without_min_csn(suffix: Record) -> Record:
    return re.sub(rb"(?m)^minCSN: .*\n?", b"", suffix).rstrip()


def purged(records: list[Record], csns: list[str]) -> list[Record]:
    suffix, *left = newer(records, csns[2])
    return [without_min_csn(suffix) + b"\nminCSN: " + csns[2].encode(), *left]


Loss = Callable[[list[Record], list[str]], list[Record]]
# What is done to the records, by the CSNs of `told`; what the refusal says of these; the last of these moments that the
# log leads to, if any.
LOSSES: dict[str, tuple[Loss, tuple[str, ...], int | None]] = {
    # The next write of the entry shows it. Up to the write before, nothing is missing.
    "19 one write": (lambda all_, csns: [one for one in all_ if csn_of(one) != csns[2]], (BASE, "{2}", "{1}"), 1),
    "the end": (lambda all_, csns: [one for one in all_ if csn_of(one) <= csns[3]], ("{3}", "end"), 3),
    # Nothing in it is as old as the backup, whatever its minCSN says.
    "20 the beginning": (lambda all_, csns: newer(all_, csns[1]), ("{2:.14}",), None),
    # Its minCSN is above the backup's contextCSN.
    "18 what was purged": (purged, ("purge", "{2}", r"\b001\b"), None),
}


@pytest.mark.parametrize("name", LOSSES)
def test_what_the_log_has_lost(name: str, stage: Stage, told: tuple[str, list[Moment]], editor: History) -> None:
    lose, patterns, whole = LOSSES[name]
    backup_id, moments = told
    csns = [moment.csn for moment in moments]
    log = edited(stage.source, editor, lambda records: lose(records, csns))
    stage.refused(backup_id, csns[4], *(pattern.format(*map(re.escape, csns)) for pattern in patterns), log=log)
    if whole is not None:
        stage.restored(backup_id, moments[whole], log=log)
    if name == "19 one write":
        accepted = stage.restore(backup_id, csns[4], "--accept-gaps", log=log).ok()
        assert BASE in accepted.err
        assert not moments[4].faults(stage.target)  # its last write replaces the same attribute


def of_slapd_2_4(records: list[Record]) -> list[Record]:
    return [without_min_csn(records[0]), *(re.sub(rb"(?m)^reqNewDN:.*\n", b"", one) for one in records[1:])]


# The CSN says which write comes first. In the log of slapd 2.4, the entryCSN of the suffix is the purge mark.
HARMLESS: dict[str, Callable[[list[Record]], list[Record]]] = {
    "another order": lambda records: [records[0], *reversed(records[1:])],
    "25 of slapd 2.4": of_slapd_2_4,
}


@pytest.mark.parametrize("name", HARMLESS)
def test_a_log_that_has_lost_nothing(name: str, stage: Stage, told: tuple[str, list[Moment]], editor: History) -> None:
    backup_id, moments = told
    stage.restored(backup_id, moments[3], log=edited(stage.source, editor, HARMLESS[name]))
    stage.restored(backup_id, moments[4], log=editor.log)


def repeated(record: Record) -> list[Record]:
    """Returns the record, and one of the same write with another reqStart."""
    other = re.sub(rb"(?m)^entryUUID: .*$", b"entryUUID: 12345678-1234-1234-1234-123456789abc", record)
    return [record, re.sub(rb"(reqStart[=:] ?\d+)\.\d+Z", rb"\1.999999Z", other)]


def test_a_write_that_the_log_has_twice(stage: Stage, told: tuple[str, list[Moment]], editor: History) -> None:
    """It happened once."""
    backup_id, moments = told

    def repeat(records: list[Record]) -> list[Record]:
        twice = (repeated(one) if csn_of(one) == moments[2].csn else [one] for one in records)
        return [record for group in twice for record in group]

    done = stage.restore(backup_id, moments[4].csn, log=edited(stage.source, editor, repeat))
    if done.status == 0:  # else it is refused, which is right as well
        assert not moments[4].faults(stage.target)
    assert moments[2].csn in done.err


def test_a_moment_that_nothing_tells_of(stage: Stage, told: tuple[str, list[Moment]]) -> None:
    """3: before the backup, after the log's end, or no moment at all."""
    backup_id, _ = told
    last = stage.source.note().csn
    stage.refused(backup_id, "20010101000000Z", "before", "backup")
    stage.refused(backup_id, clock(last, 3_600_000_000), "end", re.escape(last))
    assert stage.restore(backup_id, "yesterday").status == UsageProblem.exit_status


def test_no_log(stage: Stage, told: tuple[str, list[Moment]], tmp_path: Path) -> None:
    backup_id, moments = told
    stage.refused(backup_id, moments[0].csn, re.escape(str(tmp_path)), log=tmp_path)
    stage.refused(backup_id, moments[0].csn, "accesslog|--log", log=None)


# --- other configurations -------------------------------------------------------------------------


@pytest.mark.long
def test_the_log_of_a_later_backup(tmp_path: Path) -> None:
    """Without --log; and a copy that nobody has open."""
    with staged(tmp_path / "s") as stage:
        server = stage.source.server
        where = ("--config", server.config_path, "-R", stage.repo, "--all-databases")
        first = ditseed("backup", "run", "--init", *where, "--json").ok().facts["id"]
        moments = [stage.source.note() for _ in range(3)]
        ditseed("backup", "run", *where).ok()
        stage.restored(first, moments[1], log=None)
        late = stage.source.note()
        stage.refused(first, late.csn, re.escape(moments[2].csn), log=None)
        server.stop()
        (copy := tmp_path / "copy").mkdir()
        shutil.copy(stage.source.log / "data.mdb", copy)
        stage.restored(first, late, log=copy)


@pytest.mark.long
def test_a_transaction_of_which_the_end_is_not_logged(tmp_path: Path) -> None:
    """9: with logsuccess TRUE, a transaction that was rolled back looks like one that was committed."""
    with staged(tmp_path / "s", logs=f"logops writes\nlogsuccess TRUE\n{LOGOLD}") as stage:
        backup_id = stage.take()
        with stage.source.server.connection() as handle:
            begin(handle)
            modify(handle, f"ou=groups,{BASE}", (REPLACE, "description", b"never"), control=IN_TRANSACTION)
            handle.delete_ext_s(f"cn=nobody,{BASE}", serverctrls=[IN_TRANSACTION])
            with pytest.raises(ldap.NO_SUCH_OBJECT):
                end(handle, commit=True)
        moment = stage.source.note()
        done = stage.restore(backup_id, moment.csn)
        if done.status == 0:
            assert not moment.faults(stage.target)
        assert "transaction" in done.err, done


@pytest.mark.long
def test_a_server_that_is_killed(tmp_path: Path) -> None:
    """The last write may be in the tree and not in the log. If a later write of the entry shows it, the restore is
    refused. If there is none, because it was a delete for instance, nothing shows it."""
    with staged(tmp_path / "s") as stage:
        server = stage.source.server
        backup_id = stage.take()
        killer = threading.Timer(0.5, server.kill9)
        with changes(server, seed=5, members=MEMBERS) as writers:
            killer.start()
            with pytest.raises(ldap.LDAPError):
                writers.make(100_000)
        killer.join()
        server.start()
        with changes(server, seed=6, members=MEMBERS, home="after") as writers:
            writers.make(60)
        moment = stage.source.note()
        done = stage.restore(backup_id, moment.csn)
        if done.status == 0:
            faults = moment.faults(stage.target)
            assert len({re.sub("only in the .*?: ", "", fault).split(": ")[0] for fault in faults}) <= 1, faults
        else:
            assert "gap" in done.err, done


def test_without_lastmod(tmp_path: Path) -> None:
    """25: entries have no entryCSN, so nothing shows which changes the backup has already."""
    settings = replace(SETTINGS, database_lines=("lastmod off",))
    with history(tmp_path / "source", settings, syncprov=False) as source:
        source.server.slapadd(tree(BASE, MEMBERS))
        with source.server:
            stage = Stage(source, source, tmp_path / "repo")
            stage.refused(stage.take(), f"{datetime.datetime.now():%Y-%m-%dT%H:%M:%S.%f}", "lastmod")


@pytest.mark.long
def test_two_databases_in_one_log(tmp_path: Path) -> None:
    """21: the other one's changes are no changes of this one."""
    place = tmp_path / "second"
    place.mkdir(mode=0o700)
    second = ("database mdb", "suffix o=second", "rootdn cn=admin,o=second", "rootpw x", f"directory {place}")
    lines = (*second, f"overlay accesslog\nlogdb {LOG}\nlogops writes\nlogsuccess FALSE\n{LOGOLD}")
    with history(tmp_path / "source", log_lines=lines) as source, history(tmp_path / "target") as target:
        source.server.slapadd(tree(BASE, MEMBERS), "-w")
        source.server.start()
        source.note()
        stage = Stage(source, target, tmp_path / "repo")
        backup_id = stage.take()
        other = ldap.initialize(source.server.client_uri)
        other.simple_bind_s("cn=admin,o=second", "x")
        other.add_s("o=second", [("objectClass", [b"organization"])])
        unit(other, "ou=groups", "o=second")
        moment = source.note()
        other.delete_s("ou=groups,o=second")
        other.unbind_ext_s()
        stage.restored(backup_id, moment)


@pytest.mark.long
def test_a_log_that_was_switched_on_late(tmp_path: Path) -> None:
    """20: its minCSN is from disk, older than writes that it does not have."""

    def off(conf: str) -> str:
        overlay = re.search(r"overlay accesslog\n(?:log.*\n)+", conf)
        assert overlay is not None
        kept.append(overlay[0])
        return conf.replace(overlay[0], "")

    kept: list[str] = []
    with history(tmp_path / "source") as source, history(tmp_path / "target") as target:
        server = source.server
        server.slapadd(tree(BASE, MEMBERS), "-w")
        server.rewrite(off)
        with server:
            stage = Stage(source, target, tmp_path / "repo")
            backup_id = stage.take()
            server.describe("not logged", f"ou=groups,{BASE}")
            server.kill9()
            overlay = f"\n{kept[0]}overlay syncprov\nsyncprov-ch"
            server.rewrite(lambda conf: conf.replace("\noverlay syncprov\nsyncprov-ch", overlay))
            server.start()
            moment = source.note()
            stage.refused(backup_id, moment.csn, "backup")


@pytest.mark.long
def test_a_log_that_is_purged_by_slapd(tmp_path: Path) -> None:
    with staged(tmp_path / "s", logs=PURGING) as stage:
        backup_id = stage.take()
        stage.wait_for_purge(stage.source.note())
        stage.refused(backup_id, stage.source.note().csn, "purge", r"\b001\b")


@pytest.mark.long
def test_two_providers(tmp_path: Path) -> None:
    """22: the older of two writes of one entry is logged last, and did not change the entry."""
    with ExitStack() as stack:
        one, two = (
            stack.enter_context(history(tmp_path / name, replace(SETTINGS, server_id=number)))
            for number, name in enumerate(("one", "two"), 1)
        )
        target = stack.enter_context(history(tmp_path / "target", replace(SETTINGS, server_id=2)))
        for own, other in ((one, two), (two, one)):
            lines = "\n".join([following(other.server, DELTA)[0], "multiprovider on", ""])
            own.server.rewrite(
                lambda conf, lines=lines: conf.replace("\noverlay accesslog", f"\n{lines}overlay accesslog")
            )
        one.server.slapadd(tree(BASE, MEMBERS), "-w")
        with one.server, two.server:
            dn = f"ou=groups,{BASE}"
            wait_in_sync(one.server, two.server)
            two.note()
            wait_in_sync(one.server, two.server)
            stage = Stage(two, target, tmp_path / "repo")
            backup_id = stage.take()
            two.server.stop()
            one.server.describe("older", dn)
            one.server.stop()
            two.server.start()
            two.server.describe("newer", dn)
            one.server.start()
            wait_in_sync(one.server, two.server)
            moment = two.note()
            assert moment.stored[dn]["description"] == [b"newer"]
            assert len(moment.context_csns) == 2
            stage.restored(backup_id, moment)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["adds", "deletes", "a rename"])
def test_the_refresh_of_a_consumer(kind: str, tmp_path: Path) -> None:
    """23: its log has a change of the suffix with nothing but contextCSN, which is no change. slapd logs only the first
    delete of a refresh, and loses the modify after a rename."""
    second = replace(SETTINGS, server_id=2)
    with ExitStack() as stack:
        provider = stack.enter_context(history(tmp_path / "provider"))
        own, target = (stack.enter_context(history(tmp_path / name, second)) for name in ("consumer", "target"))
        line = following(provider.server)[0] + "\n"
        own.server.rewrite(lambda conf: conf.replace("\noverlay accesslog", f"\n{line}overlay accesslog"))
        provider.server.slapadd(tree(BASE, MEMBERS), "-w")
        with provider.server, own.server, provider.server.connection() as handle:
            for name in "abc":
                thing(handle, f"cn={name}", BASE)
            wait_in_sync(provider.server, own.server)
            provider.note()
            wait_in_sync(provider.server, own.server)
            stage = Stage(own, target, tmp_path / "repo")
            backup_id = stage.take()
            own.server.stop()
            if kind == "adds":
                thing(handle, "cn=added", unit(handle, "ou=box", BASE))
                modify(handle, f"ou=groups,{BASE}", (ADD, "description", b"changed"))
                provider.note()
            elif kind == "deletes":
                for name in "abc":
                    handle.delete_s(f"cn={name},{BASE}")
            else:
                handle.rename_s(f"cn=a,{BASE}", "cn=renamed")
                modify(handle, f"cn=renamed,{BASE}", (ADD, "description", b"changed"))
            own.server.start()
            wait_in_sync(provider.server, own.server)
            log = [entry for entry in own.stored(LOG).values() if "reqType" in entry]
            last = max(entry["entryCSN"][0] for entry in log).decode()
            if kind == "adds":
                assert any(mod.startswith(b"contextCSN:=") for entry in log for mod in entry.get("reqMod", []))
                stage.restore(backup_id, last).ok()
                own.server.stop()
                assert not differences(own.stored(), target.stored())
            else:
                stage.refused(backup_id, last, "cn=a", "refresh" if kind == "deletes" else "what else")


@pytest.mark.long
def test_what_overlays_write(tmp_path: Path) -> None:
    """24: memberof and refint write without the log. The restore says so, and all else is as it was."""
    overlays = ("overlay memberof\nmemberof-refint TRUE", "overlay refint\nrefint_attributes seeAlso")
    settings = replace(SETTINGS, modules=(*SETTINGS.modules, "memberof", "refint"), overlays=overlays)
    with staged(tmp_path / "s", settings=settings) as stage:
        backup_id = stage.take()
        with stage.source.server.connection() as handle:
            person, group = thing(handle, "cn=person", BASE), f"cn=small,ou=groups,{BASE}"
            thing(handle, "cn=sees", BASE, seeAlso=[person.encode()])
            modify(handle, group, (ADD, "member", person.encode()))
            handle.delete_s(thing(handle, "cn=to delete", BASE))
        moment = stage.source.note()
        done = stage.restore(backup_id, moment.csn).ok()
        assert re.search("memberof", done.err, re.IGNORECASE), done
        assert re.search("refint", done.err, re.IGNORECASE), done
        computed = ("memberOf", "modifiersName", "seeAlso", "member")
        assert not differences(moment.stored, stage.target.stored(), ignore=computed)


def without(csn: str) -> Callable[[list[Record]], list[Record]]:
    return lambda records: [record for record in records if csn_of(record) != csn]


@pytest.mark.long
def test_each_lost_write(tmp_path: Path, editor: History) -> None:
    """Of any kind, if a later write that succeeded shows the lost one's entryCSN in reqOld."""
    with staged(tmp_path / "s") as stage:
        base, backup_id = stage.source.note().csn, stage.take()
        with changes(stage.source.server, seed=7, members=MEMBERS) as writers:
            writers.make(120)
        moment = stage.source.note()
        succeeded = [
            record
            for record in stage.source.slapcat(LOG).split(b"\n\n")
            if b"\nreqResult: 0\n" in record and b"1.3.6.1.1.21.2" not in record
        ]
        followed = {csn for record in succeeded for csn in re.findall(rb"(?m)^reqOld: entryCSN: (\S+)", record)}
        lost = sorted(followed & {csn_of(record).encode() for record in succeeded if csn_of(record) > base})
        assert len(lost) > 100
        for csn in lost[:: len(lost) // 10]:
            log = edited(stage.source, editor, without(csn.decode()))
            stage.refused(backup_id, moment.csn, re.escape(csn.decode()), log=log)
