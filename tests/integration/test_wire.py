"""The native reader against real servers: everything that slapcat has, over every kind of connection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ldap
import pytest
from msgspec import structs

from fixtures import replication
from fixtures.golden.records import pairs_of
from fixtures.slapd import Slapd, missing_slapd
from fixtures.slapd_config import Settings
from fixtures.tls import Authority
from fixtures.trees import record, write_people
from loader import ldif, overlays
from loader._native import Part
from loader.errors import BadCredentials, NoSpace
from loader.ldif import EntryDigests
from loader.progress import Meter
from loader.server.options import Connection, Search
from loader.server.wire import reading
from tests.support.adding import SUFFIX
from tests.support.require import require
from tests.support.sasl import by_name

pytestmark = pytest.mark.slapd

PEOPLE = 3000
DROPPED = (*overlays.COMPUTED, overlays.CONTEXT_CSN)
SECRET = 'a word: of\u00a0many, "kinds"'
# Hashed passwords serve no challenge, so this one is kept as it is.
SASL = f"objectClass: account; objectClass: simpleSecurityObject; uid: sasl; userPassword: {SECRET}"
ACCOUNT = record(f"uid=sasl,{SUFFIX}", pairs_of(SASL))
ELSEWHERE = "objectClass: referral; objectClass: extensibleObject; ou: elsewhere; ref: ldap://a/dc=other"
REFERRAL = record(f"ou=elsewhere,{SUFFIX}", pairs_of(ELSEWHERE))
UNLIMITED = "limits * size=unlimited time=unlimited"


@dataclass(frozen=True)
class Place:
    """A provider, and what slapcat says of it."""

    server: Slapd
    text: Path

    @property
    def admin(self) -> Connection:
        return Connection(self.server.uri, self.server.root_dn, str(self.server.password_file))


@pytest.fixture(scope="module")
def authority(authority: Authority) -> Iterator[Authority]:
    """Trusted by libldap in this process meanwhile."""
    before = ldap.get_option(ldap.OPT_X_TLS_CACERTFILE)
    trust(str(authority.ca))
    yield authority
    trust(before or "")


def trust(ca: str) -> None:
    ldap.set_option(ldap.OPT_X_TLS_CACERTFILE, ca)
    ldap.set_option(ldap.OPT_X_TLS_NEWCTX, 0)


@pytest.fixture(scope="module")
def place(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    require(missing_slapd())
    home = tmp_path_factory.mktemp("wire")
    people = home / "people.ldif"
    write_people(people, SUFFIX, PEOPLE)
    mapped = f'authz-regexp "uid=([^,]*),(cn=[^,]*,)*cn=auth" "uid=$1,{SUFFIX}"'
    lines = ("sasl-secprops none", mapped, "sasl-host localhost")
    made = replication.provider(Settings(tls=authority.valid(), global_lines=lines, limits=(UNLIMITED,)))
    made.slapadd(people)
    with made:
        made.ldapadd(REFERRAL, "-M")
        made.ldapadd(ACCOUNT)
        text = home / "slapcat.ldif"
        text.write_text(made.slapcat())
        yield Place(made, text)


def tree_of(*paths: Path) -> EntryDigests:
    with ldif.digesting(DROPPED, Meter("read")) as tree:
        for path in paths:
            tree.add_path(str(path))
    return tree


def part(connection: Connection, out: Path, asked: Search, compress: bool = False) -> Part:
    with reading(connection, Meter("read"), asked.base) as (channel, _):
        return channel.part(asked, out, "p", DROPPED, compress)


def test_a_referral_object_is_an_entry_and_nothing_makes_no_file(place: Place, tmp_path: Path) -> None:
    found = part(place.admin, tmp_path, Search(SUFFIX, "(uid=nobody)"))
    assert (found.entries, found.files) == (0, [])
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [("p.inner", 0)]
    found = part(place.admin, tmp_path, Search(f"ou=elsewhere,{SUFFIX}", scope="base"))
    assert found.entries == 1
    assert "ref: ldap://" in Path(found.files[0]).read_text()


@pytest.mark.parametrize(
    ("over", "page"),
    [
        *(("ldap", page) for page in (0, 7, 1000)),
        *((over, 0) for over in ("ldapi", "ldapi, by the socket", "ldaps", "StartTLS", "StartTLS tried")),
    ],
)
def test_everything_that_slapcat_has(place: Place, tmp_path: Path, over: str, page: int) -> None:
    server = place.server
    uri = {"ldapi": server.ldapi_uri, "ldaps": server.ldaps_uri}.get(over, server.uri)
    start_tls = {"StartTLS": 2, "StartTLS tried": 1}.get(over, 0)
    connection = structs.replace(place.admin, uri=uri, start_tls=start_tls)
    if over == "ldapi, by the socket":
        connection = Connection(server.ldapi_uri, mechanism="EXTERNAL")
    found = part(connection, tmp_path, Search(SUFFIX, page=page))
    ours, theirs = tree_of(*map(Path, found.files)), tree_of(place.text)
    assert found.entries == ours.entries == theirs.entries > PEOPLE
    assert ours.checksum == theirs.checksum, ours.diff(theirs, 5).samples


def test_sasl_with_a_security_layer_of_its_own(place: Place, tmp_path: Path) -> None:
    """All that we read and write passes it."""
    connection = Connection(by_name(place.server.uri), "sasl", password=SECRET, mechanism="DIGEST-MD5")
    assert part(connection, tmp_path, Search(SUFFIX)).entries > PEOPLE
    with pytest.raises(BadCredentials):
        part(structs.replace(connection, password="wrong"), tmp_path, Search(SUFFIX))


@pytest.mark.parametrize("compress", [False, True])
def test_pieces_and_their_rows(place: Place, tmp_path: Path, compress: bool) -> None:
    """What an earlier try left under the same name is gone, other files stay."""
    suffix = "ldif.zst" if compress else "ldif"
    for old in ("p-000.ldif", "p-007.ldif.zst", "p-007.ldif.zst.rows", "p-other-000.ldif", "q-000.ldif"):
        (tmp_path / old).write_text("old")
    found = part(place.admin, tmp_path, Search(SUFFIX), compress)
    written = [f"p-{number:03}.{suffix}" for number in range(len(found.files))]
    assert [Path(file).name for file in found.files] == written
    names = {path.name for path in tmp_path.iterdir()}
    ours = {*written, *(f"{name}.rows" for name in written), "p.inner"}
    assert names == {*ours, "p-other-000.ldif", "q-000.ldif"}
    rows = b"".join((tmp_path / f"{name}.rows").read_bytes() for name in written)
    lengths = [int.from_bytes(rows[at + 80 : at + 84], "little") for at in range(0, len(rows), 88)]
    assert len(lengths) == found.entries
    assert sum(lengths) + found.entries == found.bytes  # a blank line ends each record
    assert all((tmp_path / name).stat().st_mode & 0o077 == 0 for name in ours)


def test_looking_without_keeping(place: Place, tmp_path: Path) -> None:
    everything, meter = Search(SUFFIX), Meter("look")
    expected = tree_of(place.text)
    with reading(place.admin, meter, SUFFIX) as (channel, _):
        with ldif.digesting(DROPPED, meter) as tree:
            channel.digest(everything, tree)
        assert tree.checksum == expected.checksum
        file = tmp_path / "all.ldif.zst"
        assert channel.file(everything, file, DROPPED).entries == expected.entries
        assert tree_of(file).checksum == expected.checksum


def test_a_disk_that_is_full(place: Place) -> None:
    with pytest.raises(NoSpace), reading(place.admin, Meter("read"), SUFFIX) as (channel, _):
        channel.file(Search(SUFFIX), Path("/dev/full"), DROPPED)
