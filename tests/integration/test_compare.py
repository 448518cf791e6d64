"""`compare` on real servers: differences that were planted are found, and spelling makes none."""

from __future__ import annotations

import base64
import gzip
import random
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import zstandard
from msgspec import structs

from fixtures.network import Proxy
from fixtures.slapd import Slapd
from fixtures.trees import hard_tree
from loader import errors
from loader.operations.compare import IGNORED, CompareOptions, CompareReport, DifferingEntry, compare
from loader.operations.generate import to_directory
from loader.overlays import SERVER_ATTRIBUTES
from loader.progress import Progress
from loader.server.options import Connection
from loader.sources import Comparable
from loader.sources.location import comparable
from tests.support import generating
from tests.support.generating import text_of
from tests.support.require import require_root

pytestmark = pytest.mark.slapd

ENTRIES = 3000
SUFFIX = "dc=example,dc=com"
RECIPE = generating.people(ENTRIES)


@pytest.fixture(scope="module")
def generated() -> bytes:
    return text_of(RECIPE)


@pytest.fixture(scope="module")
def server(generated: bytes) -> Iterator[Slapd]:
    made = Slapd(form="config")
    made.slapadd(generated.decode())
    with made:
        yield made


@pytest.fixture
def other() -> Iterator[Slapd]:
    with closing(Slapd(form="conf")) as made:
        yield made


def connection(server: Slapd) -> Connection:
    return Connection(bind_dn=server.root_dn, password_file=str(server.password_file), base=server.suffix)


def compared(a: Comparable, b: Comparable, **options: object) -> CompareReport:
    return compare(CompareOptions(a, b, **options), Progress("none"))  # type: ignore[arg-type]


def at(path: Path) -> Comparable:
    return comparable(str(path), Connection())


def written(path: Path, text: bytes) -> Comparable:
    path.write_bytes(text)
    return at(path)


@pytest.mark.long
def test_every_form_of_the_same_data_is_equal(server: Slapd, generated: bytes, tmp_path: Path) -> None:
    who = connection(server)
    options = generating.options(RECIPE)
    to_directory(options, tmp_path / "export", Progress("none"))
    (tmp_path / "tree.ldif.gz").write_bytes(gzip.compress(generated))
    places = [
        comparable(server.ldapi_uri, who),
        comparable(server.uri, who),
        comparable(str(server.config_path), Connection()),
        comparable(str(server.home / "slapd.conf"), Connection(base=SUFFIX.upper())),
        comparable(str(server.database_dir), Connection()),
        at(tmp_path / "export"),
        comparable(f"{tmp_path}/export/*.zst", Connection()),
        at(tmp_path / "tree.ldif.gz"),
    ]
    for place in places:
        report = compared(places[0], place)
        assert report.equal, place
        assert report.a.entries == report.b.entries == ENTRIES + 2
        assert report.a.checksum == report.b.checksum
        assert (report.only_a, report.only_b, report.changed, report.samples) == (0, 0, 0, ())


def test_spelling_makes_no_difference(generated: bytes, tmp_path: Path) -> None:
    """Order of entries, attributes and values; case and spaces of DNs; base64; folding; line ends."""
    chance = random.Random(4)
    records = generated.decode().strip().split("\n\n")
    chance.shuffle(records)
    other = "\n\n".join(respelled(record, chance) for record in records) + "\n\n"
    respelled_text = other.replace("\n", "\r\n").encode()
    assert respelled_text != generated
    assert compared(written(tmp_path / "a.ldif", generated), written(tmp_path / "b.ldif", respelled_text)).equal


def respelled(record: str, chance: random.Random) -> str:
    first, *lines = record.split("\n")
    name = first.removeprefix("dn: ").replace("uid=", "UID = ").replace(",dc=", " , DC=")
    chance.shuffle(lines)
    return "\n".join([f"dn: {name}", *(respelled_line(line, chance) for line in lines)])


def respelled_line(line: str, chance: random.Random) -> str:
    attribute, colon, value = line.partition(": ")
    if colon and not attribute.endswith(":") and chance.random() < 0.5:
        value = base64.b64encode(value.encode()).decode()
        line = f"{attribute.upper()}:: {value}"
    return "\n ".join(line[at : at + 40] for at in range(0, len(line), 40))


def test_what_slapd_writes_itself_can_be_left_out(tmp_path: Path, server: Slapd) -> None:
    bare = structs.replace(RECIPE, operational=False)
    text = text_of(bare)
    a, b = written(tmp_path / "bare.ldif", text), comparable(str(server.config_path), Connection())
    for limit in (0, 7):  # bounds the names and not the counts
        report = compared(a, b, limit=limit)
        assert (report.changed, len(report.samples)) == (ENTRIES + 2, limit)
    assert compared(a, b, ignore=(*IGNORED, *SERVER_ATTRIBUTES)).equal


def test_context_csn_counts_only_when_asked(generated: bytes, tmp_path: Path) -> None:
    a = written(tmp_path / "a.ldif", generated)
    mark = b"contextCSN: 20260101000000.000000Z#000000#001#000000\n\n"
    b = written(tmp_path / "b.ldif", generated.replace(b"\n\n", b"\n" + mark, 1))
    assert compared(a, b).equal
    report = compared(a, b, ignore=(), show_attributes=True)
    assert report.samples == (DifferingEntry("changed", SUFFIX, ("contextcsn",)),)


def test_one_branch_of_a_database_and_a_copy_that_needs_no_configuration(server: Slapd, tmp_path: Path) -> None:
    who = structs.replace(connection(server), base=f"ou=people,{SUFFIX}")
    report = compared(comparable(server.uri, who), comparable(str(server.config_path), who))
    assert report.equal
    assert report.a.entries == ENTRIES + 1
    server.tool("mdb_copy", server.database_dir, tmp_path)
    assert compared(at(tmp_path), comparable(server.uri, connection(server))).equal


def test_a_connection_that_breaks_is_taken_up_again(server: Slapd) -> None:
    stored = comparable(str(server.config_path), Connection())
    mark = server.log_size()
    with Proxy(server.uri) as proxy:
        proxy.cut_after(100_000, 300_000)
        report = compared(comparable(proxy.uri, connection(server)), stored)
    assert report.equal
    assert report.a.entries == ENTRIES + 2
    # One to look at a sample, one at the base, one that was cut, one that was cut, one that brought everything.
    assert len(server.log_lines("ACCEPT", mark)) == 5


def test_a_hard_tree_is_the_same_by_its_pages_slapcat_and_ldap(tmp_path: Path) -> None:
    """Reading makes a lock.mdb where there is none; slapd's own user must be able to open it."""
    require_root()
    with closing(Slapd(form="conf", user="openldap")) as made:
        made.slapadd("".join(hard_tree(SUFFIX)))
        dumped = written(tmp_path / "dump.ldif", made.slapcat().encode())
        lock = made.database_dir / "lock.mdb"
        lock.unlink()
        stored = comparable(str(made.config_path), Connection())
        assert compared(stored, dumped).equal
        assert lock.owner() == "openldap"
        live = comparable(made.start().ldapi_uri, Connection(mechanism="EXTERNAL", base=SUFFIX))
        assert compared(live, stored).equal
        assert compared(dumped, live).equal


def test_a_hundred_planted_differences_are_found(server: Slapd, other: Slapd, generated: bytes, tmp_path: Path) -> None:
    records = generated.decode().strip().split("\n\n")
    chosen = random.Random(8).sample(range(2, len(records)), 100)
    removed, changed = chosen[:20], chosen[20:80]
    moved, added = chosen[80:90], chosen[90:]
    for place in changed:
        records[place] = planted(records[place], place)
    for place in moved:
        records[place] = records[place].replace(",ou=people,", ",")
    extra = [records[place].replace("dn: uid=", "dn: uid=x") for place in added]
    kept = [record for place, record in enumerate(records) if place not in removed] + extra
    text = "\n\n".join(kept) + "\n\n"
    ldif = written(tmp_path / "planted.ldif", text.encode())
    other.slapadd(text)
    stored = comparable(str(other.database_dir), Connection())
    for a, b in (
        (comparable(server.uri, connection(server)), ldif),
        (comparable(str(server.config_path), Connection()), ldif),
        (comparable(str(server.database_dir), Connection()), stored),
        (written(tmp_path / "whole.ldif", generated), stored),
    ):
        report = compared(a, b, limit=1000)
        assert not report.equal
        assert (report.only_a, report.only_b, report.changed) == (30, 20, 60)
        told = {one.dn: one.different for one in report.subtrees}
        assert told == {f"ou=people,{SUFFIX}": 100, None: 10}
        assert names_of(report, "changed") == {name_of(records[place]) for place in changed}
        assert names_of(report, "only-a") == {
            f"uid=u{place - 2:09d},ou=people,{SUFFIX}" for place in [*removed, *moved]
        }
        assert names_of(report, "only-b") == {
            *(name_of(records[place]) for place in moved),
            *(name_of(record) for record in extra),
        }


def planted(record: str, place: int) -> str:
    kinds = (
        lambda text: re.sub(r"(?m)^title: .*\n", "", text),
        lambda text: text + "\ndescription: one more value",
        lambda text: re.sub(r"(?m)^(departmentNumber: \d*)$", r"\g<1>0", text),
        lambda text: text + "\ndescription;lang-en: with an option",
        lambda text: re.sub(r"(?m)^entryCSN: 2026", "entryCSN: 2025", text),
        lambda text: re.sub(r"(?m)^sn: (.*)$", lambda found: found[0].swapcase(), text),
        lambda text: re.sub(r"(?m)^employeeNumber: (.*)$", r"employeeNumber: \1\nroomNumber: \1", text),
    )
    found = kinds[place % len(kinds)](record)
    assert found != record
    return found


def name_of(record: str) -> str:
    return record.split("\n", 1)[0].removeprefix("dn: ")


def names_of(report: CompareReport, kind: str) -> set[str]:
    return {sample.dn for sample in report.samples if sample.kind == kind}


def test_the_attributes_that_differ_are_named(server: Slapd, generated: bytes, tmp_path: Path) -> None:
    """From every kind of place; and never a value."""
    text = generated.replace(b"uid=u000000007", b"UID=u000000007")
    text = re.sub(rb"(uid: u000000007\n)", rb"\1roomNumber: 9\n", text)
    text = re.sub(rb"(?s)(uid: u000000007\n.*?userPassword: )\S+", rb"\1secret", text)
    packed = tmp_path / "b.ldif.zst"
    packed.write_bytes(zstandard.compress(text))
    for a in (
        comparable(server.ldapi_uri, connection(server)),
        comparable(str(server.database_dir), Connection()),
        written(tmp_path / "a.ldif", generated),
    ):
        for one, other in ((a, at(packed)), (at(packed), a)):
            report = compared(one, other, show_attributes=True)
            [sample] = report.samples
            assert sample.attributes == ("roomnumber", "userpassword")
            assert "secret" not in repr(report)


def test_what_cannot_be_read_is_an_error_and_no_difference(
    server: Slapd, other: Slapd, generated: bytes, tmp_path: Path
) -> None:
    """One side that fails ends the other. An anonymous search is cut at 500 entries. Nothing is made where a
    configuration has no database yet."""
    who = connection(server)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "data.mdb").write_bytes(b"\0" * 65536)
    live = comparable(server.uri, who)
    nobody = comparable(server.uri, structs.replace(who, base=f"ou=nobody,{SUFFIX}"))
    anonymous, damaged = comparable(server.uri, Connection(base=SUFFIX)), at(tmp_path / "damaged")
    unconfigured = comparable(str(server.config_path), Connection(base="dc=other,dc=com"))
    empty, none_yet = written(tmp_path / "empty.ldif", b""), comparable(str(other.config_path), Connection())
    for error, a, b in (
        (errors.NoSuchBase, nobody, nobody),
        (errors.LimitTooLow, anonymous, anonymous),
        (errors.LdifTruncated, written(tmp_path / "cut.ldif", generated[:-100]), live),
        (errors.NotLmdb, damaged, damaged),
        (errors.NoSuchSuffix, unconfigured, unconfigured),
        (errors.EmptyInput, empty, empty),
        (errors.NotLmdb, none_yet, none_yet),
    ):
        with pytest.raises(error):
            compared(a, b)
    assert list(other.database_dir.iterdir()) == []
