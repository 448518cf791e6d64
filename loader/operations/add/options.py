"""What an online load is asked to do."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from loader.defaults import state_dir
from loader.errors import UsageProblem
from loader.server.options import Connection
from loader.sources import Source
from loader.sources.ldif_files import LdifFiles
from loader.sources.location import is_stream
from loader.sources.synthetic import Synthetic

ON_EXISTS = ("error", "skip", "replace", "newer")


@dataclass(frozen=True)
class AddOptions:
    """LDIF files (or directories of them), or a `tree`, into a running server.

    `batch`: entries a transaction, 0 finds out, 1 makes none. `max_rate`: entries/s, 0 is without limit.
    `as_replication`: everything is sent as it stands but contextCSN (lending.py).
    """

    connection: Connection
    inputs: tuple[Path, ...]
    jobs: int = 3
    batch: int = 0
    on_exists: str = ON_EXISTS[0]
    max_rejects: int = 0
    rejects: Path | None = None  # LDIF of refused entries; None: in the run directory
    max_rate: int = 0
    nosync: bool = False
    keep_operational: bool = False
    as_replication: bool = False
    run_dir: Path | None = None
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
