"""What every strategy of `replica seed` is: one class for each way to get the entries into the consumer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Protocol

import click

from loader import defaults
from loader.common_options import (
    AllowHidden,
    ConsumerSuffix,
    Engine,
    Jobs,
    OptionalConfig,
    Page,
    Pieces,
    Placing,
    Reading,
    RunDir,
    VerifyNew,
    WriteContextCsn,
)
from loader.config import Config, Database
from loader.progress import Progress
from loader.run.log import Facts
from loader.run.steps import Run
from loader.server.options import Connection
from loader.server.session import Session
from seeders.replica.partial import Partial
from seeders.replica.preparing import Admin

_READ = "search, online: number of"


@dataclass(frozen=True, kw_only=True)
class SeedOptions(Placing, Reading):
    """`strategy` is empty if all are tried. `connection` is the provider, `source` is --from: LDIF, an export
    directory, or a database directory. `config_path` is the configuration of a stopped consumer, `consumer` is a
    running one."""

    strategy: str = ""
    config_path: OptionalConfig = None
    suffix: ConsumerSuffix = None
    consumer: Connection | None = None
    connection: Connection | None = None
    source: tuple[Path, ...] = ()
    admin: Admin | None = None  # --prepare-provider
    replicas: tuple[Connection, ...] = ()  # more providers of the same tree
    engine: Engine = defaults.ENGINES[0]
    verify: VerifyNew = "quick"
    write_context: Annotated[
        WriteContextCsn, "ldif: compute contextCSN from the entries, as slapadd -w (for the output of slapcat only)."
    ] = False
    allow_hidden: AllowHidden = False
    jobs: Annotated[Jobs, f"{_READ} parallel connections to each provider (default: one per processor, at most 4)."] = (
        None
    )
    pieces: Annotated[
        Pieces,
        f"{_READ} searches into which the tree is divided; 0: as many as jobs. If a connection breaks, one of them is "
        "repeated.",
    ] = 0
    page: Annotated[Page, "search, online: entries per page; 0: no paging unless a limit requires it."] = 0
    keep_export: Annotated[
        Path | None,
        "--keep-export DIR",
        click.Path(path_type=Path, file_okay=False),
        "search: export into DIR first, build from the export, and keep it.",
    ] = None
    nosync: Annotated[bool, "online: switch nosync on during the load, as `ditseed add --nosync`."] = False
    run_dir: RunDir = None


@dataclass(frozen=True)
class Consumer:
    """The database to fill. `partial`: what its syncrepl makes it a partial replica of; None: a whole replica."""

    config: Config
    database: Database
    partial: Partial | None = None


class Strategy(Protocol):
    """Made for one command; raises UsageProblem if that lacks an option which the strategy needs."""

    takes: ClassVar[frozenset[str]]  # fields of SeedOptions that not every strategy takes
    steps: ClassVar[tuple[str, ...]]
    verb: ClassVar[str]
    reads_ldif: ClassVar[bool] = False  # --from is LDIF
    options: SeedOptions

    def __init__(self, options: SeedOptions) -> None: ...

    @property
    def run_dir(self) -> Path: ...

    def identity(self) -> Mapping[str, object]:
        """What must not change between a run and its resumption."""

    def begins_anew(self, restart: bool) -> bool:
        """Whether to discard the run in `run_dir`."""

    def begin(self, run: Run, anew: bool) -> None:
        """Clear what an earlier run has left."""

    def consumer(self) -> Consumer:
        """Raises LoaderError if the consumer cannot be seeded in this way."""

    def require_fitting(self, provider: Session, base: str, consumer: Consumer) -> None:
        """Raises LoaderError if the provider has what the consumer cannot take, as far as that can be known before the
        reading."""

    def context_csns(self, provider: Session, base: str) -> list[str]:
        """The provider's contextCSN. Raises NoContextCSN."""

    def plan(self, suffix: str, progress: Progress) -> Facts:
        """What the steps would do; changes nothing."""

    def run(self, run: Run) -> Facts:
        """The steps after the preflight; the facts for the report."""
