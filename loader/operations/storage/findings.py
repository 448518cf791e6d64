"""Commands that `check` prints to mend something, and `plan` to make it: one place for the form of each."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from shlex import quote

import msgspec

from loader import resources
from loader.config import Database as ConfiguredDatabase
from loader.errors import LoaderError, NoSuchPath, UsageProblem
from loader.mdb import meta
from loader.server import configuration
from loader.storage import files, survey
from loader.storage.survey import Facts
from loader.storage.volumes import Unseen

FEW_SECTORS = 32  # of 512 bytes, 16 KiB: readahead for a database that does not fit into memory


def lvcreate(group: str, name: str, extents: int, stripe_size: int, legs: Sequence[str], copies: int = 1) -> str:
    """A stripe on each leg, or on each pair of legs if `copies` is 2; without stripes if there is only one.

    `extents`: of the volume. `stripe_size`: bytes. Signatures of a file system that had these extents before are wiped;
    without both options lvcreate asks, and a script aborts.
    """
    stripes = len(legs) // copies
    kind = f"--type {'raid10' if stripes > 1 else 'raid1'} -m 1 " if copies > 1 else ""
    striped = f"-i {stripes} -I {stripe_size // 1024}k " if stripes > 1 else ""
    disks = " ".join(map(quote, legs))
    return f"lvcreate -y --wipesignatures y {kind}{striped}-l {extents} -n {quote(name)} {quote(group)} {disks}"


def more_disks(group: str, lacking: str, count: int, least: str) -> tuple[str, ...]:
    """What adds disks to a group; the commands after it name them as `to_add` does. `lacking`: why, for the reader."""
    disks = " ".join(to_add(count))
    return (f"# {lacking}: add disks of {least} or more", f"vgextend {group} {disks}")


def to_add(count: int) -> list[str]:
    return [f"/dev/DISK{number}" for number in range(1, count + 1)]


def read_ahead(group: str, name: str, sectors: int) -> str:
    return f"lvchange -r {sectors} {group}/{name}"


def add_to_fstab(source: str, target: str, kind: str, options: str = "defaults 0 2") -> str:
    """printf, for the echo of some shells reads the escapes of fstab(5) as its own."""
    line = " ".join((*map(fstab_word, (source, target, kind)), options))
    return f"printf '%s\\n' {quote(line)} >>/etc/fstab"


def fstab_word(word: str) -> str:
    return word.replace("\\", r"\134").replace(" ", r"\040").replace("\t", r"\011")


# --- findings --------------------------------------------------------------------------------------------------------
#
# What a rule looks at, and what it finds.


PAGE = 4096  # bytes: what LMDB 0.9 takes from the processor


class Severity(str, Enum):
    """From the least to the worst."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Finding(msgspec.Struct, frozen=True):
    """`rule`: its name, for programs. `mend`: commands, or lines of a file; `source`: who says so."""

    severity: Severity
    rule: str
    subject: str
    what: str
    why: str = ""
    mend: tuple[str, ...] = ()
    source: str = ""


class Database(msgspec.Struct, frozen=True):
    """A data.mdb. Bytes: `apparent` as ls shows it, `allocated` as du does, `used` up to the last page ever used."""

    path: str
    apparent: int
    allocated: int
    used: int
    map_size: int | None
    page_size: int


class Configured(msgspec.Struct, frozen=True):
    """What slapd's configuration says of the database. `maxsize` in bytes."""

    config: str
    suffix: str
    maxsize: int
    nosync: bool
    env_flags: tuple[str, ...]

    @property
    def reads_ahead(self) -> bool:
        return "nordahead" not in (flag.lower() for flag in self.env_flags)


class Situation(msgspec.Struct, frozen=True):
    """`memory`: bytes that this host has for it. `database`: None of a place that holds none."""

    facts: Facts
    memory: int
    database: Database | None = None
    unseen: tuple[Unseen, ...] = ()
    configured: Configured | None = None

    @property
    def map_size(self) -> int | None:
        """As configured, for slapd goes by that; else as the data file names it."""
        if self.configured is not None:
            return self.configured.maxsize
        return self.database.map_size if self.database else None

    @property
    def page(self) -> int:
        return self.database.page_size if self.database else PAGE

    @property
    def exceeds_memory(self) -> bool:
        return self.database is not None and self.database.used > self.memory


def situation(place: Path) -> Situation:
    """`place`: a data.mdb, a database directory, or any directory. Raises NoSuchPath, NotPermitted, UsageProblem."""
    file = data_file(place)
    facts = survey.of(file or place)
    if file is None:
        return Situation(facts, resources.memory(), None, facts.unseen)
    database, missing = _database(file)
    return Situation(facts, resources.memory(), database, (*facts.unseen, *missing))


def data_file(place: Path) -> Path | None:
    """The data.mdb that `place` is, or holds. Raises NoSuchPath, NotPermitted, UsageProblem."""
    with files.explained(place):
        place.stat()
        if not place.is_dir() and not place.is_file():
            raise UsageProblem(reason=f"{place} is neither a directory nor a regular file")
        file = meta.data_file(place)
        holds = file.is_file() and (place.is_dir() or meta.is_data_file(file))
    return file if holds else None


def configured(config: Path, suffix: str | None) -> tuple[Path, Configured]:
    """The directory of a configured database, and what is said of it. Raises NoSuchPath, NoSuchSuffix."""
    return told_of(configuration.read(config).database(suffix), config)


def told_of(found: ConfiguredDatabase, config: Path) -> tuple[Path, Configured]:
    """The same of a configuration that has been read. Raises NoSuchPath."""
    if found.directory is None:
        raise NoSuchPath(path=f"{config}: the directory of {found.suffix}")
    told = Configured(str(config), found.suffix, found.maxsize, found.nosync, found.env_flags)
    return found.directory, told


def _database(file: Path) -> tuple[Database, tuple[Unseen, ...]]:
    """Also of a file that cannot be read, or is damaged: its size matters all the same."""
    apparent, allocated = file.stat().st_size, files.allocated_bytes(file)
    try:
        told = meta.read_meta(file)
    except LoaderError as error:
        missing = Unseen("map size and pages in use", str(error))
        return Database(str(file), apparent, allocated, allocated, None, PAGE), (missing,)
    return Database(str(file), apparent, allocated, told.used, told.map_size, told.page_size), ()
