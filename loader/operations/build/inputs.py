"""What a build is asked to do, and the LDIF that it reads: whether that is whole, and what contextCSN it brings."""

from __future__ import annotations

import dataclasses
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from click import Choice, IntRange

from loader import csn, exports, ldif
from loader.common_options import (
    Config,
    Engine,
    Placing,
    Rejecting,
    Sorting,
    SpaceCheck,
    Suffix,
    Target,
    VerifyNew,
    WriteContextCsn,
)
from loader.defaults import ENGINES, ENV_EPOCH, LADDER, LEVELS
from loader.errors import EmptyInput, NoContextCSN, UsageProblem
from loader.operations.publish import TargetDatabase
from loader.progress import Meter
from loader.sources import Source, dit, names
from loader.sources.dit import Synthetic
from loader.sources.location import LdifFiles

MOST_SHARDS = 256
FULL = LADDER[-1]  # a level of --verify: every entry is read again, every index made again
NO_CONTEXT = "Give -w if the LDIF is the output of slapcat, or use that of `ditseed export`, which always has one."
_NATIVE = {
    "memory": "--memory",
    "jobs": "--jobs",
    "scratch": "--tmp",
    "max_rejects": "--max-rejects",
    "rejects": "--rejects",
    "file_urls": "--allow-file-urls",
}


class Loaded:
    """Options of a verb that loads LDIF files, or a generated tree in their place."""

    inputs: tuple[Path, ...]
    tree: Synthetic | None

    @property
    def files(self) -> LdifFiles:
        return LdifFiles(self.inputs)

    @property
    def source(self) -> Source:
        return self.tree or self.files


@dataclass(frozen=True)
class BuildOptions(Placing, Sorting, Rejecting, Loaded):
    """What to load (LDIF files, directories of them, or a `tree`), and into the database of which configuration.

    `maxsize`: None keeps the configured one; "auto" and a number change a slapd.d, unless `target` replaces the
    configured directory. `seeding`: the database is for a consumer, so it must have a contextCSN (of the LDIF, or with
    `write_context` of its entries), and nothing in it may be newer.
    """

    config_path: Config
    inputs: tuple[Path, ...] = ()
    suffix: Suffix = None
    target: Target = None
    glue: Annotated[bool, "-g --no-glue", "Do not build the databases glued to it (subordinate), as slapadd -g."] = True
    engine: Engine = ENGINES[0]
    verify: Annotated[VerifyNew, Choice([*LEVELS, FULL])] = "quick"
    write_context: Annotated[WriteContextCsn, "Write contextCSN from the entries' entryCSN, as slapadd -w."] = False
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
    check_space: SpaceCheck = True
    seeding: bool = False
    check_schema: bool = True  # False: as slapadd -s, and as slapd's consumers store entries
    complete_naming: bool = True  # adds missing RDN values to entries, as slapadd does
    tree: Synthetic | None = None  # replaces `inputs`
    # Set for a part of a glued tree only:
    now: str | None = None  # the time of generated attributes; None: `input_time` derives it
    claimed: tuple[str, ...] | None = None  # the contextCSN of a seeding; None: it is in the input
    first: int = 0  # the number of the first generated entryCSN
    reached: tuple[str, ...] = ()  # CSNs of the other parts, which the contextCSN of -w covers, too

    def below(self, suffix: str) -> BuildOptions:
        """Returns the options with the generated tree moved below `suffix`."""
        if self.tree is None:
            return self
        return dataclasses.replace(self, tree=self.tree.below(suffix))

    def identity(self) -> dict[str, object]:
        """Returns the options and input fingerprints that must not change between a run and its resumption."""
        return {
            "inputs": self.files.fingerprints(),
            "tree": self.tree.identity() if self.tree else None,
            "config": str(self.config_path.absolute()),
            "suffix": self.suffix,
            "target": str(self.target.absolute()) if self.target else None,
            "maxsize": self.maxsize,
            "write_context": self.write_context,
            "engine": self.engine,
            "shards": self.shards,
            "server_id": self.server_id,
            "max_rejects": self.max_rejects,
            "checks": [self.check_values, self.file_urls],
            "glue": self.glue,
            **({} if self.check_schema else {"check_schema": False}),
            **({} if self.complete_naming else {"complete_naming": False}),
        }

    def require_fitting(self, dry: bool = False) -> None:
        """Raises UsageProblem for options that do not go together."""
        unknown: list[str] = []
        if self.engine == "slapadd":
            default = BuildOptions(Path())
            unknown = [option for name, option in _NATIVE.items() if getattr(self, name) != getattr(default, name)]
            unknown += [f"--verify {FULL}"] if self.verify == FULL else []
        if unknown:
            raise UsageProblem(reason=f"--engine slapadd does not know {', '.join(unknown)}")
        if self.shards and self.engine != "slapadd":
            raise UsageProblem(reason="--shards works with --engine slapadd only")
        if self.shards and self.tree:
            reason = "--shards cuts files, and --from makes a stream: leave it out"
            raise UsageProblem(reason=f"{reason}, or `ditseed generate TEMPLATE -o DIR` first")
        if self.files.streamed and (self.seeding or dry):
            once = "--dry-run and seeding read the input more than once: put the stream into a file first"
            raise UsageProblem(reason=f"{self.inputs[0]} is not a file: {once}")
        self.files.require_fitting(self.rejects)


@dataclass(frozen=True)
class Scanned:
    """Names with the file and line of their first use. `claimed`: the contextCSN that no entry may exceed; None loads
    entries as they are."""

    entries: int
    bytes: int
    attributes: dict[str, tuple[str, int]]
    object_classes: dict[str, tuple[str, int]]
    first_dn: str
    claimed: list[str] | None


def scan(options: BuildOptions, place: TargetDatabase, meter: Meter) -> Scanned:
    """Reads all input once: checks that every file is complete, counts the entries and collects the names."""
    with options.source.reading(meter) as read:
        found = ldif.scan(names(read), meter)
    exports.require_entries(options.inputs, found.entries)
    if not found.entries:
        raise EmptyInput(path=", ".join(map(str, options.inputs)))
    claimed: list[str] | None = None
    if options.seeding:
        csns = csn.by_server(found.context_csns) or (dict(found.max_csns) if options.write_context else {})
        claimed = sorted(csns.values()) if options.claimed is None else list(options.claimed)
        if not claimed:
            where, suffix = options.inputs[0], place.database.suffix
            raise NoContextCSN(where=where, suffix=suffix, advice=NO_CONTEXT, commands=())
    return Scanned(found.entries, found.bytes, found.attributes, found.object_classes, found.first_dn or "", claimed)


def input_time(options: BuildOptions) -> str:
    """The time of generated attributes, as in createTimestamp: that of the newest input file, so that the same input
    makes the same database. A stream has the present time, a tree a fixed one. SOURCE_DATE_EPOCH
    (reproducible-builds.org) overrides all of these."""
    if options.now is not None:
        return options.now
    seconds = os.environ.get(ENV_EPOCH)
    if seconds and seconds.isdigit():
        moment = float(seconds)
    elif options.tree is not None:
        return dit.MOMENT
    else:
        paths, moment = options.files.paths(), time.time()
        if paths and all(path.is_file() for path in paths):
            moment = min(moment, max(path.stat().st_mtime for path in paths))
    return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(moment))
