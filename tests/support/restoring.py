"""Takes a backup of a server with an accesslog, and restores it to a moment."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import ldap

from fixtures.history import LOGOLD, History, Moment
from fixtures.partial import LOG
from fixtures.waiting import until as wait_until
from loader.errors import UsageProblem
from tests.support.backups import take
from tests.support.command import Done, ditseed

PURGING = f"logops writes\nlogsuccess FALSE\nlogpurge 00:00:01 00:00:01\n{LOGOLD}"  # lines of overlay accesslog

Log = Path | Literal["source"] | None  # None: that of the repository
Record = bytes  # of LDIF, without the empty line after it


@dataclass(frozen=True)
class Stage:
    """`source` is running; `target`, configured alike, is stopped and gets what is restored. `repo`: path or URL."""

    source: History
    target: History
    repo: Any
    environment: Mapping[str, str] = field(default_factory=dict)

    def take(self) -> str:
        """Returns the ID of a backup of the tree alone, in a repository of this host."""
        return take(self.source.server, self.repo, suffix=self.source.server.suffix).id

    def wait_for_purge(self, moment: Moment) -> None:
        """Waits until slapd has purged the log entry of this moment (see PURGING)."""

        def is_purged() -> bool:
            suffix = self.source.server.search(attributes=("minCSN",), base=LOG, scope=ldap.SCOPE_BASE)[0][1]
            return max(suffix.get("minCSN", [b""])).decode() >= moment.csn

        wait_until(is_purged)

    def restore(self, backup: str, until: str, *words: object, log: Log = "source") -> Done:
        server = self.target.server
        where = ("-R", self.repo, "--config", server.config_path, "-b", server.suffix, "--replace", "--until", until)
        chosen = () if log is None else ("--log", self.source.log if log == "source" else log)
        done = ditseed("backup", "restore", backup, *where, *chosen, *words, env=self.environment)
        for old in server.database_dir.glob("data.mdb.replaced-*"):
            old.unlink()
        return done

    def restored(
        self, backup: str, moment: Moment, until: str | None = None, *words: object, log: Log = "source"
    ) -> Done:
        """Asserts that the tree is as it was at the moment."""
        done = self.restore(backup, until or moment.csn, *words, log=log).ok()
        faults = moment.faults(self.target)
        assert not faults, faults
        return done

    def refused(self, backup: str, until: str, *patterns: str, log: Log = "source") -> str:
        """Asserts that a restore is refused in words that match each pattern. Returns its output to stderr."""
        done = self.restore(backup, until, log=log)
        said = f"exit status {done.status}:\n{done.out}\n{done.err}"
        assert done.status not in (0, 2), said
        assert f"[{UsageProblem.code}]" not in done.err, said
        assert "Traceback" not in done.err, said
        for pattern in patterns:
            assert re.search(pattern, " ".join(done.err.split()), re.IGNORECASE), f"not {pattern!r} in {said}"
        return done.err


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
