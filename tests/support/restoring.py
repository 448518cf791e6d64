"""Takes a backup of a server with an accesslog, and restores it to a moment."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fixtures.history import History, Moment
from fixtures.partial import LOG
from loader.errors import UsageProblem
from tests.support.backups import take
from tests.support.command import Done, ditseed


@dataclass(frozen=True)
class Stage:
    """`source` is running; `target`, configured alike, is stopped and gets what is restored."""

    source: History
    target: History
    repo: Path

    def take(self) -> str:
        """Returns the ID of a backup of the tree alone."""
        return take(self.source.server, self.repo, suffix=self.source.server.suffix).id

    def restore(self, backup: str, until: str, *words: object, log: Path | None = None) -> Done:
        """Restores with `log`, by default that of the source."""
        server = self.target.server
        where = ("-R", self.repo, "--config", server.config_path, "-b", server.suffix, "--replace")
        chosen = ("--until", until, "--log", log or self.source.log)
        done = ditseed("backup", "restore", backup, *where, *chosen, *words)
        for old in server.database_dir.glob("data.mdb.replaced-*"):
            old.unlink()
        return done

    def restored(
        self, backup: str, moment: Moment, until: str | None = None, *words: str, log: Path | None = None
    ) -> Done:
        """Asserts that the tree is as it was at the moment."""
        done = self.restore(backup, until or moment.csn, *words, log=log).ok()
        faults = moment.faults(self.target)
        assert not faults, faults
        return done

    def refused(self, backup: str, until: str, *patterns: str, log: Path | None = None) -> str:
        """Asserts that a restore is refused in words that match each pattern. Returns its output to stderr."""
        done = self.restore(backup, until, log=log)
        said = f"exit status {done.status}:\n{done.out}\n{done.err}"
        assert done.status != 0, said
        assert f"[{UsageProblem.code}]" not in done.err, said
        assert "Traceback" not in done.err, said
        for pattern in patterns:
            assert re.search(pattern, " ".join(done.err.split()), re.IGNORECASE), f"not {pattern!r} in {said}"
        return done.err


Record = bytes  # of LDIF, without the empty line after it


def edited(source: History, editor: History, change: Callable[[list[Record]], list[Record]]) -> Path:
    """Returns the directory of a log that slapadd made of the source's records, as `change` returns them; the first is
    the suffix. `editor`: a stopped server, whose log is replaced."""
    records = source.slapcat(LOG).strip().split(b"\n\n")
    for name in ("data.mdb", "lock.mdb"):
        with suppress(FileNotFoundError):
            (editor.log / name).unlink()
    where = (*editor.server.config_arguments, "-b", LOG)
    editor.server.tool("slapadd", "-q", *where, stdin=b"\n\n".join(change(records)) + b"\n")
    return editor.log


def copied(log: Path, to: Path) -> Path:
    """Copies the data file of a log nobody writes to at the moment."""
    to.mkdir()
    shutil.copy(log / "data.mdb", to)
    return to
