"""Load plans against a real slapd that holds the tree they are for: all they say comes true."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ldap
import pytest
from ldap.ldapobject import LDAPObject

from fixtures.slapd import Slapd
from tests.support.accounts import build_from, server
from tests.support.command import ditseed

pytestmark = pytest.mark.slapd

ENTRIES = 1500
READS = "search=60,bind=40"
TEMPLATES = ("people", "accounts", "campus", "worst")
SCOPES = {"base": ldap.SCOPE_BASE, "one": ldap.SCOPE_ONELEVEL, "sub": ldap.SCOPE_SUBTREE}


@pytest.fixture(scope="module", params=TEMPLATES)
def loaded(request: pytest.FixtureRequest) -> Iterator[tuple[str, Slapd]]:
    """A running server with the tree of a template."""
    target = server()
    try:
        build_from(target, request.param, ENTRIES).ok()
        with target:
            yield request.param, target
    finally:
        target.close()


def plan(template: str, operations: int, *more: object) -> str:
    words = ("--operations", operations, "-n", ENTRIES, "--progress", "none")
    return ditseed("generate", "operations", template, *words, *more).ok().out


def lines(template: str, operations: int, *more: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in plan(template, operations, *more).splitlines()]


def connection(target: Slapd) -> LDAPObject:
    made = ldap.initialize(target.ldapi_uri)
    made.set_option(ldap.OPT_REFERRALS, 0)
    return made


def wrong(connection: LDAPObject, operation: dict[str, Any]) -> str | None:
    """What is not as the operation says."""
    found = _carried_out(connection, operation)
    expected = {"result": operation.get("result", 0)}
    if operation["op"] == "search" and "entries" in operation:
        expected["entries"] = operation["entries"]
    if operation["op"] == "search" and "entriesAtLeast" in operation:
        found["result"] = 0 if found["result"] == 4 else found["result"]  # as many as were asked for
        if found["entries"] < operation["entriesAtLeast"]:
            return f"{operation}: {found}"
    known = {name: found[name] for name in expected}
    return None if known == expected else f"{operation}: {found}"


def _carried_out(connection: LDAPObject, operation: dict[str, Any]) -> dict[str, int]:
    if operation["op"] == "bind":
        return _told(lambda: connection.simple_bind_s(operation["dn"], operation["password"]))
    names: list[str] = []

    def search() -> None:
        message = connection.search_ext(
            operation["base"],
            SCOPES[operation["scope"]],
            operation["filter"],
            ["1.1"],
            sizelimit=operation.get("sizeLimit", 0),
        )
        while True:
            kind, rows = connection.result(message, all=0)
            names.extend(dn for dn, _ in rows if dn is not None)
            if kind == ldap.RES_SEARCH_RESULT:
                return

    return {**_told(search), "entries": len(names)}


def _told(call: Any) -> dict[str, int]:
    try:
        call()
    except ldap.LDAPError as error:
        return {"result": error.args[0]["result"]}
    return {"result": 0}


def test_searches_and_binds_end_as_they_say(loaded: tuple[str, Slapd]) -> None:
    template, target = loaded
    asked = lines(template, 1000, "--mix", READS, "--miss", "20%")
    reading, binding = connection(target), connection(target)
    found = [wrong(binding if one["op"] == "bind" else reading, one) for one in asked]
    assert [one for one in found if one] == []
    kinds = Counter((one["op"], one.get("result", 0), one.get("entries")) for one in asked)
    assert kinds["bind", 0, None] > 250 < kinds["search", 0, 1]
    assert kinds["bind", 49, None] > 30 < kinds["search", 0, 0]
    assert kinds["search", 32, 0] > 5 < kinds["search", 0, None]


def test_a_plan_that_lies_is_found_out(loaded: tuple[str, Slapd]) -> None:
    template, target = loaded
    reading = connection(target)
    hits = [one for one in lines(template, 200) if one.get("entries") == 1]
    assert wrong(reading, {**hits[0], "entries": 2})
    assert wrong(reading, {**hits[0], "result": 32})


def test_changes_apply_and_what_is_said_stays_true(loaded: tuple[str, Slapd]) -> None:
    template, target = loaded
    mix = "search=300,bind=100,modify=60,add=15,delete=15,modrdn=10"
    both = ("--mix", mix, "--miss", "5%", "--seed", "1")
    asked = lines(template, 500, *both)
    changes = [one for one in asked if one["op"] not in ("search", "bind")]
    assert {one["op"] for one in changes} == {"modify", "add", "delete", "modrdn"}
    target.ldapmodify("".join(map(ldif, changes)))
    reading, binding = connection(target), connection(target)
    reads = [one for one in asked if one["op"] in ("search", "bind")]
    found = [wrong(binding if one["op"] == "bind" else reading, one) for one in reads]
    assert [one for one in found if one] == []


def ldif(change: dict[str, Any]) -> str:
    """A change record from a line of JSON."""
    rows = [("dn", change["dn"]), ("changetype", change["op"])]
    if change["op"] == "modify":
        ((name, values),) = change["replace"].items()
        rows += [("replace", name), *((name, value) for value in values)]
    for name, values in change.get("attributes", {}).items():
        rows += [(name, value) for value in values]
    if change["op"] == "modrdn":
        rows += [("newrdn", change["newRdn"]), ("deleteoldrdn", "1")]
    return "".join(_row(name, value) for name, value in rows) + "\n"


def _row(name: str, value: Any) -> str:
    plain = name in ("changetype", "replace", "deleteoldrdn")
    return f"{name}: {value}\n" if plain else f"{name}:: {_base64(value)}\n"


def _base64(value: Any) -> str:
    if isinstance(value, dict):
        return str(value["base64"])
    return base64.b64encode(value.encode()).decode()


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_ldif_applies(template: str) -> None:
    target = server()
    try:
        build_from(target, template, ENTRIES).ok()
        with target:
            text = plan(template, 400, "--format", "ldif")
            assert text.count("changetype: ") == 400
            target.ldapmodify(text)
    finally:
        target.close()


def test_a_plan_is_the_same_with_any_jobs(tmp_path: Path) -> None:
    one = plan("campus", 3000, "--jobs", 1)
    assert one == plan("campus", 3000, "--jobs", 5)
    out = tmp_path / "plan.jsonl"
    assert plan("campus", 3000, "-o", out) == ""
    assert out.read_text() == one
    assert one != plan("campus", 3000, "--seed", 2)


def test_who_is_asked_for_is_skewed() -> None:
    asked = lines("accounts", 4000, "--mix", "bind=1", "--miss", "0%", "--skew", "1")
    counts = Counter(one["dn"] for one in asked)
    assert counts.most_common(1)[0][1] > 100
    assert len(counts) > 300


def test_searched_by_what_is_asked_for() -> None:
    asked = lines("accounts", 300, "--mix", "search=1", "--miss", "0%", "--search", "mail=9,sn*=1")
    forms = Counter(one["filter"].split("=")[0].strip("(&") for one in asked)
    assert forms["mail"] > 100 < len(asked)
    assert any(one["filter"].startswith("(sn=") and one["filter"].endswith("*)") for one in asked)
