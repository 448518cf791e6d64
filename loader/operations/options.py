"""Options of verbs, in a module that imports no operations, so that --help is quick."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click
from click import Choice, FloatRange, IntRange

from loader import declared, defaults
from loader.defaults import ENGINES, LADDER, LEVELS
from loader.server.options import Connection

if TYPE_CHECKING:
    from loader.indexes import Indexes

FULL = LADDER[-1]  # the level of --verify that reads every entry again and rebuilds every index
MOST_SHARDS = 256
ON_EXISTS = ("error", "skip", "replace", "newer")
ON, OFF, NONE = "on", "off", "none"
# The envflags of slapd-mdb(5), except nosync, which is a separate setting.
FLAGS = ("mapasync", "nometasync", "nordahead", "writemap")
FILE_SYSTEMS = ("xfs", "ext4")
PROBES = ("flock", "write")  # operations that `storage watch` times in addition to the layers
STRIPE = 64 * 1024  # bytes; the default of lvcreate


class Batch(click.types.IntParamType):
    """Option type: a number of entries, or `auto`, which becomes 0."""

    name = "batch"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return 0 if value == "auto" else int(IntRange(1)(value, param, ctx))


@dataclass(frozen=True)
class MigrateOptions(declared.Placing, declared.Sorting):
    """`source`, `target`: database directories. `config_path`: configuration of the new slapd. `suffix` selects a
    database of this configuration; if it is None, the source's suffix does. Other fields: as in BuildOptions."""

    source: Annotated[Path, declared.Argument()]
    target: Annotated[Path, declared.Argument()]
    config_path: declared.Config
    suffix: declared.Suffix = None
    verify: Annotated[declared.VerifyNew, Choice([*LEVELS, FULL])] = "quick"
    check_space: declared.SpaceCheck = True


@dataclass(frozen=True)
class VerifyOptions(declared.AuditResources):
    """`place`: a database directory or a data file; None selects the configured directory. `level`: a level in
    loader.defaults.LADDER; None selects the highest level that takes only minutes."""

    place: Annotated[Path | None, declared.Argument("[DIR]")] = None
    config_path: Annotated[
        declared.OptionalConfig,
        "The server's slapd.d or slapd.conf, for schema and indexes, and for the directory if DIR is not given.",
    ] = None
    suffix: declared.Suffix = None
    level: Annotated[
        str | None,
        "--verify",
        Choice(LADDER),
        "How thoroughly to check (default: the highest level that takes a few minutes; indexes needs --config).",
    ] = None


@dataclass(frozen=True)
class CloneOptions:
    """`source`, `target`: database directories. `verify`: a level of loader.mdb.verify; if it is None, the size
    decides, and pages are checked during the copy. `reflink`: "auto" shares blocks if the file system can, and no
    process has the source open."""

    source: Annotated[Path, declared.Argument()]
    target: Annotated[Path, declared.Argument()]
    replace: Annotated[bool, "Replace the database in TARGET once the clone is checked."] = False
    verify: declared.VerifyCopy = None
    compact: Annotated[bool, "Leave out free pages, and write the used pages in the order of their keys."] = False
    reflink: Annotated[
        Literal["auto", "never", "always"],
        "Share blocks with SOURCE on xfs and btrfs instead of copying them; `auto` does so unless a process has SOURCE "
        "open.",
    ] = "auto"
    token: Annotated[
        str | None, "--skip TOKEN", "With TARGET -: skip what the receiver has already; the receiver prints the token."
    ] = None
    scratch: Annotated[
        declared.Scratch,
        "With --compact and TARGET -: directory for the compacted copy until it is sent (default: $TMPDIR or /tmp).",
    ] = None


@dataclass(frozen=True)
class IndexChange:
    """A change of the list of indexes. `wanted`, if not empty, replaces the list; then `add` and `remove` change it."""

    wanted: Annotated[
        tuple[str, ...], "--set INDEX", 'Replace the whole list: --set "uid eq" --set "cn,sn eq,sub".'
    ] = ()
    add: Annotated[tuple[str, ...], "--add INDEX", 'Add to the list: --add "mail eq".'] = ()
    remove: Annotated[
        tuple[str, ...], "--remove ATTRIBUTE", 'Remove from the list: --remove mail, or one type: --remove "cn sub".'
    ] = ()

    def of(self, present: Indexes) -> Indexes:
        from loader import indexes

        start = indexes.parse(self.wanted, present) if self.wanted else present
        return indexes.removed(indexes.added(start, self.add), self.remove)


@dataclass(frozen=True)
class SearchSources:
    logs: Annotated[
        tuple[Path, ...],
        "--stats-log FILE",
        "slapd's log (loglevel stats), compressed or not; may be repeated. Shows which indexes searches use or lack.",
    ] = ()
    filters: Annotated[
        tuple[Path, ...], "--filters FILE", "The same for a file with a search filter on each line."
    ] = ()

    def __bool__(self) -> bool:
        return bool(self.logs or self.filters)


@dataclass(frozen=True)
class DeclaredBuild(declared.Placing, declared.Sorting, declared.Rejecting):
    """The command line options of `build`. BuildOptions adds options that only other verbs set."""

    config_path: declared.Config
    inputs: tuple[Path, ...] = ()
    suffix: declared.Suffix = None
    target: declared.Target = None
    glue: Annotated[bool, "-g --no-glue", "Do not build the glued databases (subordinate), as slapadd -g."] = True
    engine: declared.Engine = ENGINES[0]
    verify: Annotated[declared.VerifyNew, Choice([*LEVELS, FULL])] = "quick"
    write_context: Annotated[
        declared.WriteContextCsn, "Write contextCSN from the entries' entryCSN, as slapadd -w."
    ] = False
    server_id: Annotated[
        int | None, "-S --server-id", IntRange(0, 4095), "Server ID for generated entryCSNs (default: olcServerID)."
    ] = None
    shards: Annotated[
        int | None,
        IntRange(1, MOST_SHARDS),
        "With --engine slapadd: number of slapadds to run in parallel (default: by size, processors and memory).",
    ] = None
    check_values: Annotated[
        bool, "--no-value-check", "Accept values that violate their syntax, as slapadd does by default."
    ] = True
    file_urls: Annotated[
        bool,
        "--allow-file-urls",
        "Allow `attribute:< file:///path` and `include: file:///path` to read files of this host.",
    ] = False
    check_space: declared.SpaceCheck = True


@dataclass(frozen=True)
class DeclaredAdd(declared.Rejecting):
    """The command line options of `add`. AddOptions adds options that only other verbs set."""

    connection: Connection = field(default_factory=Connection)
    inputs: tuple[Path, ...] = ()
    jobs: Annotated[int, "-j --jobs", IntRange(1), "Number of parallel connections."] = 3
    batch: Annotated[
        int,
        "--batch N|auto",
        Batch(),
        {"default": "auto", "show_default": True},
        "Entries per transaction; 1: no transactions, each entry by itself.",
    ] = 0
    on_exists: Annotated[str, Choice(ON_EXISTS), "What to do with an entry that exists already."] = ON_EXISTS[0]
    max_rejects: Annotated[declared.MaxRejects, "Maximum number of rejected entries before the load stops."] = field(
        default=0, kw_only=True
    )
    max_rate: Annotated[declared.MaxRate, IntRange(1), "At most N entries per second, over all connections."] = 0
    nosync: Annotated[
        bool, "Switch nosync on during the load (through cn=config); it is switched off again however the load ends."
    ] = False
    keep_operational: Annotated[
        bool, "Send entryUUID, creatorsName, createTimestamp ... as well, with the relax control."
    ] = False
    run_dir: Annotated[
        declared.RunDir, "Directory for the run's state (default: a new one in ditseed's state directory)."
    ] = None


@dataclass(frozen=True, kw_only=True)
class BenchSizes:
    entries: Annotated[int, "-n --entries N", IntRange(1), "Number of entries that are loaded with nosync."] = 20_000
    sync_entries: Annotated[
        int,
        "--sync-entries N",
        IntRange(0),
        "Number of entries that are loaded with sync, each a transaction; 0: none.",
    ] = 1_000
    searches: Annotated[int, "--searches N", IntRange(0), "Number of searches; 0: none."] = 20_000
    seed: Annotated[int, "Random seed; a different seed makes different entries."] = 1
    fio_size: Annotated[
        int, declared.Size(), {"default": "256M"}, "Size of the file that fio reads and writes; 0: none."
    ] = 256 << 20


@dataclass(frozen=True)
class WatchOptions:
    """Times are in seconds. `window`: number of reads for davg and dstd_dev. `samples`: number of rounds, or None."""

    interval: Annotated[float, "--interval SECONDS", FloatRange(0.05), "Time between two reads of a layer."] = 3.0
    window: Annotated[int, IntRange(2), "Number of reads over which davg and dstd_dev are computed."] = 100
    half_life: Annotated[
        float, "--half-life TIME", declared.Duration(), {"default": "5m"}, "Half-life with which emin and emax decay."
    ] = 300.0
    samples: Annotated[int | None, IntRange(1), "End after that many rounds (default: never)."] = None


@dataclass(frozen=True, kw_only=True)
class VolumeOptions:
    """Sizes are in bytes. `stripes`: None uses all disks. `size`: None uses all space. `redundant`: each stripe is on
    two disks."""

    database: Annotated[int, "--database-size", declared.Size(), "Size of the database."]
    kind: Annotated[str, "--fs", Choice(FILE_SYSTEMS), "File system."] = "xfs"
    stripes: Annotated[
        int | None, IntRange(1), "Number of stripes (default: one per disk, or per two disks with --redundant)."
    ] = None
    stripe_size: Annotated[int, declared.Size(), {"show_default": False}, "Stripe size (default: 64K)."] = STRIPE
    size: Annotated[int | None, "--volume-size", declared.Size(), "Size of the volume (default: all of the disks)."] = (
        None
    )
    memory: Annotated[int, declared.Size(), {"required": False}, "Memory of the server (default: this host's)."] = (
        field(default_factory=defaults.memory)
    )
    group: Annotated[str, "--vg", "Name of the volume group."] = "ldap"
    volume: Annotated[str, "--lv", "Name of the logical volume."] = "data"
    mount: Annotated[str, "Mount point."] = "/srv/ldap"
    unequal: Annotated[
        bool, "Accept disks of different sizes, and leave the additional space of the larger ones unused."
    ] = False
    redundant: Annotated[bool, "Keep everything on two disks: raid10 on 4 disks or more, a mirror (raid1) on 2."] = (
        False
    )

    @property
    def copies(self) -> int:
        """Number of copies of each stripe, on different disks."""
        return 2 if self.redundant else 1

    @property
    def raid_extents(self) -> int:
        """Extents of LVM's metadata subvolume (rmeta) on each leg; one has room for the superblock and 2^21 bitmap
        bits."""
        return 1 if self.redundant else 0
