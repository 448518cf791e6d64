"""Verify: nothing is found in databases that slapd has worked on, and every damage that matters is found.

Damage is random, seeded. Where a damaged database is called sound, LMDB itself reads all its tables (in a process
apart), and they must be those of the database before: then the damage hit bytes that mean nothing. Two things look
like other databases rather than damaged ones, and no reader can know: a value changed into another that slapd could
have stored, and a snapshot of an earlier moment that is whole.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures import damage
from fixtures.chroots import chroot, missing_chroot
from fixtures.churn import Churn
from fixtures.damage import INDEX_KINDS, Damage, SoundDatabase, Tables
from fixtures.golden import blobs
from fixtures.golden.case import Case, settings
from fixtures.golden.cases import INDEXES, mixed
from fixtures.golden.records import SUFFIX
from fixtures.golden.tables import masked
from fixtures.slapd import Slapd
from loader.defaults import LADDER
from loader.errors import LoaderError
from loader.mdb import meta
from loader.mdb.verify import AuditReport, Resources, audit
from loader.operations.verify import (
    VerifyOptions,
    VerifyReport,
    known_to_core,
    verify_database,
)
from loader.progress import Meter, Progress
from loader.server import configuration
from loader.sinks import mdb
from tests.golden.everything import CASES
from tests.support.golden import fresh, slapadd
from tests.support.require import require

pytestmark = pytest.mark.slapd

CASE = Case(
    "worn",
    "of every shape, then changed by slapd",
    settings(
        *INDEXES, database=("multival default 2,1",), top_lines=("sortvals gIgnore gInteger",)
    ),
    mixed,
)
CHANGES = 1500
SHORT, MORE, LONG = 40, 100, 2000
TIMES = ("entryCSN", "createTimestamp", "modifyTimestamp")  # whose index keys are seconds


@dataclass(frozen=True)
class Worn:
    """A database that slapd has changed for a while, and what LMDB reads in it, and read before its last change."""

    server: Slapd
    sound: SoundDatabase
    known: mdb.Database
    tables: Tables
    last_but_one: Tables

    def look(self, path: Path) -> AuditReport:
        """What verify says of a damaged copy, on all rungs."""
        return audit(
            path, LADDER[-1], Resources(32 << 20, 2, limit=10**6), Meter("verify"), self.known
        )


@pytest.fixture(scope="module")
def worn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worn]:
    directory = tmp_path_factory.mktemp("worn")
    earlier, last_but_one, now = (directory / name for name in ("earlier", "last", "now"))
    with closing(fresh(CASE)) as server:
        slapadd(server, CASE.write(directory))
        _change(server, 1, earlier)
        _change(server, 2, last_but_one)
        server.start()
        server.ldapmodify(
            f"dn: {SUFFIX}\nchangetype: modify\nreplace: description\ndescription: last\n"
        )
        _copy(server, now)
        assert meta.read_meta(now).txnid == meta.read_meta(last_but_one).txnid + 1
        tables, before = damage.read(now), damage.read(last_but_one)
        assert tables
        assert before
        assert len(tables["id2v"]) > 50
        config = configuration.read(server.config_path)
        known = known_to_core(config, config.database(server.suffix), now)
        sound = SoundDatabase(now, now.read_bytes(), earlier.read_bytes())
        yield Worn(server, sound, known, tables, before)


def _change(server: Slapd, seed: int, copy: Path) -> None:
    server.start()
    with Churn(server, rate=2000, seed=seed, harsh=True) as churn:
        churn.wait_for(CHANGES)
    _copy(server, copy)


def _copy(server: Slapd, copy: Path) -> None:
    server.stop()
    data = server.database_dir / meta.DATA
    copy.write_bytes(data.read_bytes()[: meta.read_meta(data).used])


def look(server: Slapd, place: Path, level: str = "indexes") -> VerifyReport:
    means = Resources(memory=32 << 20, jobs=2)
    options = VerifyOptions(place, server.config_path, server.suffix, level, means)
    return verify_database(options, Progress("none"))


def test_a_database_that_slapd_has_worked_on_is_sound(worn: Worn) -> None:
    for place in (worn.server.database_dir, worn.sound.path):
        found = look(worn.server, place)
        assert found.sound, found.problems
        assert found.entries == len(worn.tables["id2e"])


def test_beside_a_writer(worn: Worn) -> None:
    """The writer must not have come to its end before the last look."""
    server = worn.server.start()
    try:
        with Churn(server, rate=2000, seed=3, harsh=True) as churn:
            for _ in range(10):
                begun = churn.changes()
                found = look(server, server.database_dir)
                assert found.sound, found.problems
                churn.wait_for(begun + 1)
    finally:
        server.stop()


@pytest.mark.parametrize("suite", ["bullseye", "trixie", "forky"])
def test_databases_of_other_versions_are_sound(
    suite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2.4.57; 2.6.10; 2.6.14, whose LMDB counts pages otherwise."""
    require(missing_chroot())
    other = chroot(suite)
    monkeypatch.setenv("DITSEED_TOOLS", other.tools)
    (broad,) = (case for case in CASES if case.name == "broad")
    case = broad if other.version.startswith("2.4.") else CASE
    with closing(fresh(case, other)) as server:
        slapadd(server, case.write(tmp_path))
        assert look(server, server.database_dir).sound
        server.start()
        with Churn(server, rate=2000, harsh=True) as churn:
            churn.wait_for(500)
        server.stop()
        found = look(server, server.database_dir)
        assert found.sound, found.problems


def test_ranges_stay_when_entries_go(tmp_path: Path) -> None:
    """Keys of 65,536 entries and more are ranges; after deletes they cover more than there is, which is right."""
    (case,) = (case for case in CASES if case.name == "ranges")
    with closing(fresh(case)) as server:
        slapadd(server, case.write(tmp_path))
        server.start()
        names_ = [f"cn={number},{SUFFIX}" for number in (1, 2, 3, 40_000, 65_537, 65_536)]
        server.ldapmodify("".join(f"dn: {dn}\nchangetype: delete\n\n" for dn in names_))
        server.stop()
        found = look(server, server.database_dir)
        assert found.sound, found.problems
        path = tmp_path / meta.DATA
        shutil.copy(server.database_dir / meta.DATA, path)
        attribute, key, high = damage.narrow_a_range(path)
        (problem,) = look(server, path).problems
        assert (problem.kind, problem.count) == ("indexes.missing", 1)
        (told,) = problem.told
        assert (told.attribute, told.id) == (attribute, high)
        assert key.hex() in told.message


@pytest.mark.parametrize(
    ("indexes", "lines", "kind", "words"),
    [
        (("cn,sn eq", "uid eq"), (), "indexes.table", "not in the file"),
        (("cn,sn eq,sub",), (), "indexes.table", "lacks"),
        (("cn,sn eq",), ("index_hash64 on",), "indexes.table", "other settings"),
        (("cn eq",), (), None, "sn is in the file, but not configured"),
    ],
)
def test_a_configuration_that_the_file_does_not_follow(
    indexes: tuple[str, ...], lines: tuple[str, ...], kind: str | None, words: str, tmp_path: Path
) -> None:
    made = Case("made", "", settings("cn,sn eq"), CASE.ldif)
    later = Case("later", "", settings(*indexes, top_lines=lines), CASE.ldif)
    with closing(fresh(made)) as server, closing(fresh(later)) as other:
        slapadd(server, made.write(tmp_path))
        options = VerifyOptions(server.database_dir, other.config_path, SUFFIX, "indexes")
        found = verify_database(options, Progress("none"))
        told = {problem.kind: problem.told for problem in found.problems}
        assert found.sound == (kind is None)
        texts = [str(one) for one in told[kind]] if kind else found.notes
        assert any(words in text for text in texts), (texts, found)


def _run(worn: Worn, path: Path, seed: int) -> tuple[Damage, str]:
    """One damage, and how it ends: "reported", or why it is not."""
    done = damage.make(worn.sound, path, random.Random(seed))
    try:
        found = worn.look(path)
    except LoaderError:
        return done, "reported"
    if found.sound:
        return done, _excuse(worn, path, done)
    if done.kind in INDEX_KINDS:
        _require_named(worn, done, found)
    return done, "reported"


def _require_named(worn: Worn, done: Damage, found: AuditReport) -> None:
    """Drift of an index is told with attribute and entry, and nothing else is."""
    assert {problem.kind.partition(".")[0] for problem in found.problems} == {"indexes"}, found
    told = [one for problem in found.problems for one in problem.told]
    assert {one.attribute for one in told} == {done.attribute}, (done, told)
    if done.id is not None:
        (one,) = [one for one in told if one.id == done.id]
        known = any(damage.id_of(key) == done.id for key, _ in worn.tables["dn2i"])
        assert bool(one.dn) == known, one


def _excuse(worn: Worn, path: Path, done: Damage) -> str:
    """Why a damaged database may be called sound; fails where it may not."""
    tables = damage.read(path)
    assert tables is not None, f"{done}: LMDB cannot read it"
    if _equal(tables, worn.tables):
        return "means nothing"
    if _equal(tables, worn.last_but_one):
        return "an earlier moment"
    different = [name for name in worn.tables if tables.get(name) != worn.tables[name]]
    if different == ["ad2i"]:
        assert _types(tables) == _types(worn.tables), done
        return "another option"
    assert different == ["id2e"], f"{done}: {different} differ"
    attributes = {damage.number_of(key): text.decode() for key, text in worn.tables["ad2i"]}
    pairs = zip(worn.tables["id2e"], tables["id2e"], strict=True)
    for one, other in pairs:
        assert one[0] == other[0]
        if one[1] != other[1]:
            _require_legal(
                blobs.decode(one[1], attributes), blobs.decode(other[1], attributes), done
            )
    return "another value"


def _require_legal(one: blobs.Blob, other: blobs.Blob, done: Damage) -> None:
    """Only values without normal form and index, or with the same, are others."""
    assert (one.slots, one.class_flags) == (other.slots, other.class_flags)
    for left, right in zip(one.attributes, other.attributes, strict=True):
        assert (left.name, left.normalised, left.count) == (
            right.name,
            right.normalised,
            right.count,
        ), done
        if left.name in TIMES:
            assert left.values[0][:14] == right.values[0][:14], (done, left, right)
        elif left.values != right.values:
            assert left.normalised is not None or left.name not in _indexed(), (done, left, right)


def _types(tables: Tables) -> list[bytes]:
    """Of ad2i, without options, which make no index keys of their own."""
    return [text.partition(b";")[0] for _, text in tables["ad2i"]]


def _indexed() -> set[str]:
    """Attributes whose raw values make index keys."""
    of_values = [line.split()[0] for line in INDEXES if not line.endswith(" pres")]
    return {name for names_ in of_values for name in names_.split(",")}


def _equal(one: Tables, other: Tables) -> bool:
    if one.keys() != other.keys():
        return False
    return all(_rows(name, one) == _rows(name, other) for name in one)


def _rows(name: str, tables: Tables) -> list[tuple[bytes, bytes]]:
    """Without the pads of entries."""
    if name != "id2e":
        return tables[name]
    return [(key, _without_pad(value)) for key, value in tables[name]]


def _without_pad(value: bytes) -> bytes:
    try:
        return masked(value, {}, frozenset())
    except Exception:  # no entry any more
        return value


def _campaign(worn: Worn, directory: Path, seeds: range) -> Counter[tuple[str, str]]:
    """How many damages of each kind end how. All of them are tried before one fails the test."""
    ends: Counter[tuple[str, str]] = Counter()
    wrong = []
    for seed in seeds:
        try:
            done, end = _run(worn, directory / meta.DATA, seed)
        except Exception as error:
            wrong.append(f"seed {seed}: {type(error).__name__}: {error}"[:600])
        else:
            ends[done.kind, end] += 1
    assert not wrong, "\n".join([f"{len(wrong)} of {len(seeds)}", *wrong])
    return ends


def _by_end(ends: Counter[tuple[str, str]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, end), count in ends.items():
        found[end] += count
    return found


def test_every_damage_that_matters_is_reported(worn: Worn, tmp_path: Path) -> None:
    assert _by_end(_campaign(worn, tmp_path, range(SHORT)))["reported"] > SHORT * 0.6


def test_more_damages(worn: Worn, tmp_path: Path) -> None:
    seeds = range(SHORT, MORE)
    assert _by_end(_campaign(worn, tmp_path, seeds))["reported"] > len(seeds) * 0.6


@pytest.mark.heavy
@pytest.mark.timeout(0)
def test_two_thousand_damages(worn: Worn, tmp_path: Path) -> None:
    ends = _campaign(worn, tmp_path, range(1000, 1000 + LONG))
    for (kind, end), count in sorted(ends.items()):
        print(f"{kind:20} {end:18} {count}")
    print(dict(_by_end(ends)))
    assert _by_end(ends)["reported"] > LONG * 0.6
