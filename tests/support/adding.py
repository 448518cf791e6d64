"""Runs `ditseed add` against a private slapd, and checks the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fixtures.slapd import Slapd
from fixtures.trees import record
from tests.support.command import Done, ditseed

SUFFIX = "dc=example,dc=com"
TOP = record(SUFFIX, [("objectClass", "domain"), ("dc", "example")])


# Lets the root DN manage cn=config.
ADMIN = f"""dn: olcDatabase={{0}}config,cn=config
changetype: modify
add: olcAccess
olcAccess: {{0}}to * by dn.exact="cn=admin,{SUFFIX}" manage by * break
"""

# A referral and a subentry, each with an operational attribute that clients set.
OPERATIONAL = tuple(
    record(
        f"cn={name},{SUFFIX}", [("objectClass", kind), ("objectClass", "extensibleObject"), ("cn", name), (own, value)]
    )
    for name, kind, own, value in (
        ("elsewhere", "referral", "ref", "ldap://a/dc=other"),
        ("rules", "subentry", "subtreeSpecification", "{}"),
    )
)


def unit(name: str, above: str = SUFFIX) -> str:
    return record(f"ou={name},{above}", [("objectClass", "organizationalUnit"), ("ou", name)])


def person(name: str, above: str = SUFFIX, *more: tuple[str, str], sn: str | None = "Test") -> str:
    """Returns a person's record; if `sn` is None, the schema does not allow the entry."""
    surname = [] if sn is None else [("sn", sn)]
    return record(f"cn={name},{above}", [("objectClass", "person"), ("cn", name), *surname, *more])


def people(count: int, above: str = SUFFIX, prefix: str = "p") -> str:
    return "".join(person(f"{prefix}{number}", above) for number in range(count))


def command(server: Slapd, *arguments: object) -> list[object]:
    who = ("-H", server.uri, "-D", server.root_dn, "-y", server.password_file)
    return ["add", *arguments, *who]


def add(server: Slapd, *arguments: object) -> Done:
    return ditseed(*command(server, *arguments))


def facts(server: Slapd, *arguments: object) -> Any:
    """Returns the report of a load, which must reject no entry, and count each entry read exactly once."""
    report = add(server, *arguments, "--json").ok().facts
    assert report["read"] == sum(report[fate] for fate in ("added", "present", "replaced", "rejected")), report
    return report


def names(server: Slapd) -> list[str]:
    """Returns the server's DNs in lower case, sorted."""
    return sorted(dn.lower() for dn, _ in server.search(attributes=("1.1",)))


def names_in(text: str) -> list[str]:
    """Returns the DNs in LDIF in lower case, sorted."""
    lines = text.replace("\n ", "").splitlines()
    return sorted(line[4:].lower() for line in lines if line.startswith("dn: "))


def write(path: Path, *texts: str) -> Path:
    path.write_text("".join(texts))
    return path
