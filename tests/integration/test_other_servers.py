"""Servers that are not OpenLDAP: what ditseed exports from them is what they hold, and can be added to an empty one.

No entryCSN there, no contextCSN, no transactions, other limits, attributes that the server computes. 100,000 entries
are `pytest -m heavy`.
"""

from __future__ import annotations

import io
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import ldap
import ldif
import pytest

from fixtures.ds389 import DS389, missing_ds389
from fixtures.opendj import OpenDJ, missing_opendj
from fixtures.passwords import write_private
from fixtures.trees import write_people
from loader.errors import LimitTooLow
from tests.support.adding import SUFFIX, unit
from tests.support.command import Done, ditseed
from tests.support.dumped import text_of_export
from tests.support.require import require

pytestmark = pytest.mark.long

Other = OpenDJ | DS389
Tree = dict[str, dict[str, frozenset[bytes]]]  # DN and attributes in lower case
PEOPLE = 2000
WHAT = ("-b", SUFFIX, "--json")
READER = f"uid=reader,{SUFFIX}"
# What these servers make themselves, beside what `compare --user-attributes` leaves out anyway.
COMPUTED = (
    *("etag", "isMemberOf", "pwdPolicySubentry", "pwdChangedTime"),
    *("nsUniqueId", "parentid", "entryid", "dsEntryDN"),
)
# Without the privilege OpenDJ refuses every search of the whole tree, whatever the limits are.
USUAL: dict[str, dict[str, str]] = {"opendj": {"ds-privilege-name": "unindexed-search"}, "389": {}}
LIFTED = {
    "opendj": {**{f"ds-rlim-{limit}-limit": "0" for limit in ("size", "lookthrough", "time")}, **USUAL["opendj"]},
    "389": {"nsSizeLimit": "-1", "nsLookThroughLimit": "-1", "nsTimeLimit": "-1"},
}
SERVERS: dict[str, tuple[Callable[[], Other], Callable[[], str | None]]] = {
    "opendj": (OpenDJ, missing_opendj),
    "389": (DS389, missing_ds389),
}
# 389 shows nobody anything of itself.
ACI = b'(targetattr="*")(version 3.0; acl "all"; allow(read,search,compare) userdn="ldap:///all";)'


@dataclass(frozen=True)
class Both:
    """A server with people and an account with the limits that the server gives everybody; an empty server."""

    kind: str
    source: Other
    target: Other
    home: Path
    entries: int

    def export(self, out: Path, *more: object, **env: str) -> Done:
        return ditseed("export", *root(self.source), *WHAT, "-o", out, *more, env=env)

    def as_reader(self, out: Path) -> Done:
        bind = ("-H", self.source.uri, "-D", READER, "-y", self.home / "readerpw")
        return ditseed("export", *bind, *WHAT, "-o", out)


def root(server: Other) -> tuple[object, ...]:
    return ("-H", server.uri, "-D", server.root_dn, "-y", server.password_file)


@contextmanager
def _both(kind: str, home: Path, people: int) -> Iterator[Both]:
    make, missing = SERVERS[kind]
    require(missing())
    entries = write_people(home / "people.ldif", SUFFIX, people) + 1
    write_private(home / "readerpw", "the reader's own")
    person = {"objectClass": "inetOrgPerson", "cn": "reader", "sn": "reader", "userPassword": "the reader's own"}
    with closing(make()) as source, make() as target:
        source.load(home / "people.ldif")
        source.start()
        with source.connection() as handle:
            handle.add_s(READER, [(name, [value.encode()]) for name, value in {**person, **USUAL[kind]}.items()])
            if isinstance(source, DS389):
                handle.modify_s(SUFFIX, [(ldap.MOD_ADD, "aci", [ACI])])
        yield Both(kind, source, target, home, entries)


@pytest.fixture(scope="module", params=SERVERS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with _both(request.param, tmp_path_factory.mktemp("other"), PEOPLE) as made:
        yield made


def _held(server: Other) -> Tree:
    """The user attributes of all entries, asked by python-ldap."""
    return _tree(server.search(attributes=("*",)))


def _exported(out: Path) -> Tree:
    """All attributes of the LDIF, read by python-ldap."""
    records = ldif.LDIFRecordList(io.BytesIO(text_of_export(out).encode()))
    records.parse()
    return _tree(records.all_records)


def _tree(entries: list[tuple[str, dict[str, list[bytes]]]]) -> Tree:
    return {
        dn.lower(): {name.lower(): frozenset(values) for name, values in attributes.items()}
        for dn, attributes in entries
    }


def _holds_the_tree(both: Both, out: Path) -> None:
    held, exported = _held(both.source), _exported(out)
    assert len(held) == both.entries
    assert exported.keys() == held.keys()
    for dn, attributes in held.items():
        assert attributes.items() <= exported[dn].items(), dn


def _added_back(both: Both, out: Path) -> None:
    done = ditseed("add", out, *root(both.target), "--json").ok()
    assert done.facts["added"] == both.entries
    assert _held(both.target) == _held(both.source)
    ignored = [word for name in COMPUTED for word in ("--ignore", name)]
    bind = (*root(both.source)[2:], "--consumer-password-file", both.target.password_file)
    where = ("-b", SUFFIX, "--user-attributes", *ignored)
    compared = ditseed("compare", both.source.uri, both.target.uri, *bind, *where)
    assert compared.status == 0, compared


def test_an_export_and_the_way_back(both: Both, tmp_path: Path) -> None:
    """Passwords as they are stored, too."""
    facts = both.export(tmp_path / "out").ok().facts
    assert facts["entries"] == both.entries
    assert facts["context_csns"] == []
    _holds_the_tree(both, tmp_path / "out")
    _added_back(both, tmp_path / "out")


def test_operational_attributes_that_are_stored(both: Both, tmp_path: Path) -> None:
    """And not what the server finds out anew for each answer."""
    limits_size = next(iter(LIFTED[both.kind]))
    _set(both.source, {limits_size: "4711"})
    both.export(tmp_path / "out").ok()
    _set_usual(both)
    exported = _exported(tmp_path / "out")
    assert exported[READER.lower()][limits_size.lower()] == {b"4711"}
    assert "createtimestamp" in exported[READER.lower()]
    assert not [dn for dn, entry in exported.items() if "ismemberof" in entry]


@pytest.mark.heavy
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", SERVERS)
def test_a_hundred_thousand_there_and_back(tmp_path: Path, kind: str) -> None:
    with _both(kind, tmp_path, 100_000) as many:
        many.export(tmp_path / "out").ok()
        _holds_the_tree(many, tmp_path / "out")
        _added_back(many, tmp_path / "out")


def test_a_killed_export_goes_on(both: Both, tmp_path: Path) -> None:
    killed = both.export(tmp_path / "out", DITSEED_KILL_AT="read.partition")
    assert killed.status == -signal.SIGKILL
    both.export(tmp_path / "out").ok()
    _holds_the_tree(both, tmp_path / "out")


def test_a_limit_that_is_too_low(both: Both, tmp_path: Path) -> None:
    """Refused with what lifts it on this kind of server; lifted so, the same command brings all. The usual limits of an
    account count the entries of a page, and pages can be made smaller."""
    assert both.as_reader(tmp_path / "usual").ok().facts["entries"] == both.entries
    lifted = LIFTED[both.kind]
    limits_size = next(iter(lifted))
    _set(both.source, {limits_size: "100"})
    done = both.as_reader(tmp_path / "out")
    done.refused(LimitTooLow)
    assert not [name for name in lifted if name not in done.err]
    _set(both.source, lifted)
    assert both.as_reader(tmp_path / "out").ok().facts["entries"] == both.entries
    _set_usual(both)


def _set(server: Other, values: Mapping[str, str | None]) -> None:
    with server.connection() as handle:
        for name, value in values.items():
            new = None if value is None else [value.encode()]
            handle.modify_s(READER, [(ldap.MOD_REPLACE, name, new)])


def _set_usual(both: Both) -> None:
    """The limits that the server gives everybody, for the tests that come after."""
    _set(both.source, {**dict.fromkeys(LIFTED[both.kind]), **USUAL[both.kind]})


def test_an_entry_that_the_server_refuses(both: Both, tmp_path: Path) -> None:
    texts = [unit("refused 1"), unit("refused 2").rstrip() + "\nmember: cn=nobody\n\n", unit("refused 3")]
    (tmp_path / "some.ldif").write_text("".join(texts))
    if not _there(both.target, SUFFIX):
        with both.target.connection() as handle:
            handle.add_s(SUFFIX, [("objectClass", [b"domain"]), ("dc", [b"example"])])
    options = ("--max-rejects", 1, "--rejects", tmp_path / "rejects.ldif", "--json")
    done = ditseed("add", tmp_path / "some.ldif", *root(both.target), *options)
    assert done.status == 1, done
    assert [_there(both.target, f"ou=refused {number},{SUFFIX}") for number in (1, 2, 3)] == [True, False, True]
    rejects = (tmp_path / "rejects.ldif").read_text()
    assert "ou=refused 2" in rejects
    assert "ou=refused 1" not in rejects


def _there(server: Other, dn: str) -> bool:
    try:
        return bool(server.search(base=dn, scope=ldap.SCOPE_BASE, attributes=("1.1",)))
    except ldap.NO_SUCH_OBJECT:
        return False
