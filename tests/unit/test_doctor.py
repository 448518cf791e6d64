"""The rules of `doctor` on facts that are hard to come by."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from loader.config import DEFAULT_MAXSIZE, Config
from loader.config import Database as Configured
from loader.mdb.readers import Room
from loader.operations import doctor
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


def facts(**of_database: Any) -> Server:
    """A server of which nothing but these facts of its database is there to be seen."""
    stated = {name: of_database.pop(name) for name in CONFIGURED & of_database.keys()}
    config = Config(Path("/etc/ldap/slapd.d"), (structs.replace(DATABASE, **stated),), ())
    server = seen(Server(config, Request()), release=(2, 4, 57), leases=(), slapd=None)
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
    told = doctor.judged(seen(facts(), release=release))
    assert {one.rule for one in told if one.rule.startswith("release.")} == rules
    assert all(one.mend for one in told if one.rule.startswith("release."))


@pytest.mark.parametrize(
    ("release", "data_format", "severity"),
    [((2, 6, 10), 1, "ok"), ((2, 6, 10), 3, "critical"), ((2, 7, 0), 3, "ok"), ((2, 7, 0), 1, "critical")],
)
def test_a_file_that_slapd_does_not_read(release: tuple[int, int, int], data_format: int, severity: str) -> None:
    of = seen(facts(format=data_format), release=release)
    assert severities(of, "format") == [severity]


@pytest.mark.parametrize(
    ("changes", "severity"),
    [
        ({}, "ok"),
        ({"used": 9 * GIB}, "warning"),
        ({"used": 9 * GIB + 1}, "critical"),
        ({"used": 9 * GIB, "reusable": 5 * GIB}, "ok"),  # 90 % "used", and half of it free
        ({"used": 3 * GIB, "disk_free": GIB}, "warning"),
        ({"used": 8 * GIB, "reusable": GIB // 2, "held": GIB}, "ok"),
        ({"used": 8 * GIB + GIB // 2, "held": 5 * GIB}, "warning"),
        ({"growth": 7 * GIB / 800}, "warning"),  # seconds until it is full
        ({"growth": 7 * GIB / 200}, "critical"),
        ({"growth": 7 * GIB / 2000}, "ok"),
    ],
)
def test_room_in_the_map(changes: dict[str, Any], severity: str) -> None:
    assert severities(facts(room=replace(ROOM, **changes)), "maxsize") == [severity]


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
    ("changes", "severity"),
    [
        ({}, "ok"),
        ({"nosync": True}, "critical"),
        ({"nosync": True, "checkpoint": "1024 5"}, "warning"),
        ({"nosync": True, "checkpoint": "1024 0"}, "critical"),
        ({"nosync": True, "checkpoint": "0 5", "env_flags": ("writemap",)}, "critical"),
        ({"env_flags": ("mapasync", "writemap")}, "warning"),
        ({"env_flags": ("mapasync",)}, "ok"),
    ],
)
def test_what_a_crash_would_lose(changes: dict[str, Any], severity: str) -> None:
    assert severities(facts(**changes), "sync") == [severity]


@pytest.mark.parametrize(
    ("shown", "lag", "severity"),
    [
        ((OWN,), 0.0, "ok"),
        ((LATER,), 600.0, "warning"),
        ((OWN, ELSEWHERE), float("inf"), "critical"),
        (None, None, "note"),
    ],
)
def test_how_far_a_consumer_is_behind(shown: tuple[str, ...] | None, lag: float | None, severity: str) -> None:
    one = Replication("ldap://provider", (OWN,), shown, 1.0)
    assert one.lag == lag
    assert severities(facts(replication=(one,)), "replication") == [severity]


@pytest.mark.parametrize(
    ("days", "many", "severity"),
    [(60, False, "ok"), (20, False, "warning"), (3, False, "critical"), (-1, True, "warning")],
)
def test_certificates(days: float, many: bool, severity: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "certificates_of", lambda _: [Certificate("CN=x", days * 86400, many)])
    entry = ("cn=config", {"olcTLSCertificateFile": [b"/c.pem"]})
    of = facts()
    of.config = dataclasses.replace(of.config, entries=(entry,))
    assert severities(of, "certificate") == [severity]


def test_long_lists_and_limits() -> None:
    assert severities(facts(idlexp=16), "idlexp") == []
    assert severities(facts(idlexp=20), "idlexp") == ["note"]
    assert severities(facts(overlays=("syncprov",)), "limits") == ["note"]
    lifted = ("{0}dn.exact=cn=r size.prtotal=unlimited", "")
    assert severities(facts(overlays=("syncprov",), limits=lifted), "limits") == []
    for size_limit in ("unlimited", "-1", "size.soft=10 size.hard=unlimited"):
        of = facts(overlays=("syncprov",), limits=(size_limit,))
        assert severities(of, "limits") == []
    assert severities(facts(overlays=("syncprov",), limits=("1000",)), "limits") == ["note"]


def test_a_session_log_that_is_kept_is_a_note() -> None:
    leases = tuple(Lease(kind, "ldap://x", "o=x", "undo", taken="2026") for kind in ("sessionlog", "nosync"))
    assert severities(seen(facts(), leases=leases), "lease") == ["warning", "note"]


@pytest.mark.parametrize(
    ("stored", "shown", "changes", "severity"),
    [
        (OWN, (OWN,), {}, []),
        (LATER, (OWN,), {}, ["critical"]),
        (LATER, (OWN,), {"is_multi_provider": True}, []),  # written here
        (LATER, None, {}, []),
        (OWN, (ELSEWHERE,), {}, []),
    ],
)
def test_a_consumer_that_is_ahead(
    stored: str, shown: tuple[str, ...] | None, changes: dict[str, Any], severity: list[str]
) -> None:
    one = Replication("ldap://provider", (stored,), shown, 1.0)
    of = facts(replication=(one,), **changes)
    assert severities(of, "replication.ahead") == severity
    another = Replication("ldap://other", (stored,), (stored,), 1.0)
    assert severities(facts(replication=(one, another)), "replication.ahead") == []


def test_a_provider_that_cannot_be_reached() -> None:
    dead = Replication("ldap://provider", (OWN,), None, 1.0, dead="connection refused")
    alive = Replication("ldap://other", (OWN,), (OWN,), 1.0)
    assert severities(facts(replication=(dead,)), "replication.dead") == ["critical"]
    assert severities(facts(replication=(dead,)), "replication") == []
    assert severities(facts(replication=(dead, alive)), "replication.dead") == ["warning"]
    (one,) = found(facts(replication=(alive,)), "replication")
    assert "is not behind ldap://other" in one.what


def test_what_the_configuration_lacks() -> None:
    lacking = {"entryCSN eq": ("entryCSN eq",), "entryUUID eq": ("entryCSN eq", "entryUUID eq")}
    for name, indexes in lacking.items():
        (one,) = found(facts(lacking_indexes=indexes, is_replicated=True), "indexes.sync")
        assert f"no index {name}" in one.what
        assert f"--add '{name}'" in one.mend[0]
    assert severities(facts(), "indexes.sync") == []
    assert severities(facts(maxsize=DEFAULT_MAXSIZE), "maxsize.unset") == ["warning"]
    multi = facts(is_multi_provider=True)
    assert severities(multi, "server_id") == ["critical"]
    multi.config = dataclasses.replace(multi.config, entries=(("cn=config", {"olcServerID": [b"1"]}),))
    assert severities(multi, "server_id") == []


@pytest.mark.parametrize(("taken", "severity"), [(0, []), (112, []), (114, ["warning"]), (126, ["critical"])])
def test_reader_slots(taken: int, severity: list[str]) -> None:
    assert severities(facts(slots=(126, taken)), "readers.full") == severity
    assert severities(facts(), "readers.full") == []


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
    unseen = (Unseen("certificates of /c.pem", "why"),)
    blind = seen(facts(), unseen=list(unseen))
    report = doctor.Report(blind, doctor.judged(blind))
    assert (doctor.check(report).status, report.is_well) == (Status.UNKNOWN, False)
    left_out = seen(facts(), left_out=list(unseen))
    report = doctor.Report(left_out, doctor.judged(left_out))
    assert (doctor.check(report).status, report.is_well) == (Status.OK, True)
    assert "left out: certificates of /c.pem (why)" in doctor.check(report).text()
