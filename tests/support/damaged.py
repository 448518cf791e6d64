"""Damages files: verify, an export and a clone of each damaged file must not accept wrong data.

If a damaged file is reported sound, copied or exported, the result must equal what LMDB itself reads from the damaged
file in a separate process.
"""

from __future__ import annotations

import random
import shutil
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fixtures import damage
from fixtures.damage import Damage, SoundDatabase
from fixtures.damage.in_rows import INDEX_KINDS, OWN, id_of, number_of
from fixtures.damage.reading import Reader, Tables
from fixtures.golden import blobs
from fixtures.golden.cases import INDEXES
from fixtures.golden.tables import masked
from fixtures.golden.worn import Moments
from fixtures.slapd import Slapd
from loader.declared import AuditResources
from loader.defaults import LADDER
from loader.errors import LoaderError, MdbDamaged, MdbProtected, NotLmdb
from loader.mdb import meta
from loader.mdb.verify import AuditReport, audit
from loader.operations.verify import core_database_of
from loader.progress import Meter
from loader.server import configuration
from loader.sinks import mdb
from tests.support import dumped
from tests.support.command import Done, ditseed

TIMES = ("entryCSN", "createTimestamp", "modifyTimestamp")  # attributes whose index keys are seconds
_REFUSED = {error.exit_status for error in (NotLmdb, MdbDamaged, MdbProtected)}


@dataclass(frozen=True)
class Worn:
    """A database that slapd has changed for a while, what LMDB reads in it, and what it read before the last change."""

    sound: SoundDatabase
    known: mdb.Database
    reader: Reader
    tables: Tables
    last_but_one: Tables

    @classmethod
    def of(cls, moments: Moments, server: Slapd, directory: Path, reader: Reader) -> Worn:
        """`server`: has the configuration. `directory`: for the files."""
        now, last_but_one = directory / "now", directory / "last"
        now.write_bytes(moments.now)
        last_but_one.write_bytes(moments.last_but_one)
        assert meta.read_meta(now).txnid == meta.read_meta(last_but_one).txnid + 1
        tables, before = reader.tables(now), reader.tables(last_but_one)
        assert tables
        assert before
        assert len(tables["id2v"]) > 50
        config = configuration.read(server.config_path)
        known = core_database_of(config, config.database(server.suffix), now)
        sound = SoundDatabase(now, moments.now, moments.earlier)
        return cls(sound, known, reader, tables, before)

    def look(self, path: Path) -> AuditReport:
        """Returns the report of verify at all levels."""
        resources = AuditResources(memory=32 << 20, jobs=2, limit=10**6)
        return audit(path, LADDER[-1], resources, Meter("verify"), self.known)


@dataclass(frozen=True)
class Damaged:
    """A copy with one damage, in its own directory."""

    worn: Worn
    place: Path
    done: Damage

    @classmethod
    def make(cls, worn: Worn, place: Path, seed: int) -> Damaged:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(mode=0o700)
        return cls(worn, place, damage.make(worn.sound, place / meta.DATA, random.Random(seed)))

    @cached_property
    def tables(self) -> Tables | None:
        return self.worn.reader.tables(self.place / meta.DATA)

    def verified(self) -> str:
        """Runs verify. Returns "reported", or the reason why the damage need not be reported."""
        try:
            found = self.worn.look(self.place / meta.DATA)
        except LoaderError:
            return "reported"
        if found.sound:
            return _excuse(self)
        if self.done.kind in INDEX_KINDS:
            _require_named(self.worn, self.done, found)
        return "reported"

    def exported(self) -> str:
        """Exports the copy; the result must be an error, or the entries that LMDB reads."""
        out = self.place / "out"
        if not _ended_well(ditseed("export", self.place, "-o", out, "--compress", "none")):
            assert not (out / "manifest.json").exists()
            return "export refused"
        assert dumped.parsed(out) == self._entries()
        return "exported"

    def _entries(self) -> dumped.Entries:
        """Returns the entries that LMDB reads; the undamaged ones if they form no tree: an export reads only a part."""
        tables = self.worn.reader.tables(self.place / meta.DATA, OWN)
        try:
            return dumped.stored(self.worn.tables if tables is None else tables)
        except (ValueError, KeyError, struct.error):
            return dumped.stored(self.worn.tables)

    def cloned(self, *words: str) -> str:
        """Clones the copy; the result must be an error, or all rows of all tables that LMDB reads."""
        target = self.place / "clone"
        if not _ended_well(ditseed("clone", self.place, target, *words)):
            assert not target.exists()
            return "clone refused"
        assert self.tables is not None, "LMDB cannot read the source"
        assert self.worn.reader.tables(target / meta.DATA) == self.tables
        return "cloned"


def _ended_well(done: Done) -> bool:
    assert done.status in {0, *_REFUSED}, done
    return done.status == 0


def _require_named(worn: Worn, done: Damage, found: AuditReport) -> None:
    """Asserts that drift of an index is reported with attribute and entry, and that nothing else is reported."""
    assert {problem.kind.partition(".")[0] for problem in found.problems} == {"indexes"}, found
    told = [one for problem in found.problems for one in problem.examples]
    assert {one.attribute for one in told} == {done.attribute}, (done, told)
    if done.id is not None:
        (one,) = [one for one in told if one.id == done.id]
        known = any(id_of(key) == done.id for key, _ in worn.tables["dn2i"])
        assert bool(one.dn) == known, one


def _excuse(damaged: Damaged) -> str:
    """Returns the reason why a damaged database may be reported sound. Fails if there is none."""
    worn, tables, done = damaged.worn, damaged.tables, damaged.done
    assert tables is not None, f"{done}: LMDB cannot read it"
    if _equal(tables, worn.tables):
        return "means nothing"
    if _equal(tables, worn.last_but_one):
        return "an earlier moment"
    different = [name for name in worn.tables if tables.get(name) != worn.tables[name]]
    if different == ["ad2i"]:  # attribute options have no index keys
        one, other = ([text.partition(b";")[0] for _, text in of["ad2i"]] for of in (tables, worn.tables))
        assert one == other, done
        return "another option"
    assert different == ["id2e"], f"{done}: {different} differ"
    attributes = {number_of(key): text.decode() for key, text in worn.tables["ad2i"]}
    for (key, blob), (other_key, other_blob) in zip(worn.tables["id2e"], tables["id2e"], strict=True):
        assert key == other_key
        if blob != other_blob:
            _require_legal(blobs.decode(blob, attributes), blobs.decode(other_blob, attributes), done)
    return "another value"


def _require_legal(one: blobs.Blob, other: blobs.Blob, done: Damage) -> None:
    """Asserts that the only values that differ have no normal form and no index, or the same ones."""
    indexed = {name for line in INDEXES if not line.endswith(" pres") for name in line.split()[0].split(",")}
    assert (one.slots, one.class_flags) == (other.slots, other.class_flags)
    for left, right in zip(one.attributes, other.attributes, strict=True):
        assert (left.name, left.normalised, left.count) == (right.name, right.normalised, right.count), done
        if left.name in TIMES:
            assert left.values[0][:14] == right.values[0][:14], (done, left, right)
        elif left.values != right.values:
            assert left.normalised is not None or left.name not in indexed, (done, left, right)


def _equal(one: Tables, other: Tables) -> bool:
    """Returns whether all rows are equal, apart from the padding of entries."""
    entries, others = ([(key, _without_pad(value)) for key, value in tables.get("id2e", ())] for tables in (one, other))
    return entries == others and {**one, "id2e": []} == {**other, "id2e": []}


def _without_pad(value: bytes) -> bytes:
    try:
        return masked(value, {}, frozenset())
    except Exception:  # the damaged value is no entry
        return value


Step = Callable[[], str]
Steps = Callable[[Damaged, int], tuple[Step, ...]]  # (damaged file, seed) -> steps


def all_steps(damaged: Damaged, seed: int) -> tuple[Step, ...]:
    """Returns all steps; every second clone is compacting."""
    words = ("--compact",) if seed % 2 else ()
    return (damaged.verified, damaged.exported, lambda: damaged.cloned(*words))


def mostly_verifying(damaged: Damaged, seed: int) -> tuple[Step, ...]:
    """Returns the step of verify, and all steps for every tenth file."""
    return all_steps(damaged, seed)[: None if seed % 10 == 0 else 1]


def campaign(worn: Worn, directory: Path, seeds: range, steps: Steps = all_steps) -> Counter[str]:
    """Returns the number of damages by outcome. Tries all damages before it fails."""
    ends: Counter[str] = Counter()
    wrong = []
    for seed in seeds:
        damaged = Damaged.make(worn, directory / "damaged", seed)
        for step in steps(damaged, seed):
            try:
                ends[step()] += 1
            except Exception as error:
                wrong.append(f"seed {seed}: {damaged.done}: {type(error).__name__}: {error}"[:900])
    assert not wrong, "\n".join([f"{len(wrong)} of {len(seeds)}", *wrong])
    return ends
