"""What the native core settles when entries come from a server that goes on to change.

Whoever is met twice stays once, and nobody stays whose parent is gone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fixtures.golden.case import server, settings
from fixtures.golden.records import SUFFIX, stamps, top
from fixtures.slapd import Slapd
from fixtures.trees import record
from loader import _native
from loader.errors import SystemFailed
from loader.operations.build import BuildOptions, target_database
from loader.operations.build.native import NativeLoaded, NativeSteps
from loader.operations.options import FULL
from loader.operations.verify import core_target_of
from loader.progress import Meter, Progress
from loader.run.steps import open_run
from loader.server import configuration
from loader.sinks import mdb
from loader.sinks.mdb import LiveSource, Orphan
from loader.sources.mdb import LdifFormat
from tests.support import generating
from tests.support.trees import Tree, tree

pytestmark = pytest.mark.slapd

CLAIMED = "20260101000000.000000Z#000000#001#000000"
NEWER = "20260202000000.000000Z#000000#001#000000"
PEOPLE = f"ou=people,{SUFFIX}"


def entry(dn: str, of: str = "", csn: str = "", sn: str = "x") -> str:
    """A person or an organizational unit; with the entryUUID that belongs to the DN `of`."""
    kind, _, name = dn.partition(",")[0].partition("=")
    own = {"ou": [("objectClass", "organizationalUnit")], "cn": [("objectClass", "person"), ("sn", sn)]}[kind]
    given = dict(stamps(of or dn)) | ({"entryCSN": csn} if csn else {})
    return record(dn, [*own, (kind, name), *given.items()])


@dataclass
class Reading:
    """Inputs in their order, then what is read again, an answer for each time that the core asks."""

    target: Slapd
    scratch: Path
    asked: list[list[Orphan]] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)

    def build(self, parts: Sequence[str], *answers: str, head: str | None = None) -> tuple[NativeLoaded, Tree]:
        """The facts of the build, and the entries of the database, which is found sound."""
        first = [self._file("head.ldif", head)] if head else []
        inputs = [*first, *(self._file(f"in-{n}.ldif", text) for n, text in enumerate(parts))]
        waiting = [self._file(f"late-{n}.ldif", text) for n, text in enumerate(answers)]

        def read_again(orphans: Sequence[Orphan]) -> list[Path]:
            self.asked.append(list(orphans))
            return [path for path in waiting[:1] if waiting.pop(0) and path.stat().st_size]

        how = {"now": "20260101000000Z", "seeding": True, "verify": FULL}
        options = BuildOptions(self.target.config_path, **how)
        place = target_database(options.config_path, SUFFIX, False)
        with open_run(self.scratch / "run", "test", {}, Progress("none")) as run:
            work = NativeSteps(options, run, place)
            beside = LiveSource(first[0] if first else None, read_again, self.renamed.extend)
            loaded = work.make(Meter("stream"), inputs, [CLAIMED], beside)
            checked = work.check(Meter("check"), loaded)
            work.put_into_place(checked)
        return loaded, {dn.partition(": ")[2]: lines for dn, lines in tree(self.target.slapcat()).items()}

    def _file(self, name: str, text: str) -> Path:
        path = self.scratch / name
        path.write_text(text)
        return path


@pytest.fixture
def reading(tmp_path: Path) -> Iterator[Reading]:
    with closing(server(settings("objectClass,entryUUID,cn,sn eq"))) as target:
        yield Reading(target, tmp_path)


TOP = top() + entry(PEOPLE)
OLD, NEW = f"cn=old,{PEOPLE}", f"cn=new,{PEOPLE}"
SALES, TRADE = f"ou=sales,{SUFFIX}", f"ou=trade,{SUFFIX}"


CHILD = f"cn=child,{SALES}"
STAYED = entry(SALES) + entry(CHILD)
MOVED = entry(TRADE, of=SALES, csn=NEWER) + entry(f"cn=child,{TRADE}", of=CHILD)
BOTH = [entry(OLD, sn="first"), entry(OLD, of="another", csn=NEWER, sn="second")]


@pytest.mark.parametrize("first", [STAYED, STAYED + MOVED, MOVED + STAYED], ids=["old", "old, new", "new, old"])
def test_below_a_renamed_container(reading: Reading, first: str) -> None:
    """Children keep their entryCSN; what was read last is the truth."""
    _, found = reading.build([TOP + first], MOVED)
    assert set(found) == {SUFFIX, PEOPLE, TRADE, f"cn=child,{TRADE}"}


def test_whose_parent_is_found_afterwards(reading: Reading) -> None:
    loaded, found = reading.build([TOP + entry(CHILD)], "", entry(SALES))
    assert set(found) == {SUFFIX, PEOPLE, SALES, CHILD}
    assert loaded.left_out == 0
    assert [len(orphans) for orphans in reading.asked] == [0, 1]


def test_renamed_between_two_pieces(reading: Reading) -> None:
    """What comes before all pieces comes once."""
    loaded, found = reading.build([entry(OLD) + TOP, entry(NEW, of=OLD, csn=NEWER)], head=TOP)
    assert (loaded.read, loaded.entries, loaded.left_out) == (6, 3, 3)
    assert set(found) == {SUFFIX, PEOPLE, NEW}
    assert f"entryCSN: {CLAIMED}" in found[NEW]
    assert reading.asked == [[]]
    assert reading.renamed == [dict(stamps(OLD))["entryUUID"]]


@pytest.mark.parametrize(
    ("parts", "answers", "stays"),
    [
        ([TOP, *BOTH], (), "second"),
        ([TOP, *BOTH[::-1]], (), "second"),
        ([TOP + BOTH[0]], (entry(OLD, csn=NEWER, sn="later"),), "first"),
    ],
    ids=["greater entryCSN last", "greater entryCSN first", "written already"],
)
def test_which_of_two_stays(reading: Reading, parts: list[str], answers: tuple[str, ...], stays: str) -> None:
    """The one with the greater entryCSN; but a copy that is written already stays: syncrepl sends what changed."""
    loaded, found = reading.build(parts, *answers)
    assert set(found) == {SUFFIX, PEOPLE, OLD}
    assert f"sn: {stays}" in found[OLD]
    assert loaded.left_out == loaded.read_twice == 1


def test_whose_parent_is_gone_is_left_out_with_all_below(reading: Reading) -> None:
    lost = f"ou=lost,{SALES}"
    loaded, found = reading.build([TOP + entry(lost) + entry(f"cn=below,{lost}")], "", "")
    assert set(found) == {SUFFIX, PEOPLE}
    assert loaded.left_out == loaded.without_parent == 2
    ((parent, dn, uuid),) = reading.asked[1]
    assert (parent, dn, uuid) == (SALES, lost, dict(stamps(lost))["entryUUID"])


def test_more_than_are_taken_out_one_by_one(reading: Reading) -> None:
    names = [f"cn=p {number},{PEOPLE}" for number in range(1200)]
    newer = [entry(f"cn=n {number},{PEOPLE}", of=dn, csn=NEWER) for number, dn in enumerate(names)]
    loaded, found = reading.build([TOP + "".join(map(entry, names)), "".join(newer)])
    assert (loaded.entries, loaded.left_out) == (1202, 1200)
    assert all("cn=n " in dn for dn in found if dn.endswith(f",{PEOPLE}"))


# --- workers that share one work: what is told is why the first failed, and not that the others then gave up ---

JOBS, ROUNDS, PAGE = 8, 40, 4096
ENTRIES = 12_000  # a dozen blocks of 512 KiB: more than one for each worker


@pytest.fixture(scope="module")
def target() -> Iterator[mdb.Target]:
    with Slapd() as server:
        config = configuration.read(server.config_path)
        yield core_target_of(config, config.database(server.suffix), server.database_dir)


@pytest.fixture(scope="module")
def database(target: mdb.Target) -> _native.Database:
    return mdb.Database(target)


@pytest.fixture(scope="module")
def text() -> bytes:
    return generating.text_of(generating.people(ENTRIES))


def built(path: Path, database: _native.Database) -> _native.Built:
    rules = mdb.BuildRules("20260101000000Z", path.with_name("rejects.ldif"), value_check="count")
    resources, data = mdb.Resources(64 << 20, JOBS, path.parent), path.with_name("data.mdb")
    return _native.build([path], data, database, rules, resources, None, _native.Counters())


@pytest.mark.long
def test_the_input_changes_its_version(database: _native.Database, text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "in.ldif"
    for number in range(ROUNDS):
        at = text.index(b"\n\n", len(text) * number // ROUNDS) + 2
        path.write_bytes(text[:at] + b"version: 2\n" + text[at:])
        with pytest.raises(_native.NativeError) as caught:
            built(path, database)
        line = text[:at].count(b"\n") + 1
        assert (caught.value.code, caught.value.line) == ("ldif.version", line)


def test_whoever_reads_goes_away() -> None:
    recipe = generating.people(ENTRIES).compiled()
    for _ in range(ROUNDS):
        reading, writing = os.pipe()
        os.close(reading)
        with pytest.raises(_native.NativeError) as caught:
            recipe.write(writing, 0, recipe.entries, JOBS, _native.Counters(), compress=False)
        os.close(writing)
        assert caught.value.code == "ldif.pipe"


@pytest.mark.long
def test_the_database_is_damaged(database: _native.Database, text: bytes, tmp_path: Path) -> None:
    """Pages of id2e, which comes first in the file, are none any more; workers who are ahead wait for their turns."""
    path, data = tmp_path / "in.ldif", tmp_path / "data.mdb"
    path.write_bytes(text)
    built(path, database)
    whole = data.read_bytes()
    with open(os.devnull, "wb") as nowhere:
        for number in range(ROUNDS):
            at = (len(text) // PAGE) * (number + 1) // (2 * ROUNDS) * PAGE
            data.write_bytes(whole[:at] + bytes(PAGE) + whole[at + PAGE :])
            dump = _native.Dump(str(data), txn=None, base=None, after=0, jobs=JOBS)
            with pytest.raises(_native.NativeError) as caught:
                dump.stream(nowhere.fileno(), LdifFormat(), str(tmp_path), _native.Counters())
            assert caught.value.code == "build.damaged"


@pytest.mark.parametrize("away", ["data.mdb", "scratch"])
def test_what_the_system_refuses_is_no_damage(
    target: mdb.Target, database: _native.Database, text: bytes, tmp_path: Path, away: str
) -> None:
    path, data = tmp_path / "in.ldif", tmp_path / "data.mdb"
    path.write_bytes(text)
    built(path, database)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (data if away == data.name else scratch).rename(tmp_path / "elsewhere")
    means = mdb.Resources(1 << 16, 2, scratch)
    with pytest.raises(SystemFailed) as caught:
        mdb.verify(target, data, True, means, Meter("verify"))
    assert caught.value.facts["path"] == tmp_path / away
    assert caught.value.facts["reason"] == "No such file or directory"
