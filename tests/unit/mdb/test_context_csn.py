"""contextCSN of databases that slapadd and slapd made: read, found, stamped, and read again by slapcat; and entries
newer than a claimed one, held back in the entry and in the index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fixtures.golden.reading import Database
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import hard_tree, people
from loader import _native
from loader.backmdb import IDLEXP
from loader.errors import NotStampable
from loader.mdb import contents, edits, environment
from loader.mdb.edits import cap_entry_csns, time_key
from loader.mdb.verify import verify
from loader.progress import Meter

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
CSN1 = "20261121070501.123456Z#000000#001#000000"
CSN2 = "20251121070501.654321Z#000000#002#000000"
PLAIN = Settings(indexes=("entryCSN eq",), maxsize=128 << 20)


@contextmanager
def loaded(settings: Settings, ldif: str, *options: str) -> Iterator[Slapd]:
    """A stopped server with that content."""
    with closing(Slapd(settings)) as server:
        server.slapadd(ldif, *options)
        yield server


def tree(*csns: str, suffix_lines: str = "") -> str:
    top = f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\nentryCSN: {CSN2}\n{suffix_lines}\n"
    units = [
        f"dn: ou={number},{SUFFIX}\nobjectClass: organizationalUnit\nou: {number}\nentryCSN: {csn}\n\n"
        for number, csn in enumerate(csns)
    ]
    return top + "".join(units)


def stamped_lines(before: str, csns: list[str]) -> list[str]:
    """The slapcat of `before` with another contextCSN at the suffix entry: in its old place, or at the end."""
    lines = before.splitlines()
    old = [number for number, line in enumerate(lines) if line.startswith("contextCSN:")]
    at = old[0] if old else lines.index("")
    return lines[:at] + [f"contextCSN: {csn}" for csn in csns] + lines[at + len(old) :]


def rows(directory: Path) -> dict[str, list[tuple[bytes, bytes]]]:
    """All rows of all tables."""
    with closing(Database(directory)) as database:
        return {name: list(database.rows(name)) for name in database.flags}


@pytest.mark.slow
@pytest.mark.parametrize("before", [[], [CSN2]])
def test_stamp_changes_the_one_attribute_and_nothing_else(before: list[str]) -> None:
    lines = "".join(f"contextCSN: {csn}\n" for csn in before)
    with loaded(Settings(), "".join(people(SUFFIX, 50)).replace("\n\n", f"\n{lines}\n", 1)) as server:
        assert contents.context_csns(server.database_dir, SUFFIX) == before
        text, tables = server.slapcat(), rows(server.database_dir)
        edits.stamp(server.database_dir, "DC=Example, DC=com", [CSN2, CSN1])
        assert contents.context_csns(server.database_dir, SUFFIX) == [CSN1, CSN2]
        assert server.slapcat().splitlines() == stamped_lines(text, [CSN1, CSN2])
        changed = {name for name, found in rows(server.database_dir).items() if found != tables[name]}
        assert changed == ({"id2e"} if before else {"id2e", "ad2i"})
        verify(server.database_dir, "pages", Meter("verify"))


def test_a_stamped_database_serves_and_goes_on_from_there() -> None:
    settings = Settings(server_id=1, overlays=("overlay syncprov\nsyncprov-checkpoint 100 10",))
    with loaded(settings, "".join(people(SUFFIX, 20))) as server:
        future = "20991121070501.123456Z#000000#002#000000"
        edits.stamp(server.database_dir, SUFFIX, [future])
        server.start()
        assert future in server.context_csns()
        server.ldapadd(f"dn: ou=more,{SUFFIX}\nobjectClass: organizationalUnit\nou: more\n\n")
        assert {csn[-10:-7] for csn in server.context_csns()} == {"001", "002"}
        server.stop()
        assert len(contents.context_csns(server.database_dir)) == 2


@pytest.mark.slow
def test_stamp_refuses_what_it_cannot_do() -> None:
    with loaded(PLAIN, tree()) as server:
        place = server.database_dir
        before = (place / "data.mdb").read_bytes()
        for suffix, csns in [
            ("dc=other,dc=com", [CSN1]),
            (SUFFIX, []),
            (SUFFIX, ["20261121070501Z"]),
            (SUFFIX, [CSN1, CSN1.replace("123456", "123457")]),
        ]:
            with pytest.raises(NotStampable):
                edits.stamp(place, suffix, csns)
        assert (place / "data.mdb").read_bytes() == before


def test_values_kept_in_id2v_are_read_but_not_stamped() -> None:
    settings = replace(PLAIN, database_lines=("multival default 1,0",))
    lines = f"contextCSN: {CSN1}\ncontextCSN: {CSN2}\n"
    with loaded(settings, tree(suffix_lines=lines)) as server:
        assert contents.context_csns(server.database_dir, SUFFIX) == [CSN1, CSN2]
        with pytest.raises(NotStampable, match="multival"):
            edits.stamp(server.database_dir, SUFFIX, [CSN1])


# --- the newest entryCSN ------------------------------------------------------------------------


def csn(second: int, server_id: int, count: int = 0) -> str:
    time = f"{second // 3600:02}{second // 60 % 60:02}{second % 60:02}"
    return f"20261121{time}.000000Z#{count:06x}#{server_id:03x}#000000"


def by_looking(server: Slapd) -> dict[str, str]:
    """The greatest of every server ID, from a slapcat."""
    found: dict[str, str] = {}
    for line in server.slapcat().splitlines():
        name, _, value = line.partition(": ")
        if name in ("entryCSN", "contextCSN"):
            found[value[-10:-7]] = max(value, found.get(value[-10:-7], ""))
    return found


@pytest.mark.parametrize("indexes", [("entryCSN eq",), ()])
def test_newest_of_every_server_without_a_context_csn(indexes: tuple[str, ...]) -> None:
    made = [csn(60 + number % 7, 1 + number % 3, number) for number in range(40)]
    with loaded(replace(PLAIN, indexes=indexes), tree(csn(5, 4), *made)) as server:
        found = contents.newest_csns(server.database_dir, SUFFIX)
        assert found == by_looking(server)
        assert sorted(found) == ["001", "002", "003", "004"]


FIVE = [csn(9, 1, number) for number in range(5)]
SINCE = (csn(5, 1), csn(101, 1), csn(100, 1), csn(100, 3), csn(120, 1, 7), csn(120, 1, 3))
# Lines of the suffix, entryCSNs, arguments, and what is found.
NEWEST: dict[str, tuple[list[str], tuple[str, ...], dict[str, Any], list[str]]] = {
    "the last second": ([], (csn(9, 1), csn(9, 2), csn(8, 3)), {"whole": False}, [csn(9, 1), csn(9, 2)]),
    "the highest IDs": ([], (csn(8, 2), csn(8, 3), *FIVE), {"most": 2}, [FIVE[4]]),
    "then the second before": ([], (csn(8, 2), csn(8, 3), *FIVE), {"most": 6}, [FIVE[4], csn(8, 3)]),
    "since the contextCSN": ([csn(100, 1), csn(50, 2)], SINCE, {}, [csn(120, 1, 7), csn(50, 2), csn(100, 3)]),
}


@pytest.mark.parametrize("name", NEWEST)
def test_newest(name: str) -> None:
    stored, csns, options, newest = NEWEST[name]
    lines = "".join(f"contextCSN: {one}\n" for one in stored)
    with loaded(PLAIN, tree(*csns, suffix_lines=lines)) as server:
        found = contents.newest_csns(server.database_dir, SUFFIX, **options)
        assert found == {one[-10:-7]: one for one in newest}
        assert options or found == by_looking(server)


@pytest.mark.long
def test_newest_where_an_index_key_is_a_range() -> None:
    """More than 65535 entries of one second, as a bulk load makes them."""
    made = [csn(60, 1, number) for number in range(66_000)]
    with loaded(PLAIN, tree(*made, csn(59, 2))) as server:
        assert contents.indexes(server.database_dir)["entryCSN"] < 100
        assert contents.newest_csns(server.database_dir, SUFFIX) == by_looking(server)
        found = contents.newest_csns(server.database_dir, SUFFIX, whole=False, most=10)
        assert found == {"001": made[-1]}


def test_an_empty_database() -> None:
    with closing(Slapd(PLAIN)) as server:
        server.start()
        server.stop()
        assert contents.context_csns(server.database_dir) == []
        assert contents.newest_csns(server.database_dir) == {}
        assert verify(server.database_dir, "pages", Meter("verify")).entries == 0
        with pytest.raises(NotStampable):
            edits.stamp(server.database_dir, SUFFIX, [CSN1])


CLAIM, OLDER, NEWER, OTHER_SERVER = csn(25500, 1), csn(25499, 1), csn(28800, 1), csn(28800, 2)
SAME_SECOND = CLAIM.replace(".000000Z", ".000001Z")


def csns_of(server: Slapd) -> list[str]:
    lines = server.slapcat().splitlines()
    return [line.partition(": ")[2] for line in lines if line.startswith("entryCSN:")]


@pytest.mark.parametrize("settings", [PLAIN, replace(PLAIN, indexes=())], ids=["index", "no-index"])
def test_only_newer_entries_of_a_claimed_server_change(settings: Settings) -> None:
    with loaded(settings, tree(OLDER, CLAIM, SAME_SECOND, NEWER, OTHER_SERVER)) as server:
        before = (server.database_dir / "data.mdb").read_bytes()
        assert cap_entry_csns(server.database_dir, [], IDLEXP, Meter("nothing claimed")) == 0
        assert (server.database_dir / "data.mdb").read_bytes() == before
        assert cap_entry_csns(server.database_dir, [CLAIM], IDLEXP, Meter("hold back")) == 2
        assert csns_of(server) == [CSN2, OLDER, CLAIM, CLAIM, CLAIM, OTHER_SERVER]
        verify(server.database_dir, "pages", Meter("verify"))
        assert cap_entry_csns(server.database_dir, [CLAIM], IDLEXP, Meter("again")) == 0


def assert_index_as_slapindex_makes_it(server: Slapd) -> list[tuple[bytes, bytes]]:
    """Returns the rows."""
    held = rows(server.database_dir)["entryCSN"]
    server.tool("slapindex", "-q", *server.config_arguments, "-b", SUFFIX, "entryCSN")
    assert rows(server.database_dir)["entryCSN"] == held
    return held


def test_the_index_is_as_slapindex_would_make_it() -> None:
    with loaded(PLAIN, tree(*[NEWER, OLDER, SAME_SECOND] * 50)) as server:
        assert cap_entry_csns(server.database_dir, [CLAIM], IDLEXP, Meter("hold back")) == 100
        assert_index_as_slapindex_makes_it(server)


@pytest.mark.long
@pytest.mark.parametrize("idlexp", [IDLEXP, IDLEXP + 1])
def test_a_key_of_too_many_entries_becomes_a_range(idlexp: int) -> None:
    """65,535 IDs are a list, one more makes (0, lowest, highest), as slapindex does; unless idlexp allows for more."""
    settings = replace(PLAIN, global_lines=("backend mdb", f"idlexp {idlexp}"))
    with loaded(settings, tree(*[CLAIM] * 65_535, NEWER)) as server:
        assert cap_entry_csns(server.database_dir, [CLAIM], idlexp, Meter("hold back")) == 1
        held = assert_index_as_slapindex_makes_it(server)
        ids = [int.from_bytes(value, "little") for key, value in held if key == time_key(CLAIM)]
        assert ids == ([0, 2, 65_537] if idlexp == IDLEXP else list(range(2, 65_538)))
        server.start()
        assert len(server.search(f"(entryCSN={CLAIM})")) == 65_536


@pytest.mark.parametrize("content", [people(SUFFIX, 300), hard_tree(SUFFIX)], ids=["people", "hard"])
def test_an_entry_is_written_to_the_same_bytes_and_a_damaged_one_is_refused(content: Iterable[str]) -> None:
    """With the entryCSN that it has: the padding behind it is whatever slapadd had in memory."""
    with loaded(Settings(), "".join(content), "-w") as server:
        with contents.reading(server.database_dir) as database:
            number = contents.number_of(database, "entryCSN")
            csns = dict(database.csns_after("0"))
        entries = rows(server.database_dir)["id2e"]
        assert len(entries) == contents.entry_count(server.database_dir) > 10
    assert number is not None
    for key, blob in entries:
        written = _native.entry_with(blob, number, [csns[environment.ID.unpack(key)[0]].encode()], normals=True)
        assert len(written) == len(blob)
        assert written.rstrip(b"\0") == blob[: len(written.rstrip(b"\0"))]
    for damaged in (b"", blob[:8], blob[: len(blob) // 2], b"\xff" * 16 + bytes(64)):
        with pytest.raises(_native.NativeError):
            _native.entry_with(damaged, number, [b"x"], normals=False)
