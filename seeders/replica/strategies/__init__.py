"""What every strategy of `replica seed` is: one class for each way to get the entries into the consumer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from loader import defaults
from loader.config import Config, Database
from loader.progress import Progress
from loader.run.log import Facts
from loader.run.steps import Run
from loader.server.options import Connection
from loader.server.session import Session
from seeders.replica.partial import Partial
from seeders.replica.preparing import Admin


@dataclass(frozen=True)
class SeedOptions:
    """`connection` is the provider, `source` is --from: LDIF, an export directory, or a database directory.
    `config_path` is the configuration of a stopped consumer, `consumer` is a running one."""

    strategy: str
    config_path: Path | None = None
    consumer: Connection | None = None
    suffix: str | None = None
    connection: Connection | None = None
    source: tuple[Path, ...] = ()
    run_dir: Path | None = None
    replace: bool = False
    maxsize: int | str | None = None
    write_context: bool = False
    engine: str = defaults.ENGINES[0]
    jobs: int = 2
    pieces: int = 0
    page: int = 0
    verify: str = "quick"
    nosync: bool = False
    allow_hidden: bool = False
    keep_export: Path | None = None  # read into this directory first, and leave the export there
    admin: Admin | None = None  # --prepare-provider
    replicas: tuple[Connection, ...] = ()  # more providers of the same tree


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
