"""Options that several verbs share, each declared once; loader/declared.py explains the notation."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click
from click import Choice, IntRange

from loader.declared import Size
from loader.defaults import ENGINES, LEVELS
from loader.storage import temporary


def _require_lasting(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Raises DirectoryUnsafe. The verb itself reports a directory that is missing or unusable."""
    with suppress(OSError):
        if path is not None and path.is_dir():
            temporary.lasting(path)
    return path


Config = Annotated[Path, "--config", "The server's slapd.d directory or slapd.conf."]
OptionalConfig = Annotated[Path | None, "--config", "The server's slapd.d directory or slapd.conf."]
Suffix = Annotated[str | None, "-b --suffix SUFFIX", "Suffix of the database (default: the only one)."]
ConsumerSuffix = Annotated[
    str | None, "--suffix SUFFIX", "Suffix of the consumer's database (default: -b, else its only database)."
]
Target = Annotated[
    Path | None, "--target DIR", "Write into DIR instead of the configured directory; the configuration is not changed."
]
SpaceCheck = Annotated[
    bool, "--no-space-check", "Go on where the file system seems to have too little room for the new database."
]
Engine = Annotated[str, Choice(ENGINES), "Program that writes the database: native is ditseed itself."]
VerifyNew = Annotated[str, Choice(LEVELS), "How thoroughly to check the new database, as `ditseed verify`."]
VerifyCopy = Annotated[
    str | None,
    Choice(LEVELS),
    "How thoroughly to check the copy before it is put into place, as `ditseed verify` (default: pages up to 16 GiB, "
    "else quick).",
]
Jobs = Annotated[int | None, "-j --jobs", IntRange(1), "Number of threads (default: one per processor)."]
Memory = Annotated[int | None, Size(), "Memory for sorting (default: a quarter of the available memory)."]
Scratch = Annotated[
    Path | None,
    "--tmp DIR",
    {"callback": _require_lasting},
    "Directory for temporary files (default: beside the database).",
]
TemporaryDirectory = Annotated[Scratch, "Directory for temporary files (default: $TMPDIR or /tmp)."]
Limit = Annotated[int, IntRange(0)]  # number of differences or problems to report
MaxRejects = Annotated[int, IntRange(0), "Maximum number of rejected entries before the build fails."]
MaxRate = Annotated[int, "--max-rate N", IntRange(0), {"show_default": False}]
Pieces = Annotated[
    int,
    IntRange(0),
    {"show_default": False},
    "Number of searches into which the tree is divided; 0: as many as jobs. If a connection breaks, one of them is "
    "repeated.",
]
Page = Annotated[
    int, IntRange(0), {"show_default": False}, "Entries per page; 0: no paging unless a limit requires it."
]
RunDir = Annotated[
    Path | None, "--run-dir DIR", "Directory for the state of the run (default: in the database directory)."
]
Compress = Annotated[str | None, Choice(("zstd", "none"))]
AllowHidden = Annotated[
    bool, "Go on even if the account cannot read all values, or cannot read them as they are stored."
]
WriteContextCsn = Annotated[bool, "-w --write-context-csn"]
Metrics = Annotated[Path | None, "--metrics FILE"]


@dataclass(frozen=True, kw_only=True)
class Placing:
    """How a new database is put into place. `maxsize`: bytes, "auto", or None for the configured maxsize."""

    replace: Annotated[bool, "Replace an existing database once the new one is checked."] = False
    maxsize: Annotated[
        int | str | None,
        Size(auto=True),
        "Set maxsize, in a slapd.d too; for a slapd.conf the line to change is printed. `auto` computes it.",
    ] = None


@dataclass(frozen=True, kw_only=True)
class Sorting:
    """Resources of the core. Defaults: a quarter of the memory, the run directory, one thread per processor."""

    memory: Memory = None  # bytes
    scratch: Scratch = None
    jobs: Jobs = None


@dataclass(frozen=True, kw_only=True)
class Rejecting:
    """`rejects`: LDIF file for rejected entries; None: a file in the run directory."""

    max_rejects: MaxRejects = 0
    rejects: Annotated[
        Path | None, "--rejects FILE", "File for rejected entries, as LDIF (default: in the run directory)."
    ] = None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a server is read. `jobs`: connections per provider; None: one per processor, at most 4."""

    jobs: Jobs = None
    pieces: Pieces = 0
    page: Page = 0


@dataclass(frozen=True, kw_only=True)
class ExportLimits(Reading):
    """How fast a server is read. `max_rate`: entries per second; 0: no limit."""

    jobs: Annotated[
        Jobs,
        "Number of parallel connections to each server (default: one per processor, at most 4), or of workers for DIR "
        "(default: one per processor).",
    ] = None
    max_rate: Annotated[MaxRate, "At most N entries per second, over all connections; 0: no limit."] = 0
