"""Only what the package wrote, and as it wrote it, is told from data that somebody may need."""

from __future__ import annotations

from collections.abc import Set

import pytest

from loader.operations import packaged

Entry = dict[str, Set[bytes]]
TIMES: Entry = {
    "createtimestamp": {b"20261122145350Z"},
    "modifytimestamp": {b"20261122145350Z"},
    "entryuuid": {b"45ad94b4-7ad0-1041-8990-e718f1f40d39"},
    "structuralobjectclass": {b"organization"},
}
TOP: Entry = {"objectclass": {b"top", b"dcObject", b"organization"}, "o": {b"nodomain"}, "dc": {b"nodomain"}, **TIMES}
ADMIN: Entry = {
    "objectclass": {b"simpleSecurityObject", b"organizationalRole"},
    "cn": {b"admin"},
    "description": {b"LDAP administrator"},
    "userpassword": {b"{SSHA}x"},
    **TIMES,
}
SUFFIX, NAME = "dc=nodomain", "cn=admin,dc=nodomain"


@pytest.mark.parametrize(
    ("found", "is_all"),
    [
        ([], False),
        ([(SUFFIX, TOP)], True),
        ([(SUFFIX, TOP), (NAME, ADMIN)], True),
        ([(SUFFIX, TOP), ("CN=admin, DC=nodomain", ADMIN)], True),
        ([(SUFFIX, TOP), ("cn=boss,dc=nodomain", ADMIN)], False),
        ([(SUFFIX, TOP), (NAME, ADMIN), ("cn=x,dc=nodomain", ADMIN)], False),
        ([(SUFFIX, ADMIN)], False),
        ([(SUFFIX, {**TOP, "description": {b"ours"}})], False),
        ([(SUFFIX, {**TOP, "contextcsn": {b"x"}})], False),
        ([(SUFFIX, {**TOP, "objectclass": {b"top", b"domain"}})], False),
        ([(SUFFIX, {**TOP, "modifytimestamp": {b"20271122145350Z"}})], False),
    ],
)
def test_what_the_package_wrote(found: list[tuple[str, Entry]], is_all: bool) -> None:
    assert packaged.is_unchanged(found) is is_all
