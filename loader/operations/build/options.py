"""What a build is asked to do."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from click import Choice, IntRange

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
from loader.defaults import ENGINES, LADDER, LEVELS
from loader.errors import UsageProblem
from loader.sources import Source
from loader.sources.dit import Synthetic
from loader.sources.location import LdifFiles

FULL = LADDER[-1]  # every entry read again, every index made again: a level of --verify
MOST_SHARDS = 256
_ONCE = "--dry-run and a replica read the input more than once: put the stream into a file first"
_FILES = "leave it out, or `ditseed generate TEMPLATE -o DIR` first"


@dataclass(frozen=True)
class BuildOptions(Placing, Sorting, Rejecting):
    """What to load (LDIF files, or directories of them; or a `tree`), and into the database of which configuration.

    `maxsize`: None takes the configured one, "auto" computes it, a number sets it; the last two change a
    slapd.d as `tune maxsize --apply` does, unless there is a `target`: a directory in the place of the configured
    one. `seeding`: the database is for a consumer. It must have a contextCSN (of the LDIF, or with `write_context` from
    its entries), and nothing in it may be newer.
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
    complete_naming: bool = True  # entries that lack a value of their RDN get it, as slapadd has it
    tree: Synthetic | None = None  # in the place of inputs
    # Of a part of a glued tree:
    now: str | None = None  # the time of attributes that are made; None: as inputs.moment tells
    claimed: tuple[str, ...] | None = None  # of a seeding: the contextCSN; None: it stands in the input
    first: int = 0  # the number of the first entryCSN that is made
    reached: tuple[str, ...] = ()  # CSNs of the other parts, which the contextCSN of -w takes in

    @property
    def files(self) -> LdifFiles:
        return LdifFiles(self.inputs)

    @property
    def source(self) -> Source:
        return self.tree or self.files

    def below(self, suffix: str) -> BuildOptions:
        """The same, with the tree in the database of that suffix."""
        if self.tree is None:
            return self
        return dataclasses.replace(self, tree=self.tree.below(suffix))

    def identity(self) -> dict[str, object]:
        """What must not change between a run and its resumption: options, and the inputs as they are now."""
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
        """Raise UsageProblem for options that do not go together."""
        strange = list(self._only_native()) if self.engine == "slapadd" else []
        if strange:
            raise UsageProblem(reason=f"--engine slapadd does not know {', '.join(strange)}")
        if self.shards and self.engine != "slapadd":
            raise UsageProblem(reason="--shards works with --engine slapadd only")
        if self.shards and self.tree:
            raise UsageProblem(reason=f"--shards cuts files, and --from makes a stream: {_FILES}")
        if self.files.streamed and (self.seeding or dry):
            raise UsageProblem(reason=f"{self.inputs[0]} is not a file: {_ONCE}")
        self.files.require_fitting(self.rejects)

    def _only_native(self) -> Iterator[str]:
        default = BuildOptions(Path())
        if self.verify == FULL:
            yield f"--verify {FULL}"
        for name, option in _NATIVE.items():
            if getattr(self, name) != getattr(default, name):
                yield option


_NATIVE = {
    "memory": "--memory",
    "jobs": "--jobs",
    "scratch": "--tmp",
    "max_rejects": "--max-rejects",
    "rejects": "--rejects",
    "file_urls": "--allow-file-urls",
}
