"""What an online load is asked to do."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import click
from click import Choice, IntRange

from loader.common_options import MaxRate, MaxRejects, Rejecting, RunDir
from loader.defaults import state_dir
from loader.errors import UsageProblem
from loader.server.options import Connection
from loader.sources import Source
from loader.sources.ldif_files import LdifFiles
from loader.sources.location import is_stream
from loader.sources.synthetic import Synthetic

ON_EXISTS = ("error", "skip", "replace", "newer")


class Batch(click.ParamType[int]):
    """Entries, or `auto`, which is 0."""

    name = "batch"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return 0 if value == "auto" else int(IntRange(1).convert(value, param, ctx))


@dataclass(frozen=True)
class AddOptions(Rejecting):
    """LDIF files (or directories of them), or a `tree`, into a running server.

    `batch`: entries a transaction, 0 finds out, 1 makes none. `max_rate`: entries/s, 0 is without limit.
    `as_replication`: everything is sent as it stands but contextCSN (lending.py).
    """

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
    on_exists: Annotated[
        str, Choice(ON_EXISTS), "What to do with an entry that exists already."
    ] = ON_EXISTS[0]
    max_rejects: Annotated[
        MaxRejects, "Maximum number of rejected entries before the load stops."
    ] = field(default=0, kw_only=True)
    max_rate: Annotated[
        MaxRate, IntRange(1), "At most N entries per second, over all connections."
    ] = 0
    nosync: Annotated[
        bool,
        "Switch nosync on during the load (through cn=config); it is switched off again however the load ends.",
    ] = False
    keep_operational: Annotated[
        bool,
        "Send entryUUID, creatorsName, createTimestamp ... as well, with the relax control.",
    ] = False
    run_dir: Annotated[
        RunDir, "Directory for the state of the run (default: below the state directory)."
    ] = None
    as_replication: bool = False
    tree: Synthetic | None = None  # in the place of inputs

    @property
    def files(self) -> LdifFiles:
        return LdifFiles(self.inputs)

    @property
    def source(self) -> Source:
        return self.tree or self.files

    @property
    def directory(self) -> Path:
        """Where the run keeps its state: for the same files and server the same."""
        if self.run_dir is not None:
            return self.run_dir.absolute()
        text = json.dumps([self.connection.uri, self._names() or self._tree()])
        return state_dir() / "add" / hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def reject_file(self) -> Path:
        return self.rejects.absolute() if self.rejects else self.directory / "rejects.ldif"

    def identity(self) -> dict[str, object]:
        """What must not change between a run and its resumption. Files may: then it begins anew."""
        return {
            "uri": self.connection.uri,
            "inputs": self._names(),
            "files": self.files.fingerprints(),
            "tree": self._tree(),
            "keep_operational": self.keep_operational,
            "as_replication": self.as_replication,
        }

    def _names(self) -> list[str]:
        return [str(path if is_stream(path) else path.absolute()) for path in self.files.paths()]

    def _tree(self) -> dict[str, object] | None:
        return self.tree.identity() if self.tree else None

    def require_fitting(self, dry: bool = False) -> None:
        """Raise UsageProblem for options that do not go together."""
        if self.files.streamed and dry:
            raise UsageProblem(reason="a stream can be read only once, so --dry-run cannot read it")
        self.files.require_fitting(self.rejects)
