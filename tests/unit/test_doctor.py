"""The rules of `doctor` on facts that are hard to come by."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from loader.config import DEFAULT_MAXSIZE, Config
from loader.config import Database as Configured
from loader.mdb.readers import Reader, Room
from loader.operations import doctor
from loader.operations.backup import replay
from loader.operations.doctor import rules
from loader.operations.doctor.facts import Replication, Request, Server
from loader.operations.doctor.rules import Certificate
from loader.operations.monitoring import Status
from loader.operations.storage.findings import Finding
from loader.run.lease import Lease
from loader.storage.survey import Unseen

GIB = 1 << 30
ROOM = Room(maxsize=10 * GIB, used=3 * GIB, reusable=0, held=0, disk_free=50 * GIB, growth=None)
DATABASE = Configured("olcDatabase={1}mdb,cn=config", "mdb", ("dc=example,dc=com",), None, 10 * GIB)
OWN = "20261120000000.000000Z#000000#001#000000"
LATER = "20261120001000.000000Z#000000#001#000000"
ELSEWHERE = "20261120000000.000000Z#000000#002#000000"
CONFIGURED = {"suffixes", "maxsize", "indexes", "env_flags", "nosync", "overlays", "checkpoint"}
UNSEEN = {"damage": "", "data": None, "tables": None, "nosync_holder": "", "idlexp": 16, "readers": ()}


def facts(entries: dict[str, dict[str, list[bytes]]] | None = None, **of_database: Any) -> Server:
    """A server of which nothing but these facts of its database is there to be seen. `entries`: of cn=config."""
    stated = {name: of_database.pop(name) for name in CONFIGURED & of_database.keys()}
    release = of_database.pop("release", (2, 4, 57))
    config = Config(Path("/etc/ldap/slapd.d"), (structs.replace(DATABASE, **stated),), tuple((entries or {}).items()))
    server = seen(Server(config, Request()), release=release, leases=(), slapd=None)
    seen(server, tune_options=("-H ldapi:/// -Y EXTERNAL", "--apply"), unseen=[])
    seen(server.databases[0], **{**UNSEEN, "room": ROOM, **of_database})
    return server


def seen(of: Any, **facts: Any) -> Any:
    """`of`, which has looked at these facts already."""
    vars(of).update(facts)
    return of


def found(of: Server, rule: str) -> list[Finding]:
    return [one for one in doctor.judged(of) if one.rule == rule]


def severities(of: Server, rule: str) -> list[str]:
    return [one.severity.value for one in found(of, rule)]


@pytest.mark.parametrize(
    ("release", "rules"),
    [
        ((2, 4, 57), set()),
        ((2, 5, 13), {"release.continue"}),
        ((2, 6, 10), {"release.continue"}),
        ((2, 6, 11), {"release.continue", "release.scattered_values"}),
        ((2, 6, 14), {"release.continue", "release.scattered_values"}),
        ((2, 6, 15), {"release.continue"}),
        ((2, 7, 0), set()),
    ],
)
def test_bugs_of_a_release_are_told_of_that_alone(release: tuple[int, int, int], rules: set[str]) -> None:
    told = [one for one in doctor.judged(facts(release=release)) if one.rule.startswith("release.")]
    assert {one.rule for one in told} == rules
    assert all(one.mend for one in told)


def sync(shown: str | None, stored: str = OWN, of: str = "provider", **more: Any) -> Replication:
    """What a consumer has `stored`, and what its provider has `shown`."""
    return Replication(f"ldap://{of}", (stored,), (shown,) if shown else None, 1.0, **more)


def room(**changes: Any) -> dict[str, Any]:
    return {"room": replace(ROOM, **changes)}


def limited(of_frontend: dict[str, list[bytes]], of_database: dict[str, list[bytes]]) -> dict[str, Any]:
    """A provider with these limits."""
    entries = {"olcDatabase={-1}frontend,cn=config": of_frontend, DATABASE.entry_dn: of_database}
    return {"entries": entries, "overlays": ("syncprov",)}


DEAD = sync(None, dead="connection refused")
AHEAD = sync(OWN, LATER)
BOTH = Replication("ldap://provider", (OWN,), (OWN, ELSEWHERE), 1.0)


@pytest.mark.parametrize(
    ("rule", "changes", "severity"),
    [
        ("format", {"release": (2, 6, 10), "format": 1}, "ok"),
        ("format", {"release": (2, 6, 10), "format": 3}, "critical"),
        ("format", {"release": (2, 7, 0), "format": 3}, "ok"),
        ("format", {"release": (2, 7, 0), "format": 1}, "critical"),
        ("sync", {}, "ok"),
        ("sync", {"nosync": True}, "critical"),
        ("sync", {"nosync": True, "checkpoint": "1024 5"}, "warning"),
        ("sync", {"nosync": True, "checkpoint": "1024 0"}, "critical"),
        ("sync", {"nosync": True, "checkpoint": "0 5", "env_flags": ("writemap",)}, "critical"),
        ("sync", {"env_flags": ("mapasync", "writemap")}, "warning"),
        ("sync", {"env_flags": ("mapasync",)}, "ok"),
        ("idlexp", {"idlexp": 16}, ""),
        ("idlexp", {"idlexp": 20}, "note"),
        ("readers.full", {"slots": (126, 0)}, ""),
        ("readers.full", {"slots": (126, 112)}, ""),
        ("readers.full", {"slots": (126, 114)}, "warning"),
        ("readers.full", {"slots": (126, 126)}, "critical"),
        ("maxsize.unset", {"maxsize": DEFAULT_MAXSIZE}, "warning"),
        ("indexes.sync", {}, ""),
        ("server_id", {"is_multi_provider": True}, "critical"),
        ("server_id", {"is_multi_provider": True, "entries": {"cn=config": {"olcServerID": [b"1"]}}}, ""),
        ("replication", {"replication": (sync(OWN),)}, "ok"),
        ("replication", {"replication": (sync(LATER),)}, "warning"),
        ("replication", {"replication": (BOTH,)}, "critical"),
        ("replication", {"replication": (sync(None),)}, "note"),
        ("replication", {"replication": (DEAD,)}, ""),
        ("replication.dead", {"replication": (DEAD,)}, "critical"),
        ("replication.dead", {"replication": (DEAD, sync(OWN))}, "warning"),
        ("replication.ahead", {"replication": (sync(OWN),)}, ""),
        ("replication.ahead", {"replication": (AHEAD,)}, "critical"),
        ("replication.ahead", {"replication": (AHEAD,), "is_multi_provider": True}, ""),  # written here
        ("replication.ahead", {"replication": (sync(None, LATER),)}, ""),
        ("replication.ahead", {"replication": (sync(ELSEWHERE),)}, ""),
        ("replication.ahead", {"replication": (AHEAD, sync(LATER, LATER, "other"))}, ""),
        ("maxsize", {}, "ok"),
        ("maxsize", room(used=9 * GIB), "warning"),
        ("maxsize", room(used=9 * GIB + 1), "critical"),
        ("maxsize", room(used=9 * GIB, reusable=5 * GIB), "ok"),  # 90 % "used", and half of it free
        ("maxsize", room(used=3 * GIB, disk_free=GIB), "warning"),
        ("maxsize", room(used=8 * GIB, reusable=GIB // 2, held=GIB), "ok"),
        ("maxsize", room(used=8 * GIB + GIB // 2, held=5 * GIB), "warning"),
        ("maxsize", room(growth=7 * GIB / 800), "warning"),  # seconds until it is full
        ("maxsize", room(growth=7 * GIB / 200), "critical"),
        ("maxsize", room(growth=7 * GIB / 2000), "ok"),
        ("limits", limited({}, {}), "note"),
        ("limits", limited({}, {"olcLimits": [b"{0}dn.exact=cn=r size.prtotal=unlimited"]}), ""),
        ("limits", limited({"olcSizeLimit": [b"unlimited"]}, {}), ""),
        ("limits", limited({"olcSizeLimit": [b"unlimited"]}, {"olcSizeLimit": [b"1000"]}), "note"),
        ("limits", limited({}, {"olcSizeLimit": [b"-1"]}), ""),
        ("limits", limited({}, {"olcSizeLimit": [b"size.soft=10 size.hard=unlimited"]}), ""),
        ("readers.dead", {"readers": (Reader(4711, "", 0, False),)}, "note"),
        ("readers.dead", {"readers": (Reader(4711, "", 3, False),)}, "warning"),  # it keeps pages
    ],
)
def test_severity(rule: str, changes: dict[str, Any], severity: str) -> None:
    assert severities(facts(**changes), rule) == ([severity] if severity else [])


def test_how_far_a_consumer_is_behind() -> None:
    assert [one.lag for one in (sync(OWN), sync(LATER), BOTH, sync(None))] == [0.0, 600.0, float("inf"), None]
    assert "is not behind ldap://provider" in found(facts(replication=(sync(OWN),)), "replication")[0].what


def test_a_disk_without_room_is_not_mended_by_maxsize() -> None:
    (one,) = found(facts(room=replace(ROOM, disk_free=GIB)), "maxsize")
    assert "the disk has room for 1.0 GiB only" in one.what
    assert not any("tune maxsize" in line for line in one.mend)
    (one,) = found(facts(room=replace(ROOM, used=9 * GIB)), "maxsize")
    where = "-H ldapi:/// -Y EXTERNAL -b dc=example,dc=com"
    assert one.mend == (f"ditseed tune maxsize {where} --maxsize auto --apply",)
    by_hand = seen(facts(room=replace(ROOM, used=9 * GIB)), tune_options=("--config x", ""))
    assert not any("--apply" in line for line in found(by_hand, "maxsize")[0].mend)


@pytest.mark.parametrize(
    ("days", "many", "severity"),
    [(60, False, "ok"), (20, False, "warning"), (3, False, "critical"), (-1, True, "warning")],
)
def test_certificates(days: float, many: bool, severity: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "certificates_of", lambda _: [Certificate("CN=x", days * 86400, many)])
    of = facts({"cn=config": {"olcTLSCertificateFile": [b"/c.pem"]}})
    assert severities(of, "certificate") == [severity]


LOGGED = {
    "olcAccessLogDB": [b"cn=accesslog"],
    "olcAccessLogOps": [b"writes"],
    "olcAccessLogOld": [b"(objectClass=*)"],
    "olcAccessLogOldAttr": [b"{0}entryCSN"],
    "olcAccessLogPurge": [b"14+00:00 1+00:00"],
}


@pytest.mark.parametrize(
    ("changes", "unreplayable", "problem"),
    [
        ({}, [], ""),
        ({"olcAccessLogOps": [b"session", b"add modify", b"delete modrdn"]}, [], ""),
        ({"olcAccessLogOps": [b"add modify delete"]}, [], "logops leaves out modrdn"),
        ({"olcAccessLogOps": [], "olcAccessLogBase": [b"writes dc=com"]}, [], ""),
        (
            {"olcAccessLogOps": [], "olcAccessLogBase": [b"writes ou=a,dc=example,dc=com"]},
            [],
            "logops leaves out add, delete, modify, modrdn",
        ),
        ({"olcAccessLogSuccess": [b"TRUE"]}, [], "logsuccess hides rollbacks"),
        ({"olcAccessLogOld": []}, [], "logold is not (objectClass=*)"),
        ({"olcAccessLogOld": [b"(objectClass=person)"]}, [], "logold is not (objectClass=*)"),
        ({"olcAccessLogOldAttr": [b"cn sn"]}, [], "logoldattr lacks entryCSN"),
        ({"olcAccessLogPurge": []}, [], ""),
        ({"olcAccessLogPurge": [b"48:00 01:00"]}, [], ""),
        ({"olcAccessLogPurge": [b"01+23:59:59 01:00"]}, [], "logpurge after 1 d 23 h"),
        ({"olcAccessLogPurge": [b"02:30 01:00"]}, [], "logpurge after 2 h 30 min"),
        ({}, ["its suffix is empty"], "its suffix is empty"),
        ({}, [replay.REQMOD.format("cn=accesslog")], "multival reqMod of cn=accesslog"),
    ],
)
def test_a_log_that_cannot_be_replayed(changes: dict[str, list[bytes]], unreplayable: list[str], problem: str) -> None:
    entries = {f"olcOverlay={{0}}accesslog,{DATABASE.entry_dn}": {**LOGGED, **changes}}
    shown = found(facts(entries, unreplayable=unreplayable), "accesslog")
    assert [one.what.partition("complete: ")[2][: len(problem)] for one in shown] == ([problem] if problem else [])
    assert all(one.severity.value == ("critical" if "reqMod" in problem else "note") for one in shown)


def test_leases_that_stand() -> None:
    leases = tuple(Lease(kind, "ldap://x", "o=x", "undo", taken="2026") for kind in ("sessionlog", "nosync"))
    assert severities(seen(facts(), leases=leases), "lease") == ["warning", "note"]
    (one,) = found(facts(nosync=True, nosync_holder="load of March"), "sync")
    assert one.what == "nosync, no checkpoint, lent for load of March"


def test_what_mends_an_index_that_replication_needs_and_a_slot_of_a_dead_process() -> None:
    for name, indexes in (("entryCSN eq", ("entryCSN eq",)), ("entryUUID eq", ("entryCSN eq", "entryUUID eq"))):
        (one,) = found(facts(lacking_indexes=indexes, is_replicated=True), "indexes.sync")
        assert f"no index {name}" in one.what
        assert f"--add '{name}'" in one.mend[0]
    (one,) = found(facts(readers=(Reader(4711, "", 0, False),)), "readers.dead")
    assert "dead processes (4711)" in one.what
    assert one.mend == ("ditseed doctor --config /etc/ldap/slapd.d --fix",)


ROW = re.compile(r"^\| `([\w.*]+)` \| ((?:(?:note|warning|critical)(?:, )?)+) \|", re.MULTILINE)


def test_each_rule_has_a_row_and_each_row_a_rule() -> None:
    code = Path(rules.__file__)
    rows = ROW.findall((code.parents[3] / "docs/doctor.md").read_text())
    assert len(rows) == len(dict(rows))
    assert dict(rows).keys() == rules.SOURCES.keys()
    for node in ast.walk(ast.parse(code.read_text())):
        match node:
            case ast.Call(func=ast.Name("finding"), args=[ast.Constant(str(rule)), severity, *_]):
                named = set(re.findall(r"\b(NOTE|WARNING|CRITICAL)\b", ast.unparse(severity)))
                named |= {"WARNING", "CRITICAL"} if "graded" in ast.unparse(severity) else set()
                assert set(map(str.lower, named)) <= set(dict(rows)[rule].split(", ")), rule


def test_the_plugin_keeps_its_line_whole() -> None:
    """A bar in what is told would begin performance data."""
    of = facts(suffixes=("o=a|b",), room=replace(ROOM, used=10 * GIB))
    first, *_ = doctor.check(doctor.Report(of, doctor.judged(of))).text()
    assert first.startswith("DOCTOR CRITICAL - o=a/b: 0 B of maxsize")
    assert first.count("|") == 1


def test_what_was_not_looked_at_is_not_ok() -> None:
    for name, status, is_well in (("unseen", Status.UNKNOWN, False), ("left_out", Status.OK, True)):
        of = seen(facts(), **{name: [Unseen("certificates of /c.pem", "why")]})
        report = doctor.Report(of, doctor.judged(of))
        assert (doctor.check(report).status, report.is_well) == (status, is_well), name
    assert "left out: certificates of /c.pem (why)" in doctor.check(report).text()
