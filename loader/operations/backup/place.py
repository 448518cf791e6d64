"""Where a repository is: a directory of this host. That of another host is a Mirror (mirror.py)."""

from __future__ import annotations

from pathlib import Path

from loader.operations.backup import prune, run
from loader.operations.backup.manifest import Backup
from loader.operations.backup.prune import Policy, Pruned
from loader.operations.backup.repository import Bring, there
from loader.operations.backup.run import BackupOptions
from loader.progress import Progress


class Place:
    """path: the directory that the verbs work on. lists: as for `repository.problem` of every backup."""

    lists: Bring | None

    def __init__(self, path: Path) -> None:
        self.path, self.lists = path, there

    def bring(self, backup: Backup) -> None:
        """Have all that the backup consists of in the directory."""

    def bring_lists(self, backup: Backup) -> None:
        """The same of what only tells of it."""

    def keep(self, name: str, record: str) -> None:
        """What was found out about a backup, a file beside its manifest, is stored with it."""

    def run(self, options: BackupOptions, progress: Progress) -> Backup:
        return run.run(options, progress)

    def prune(self, policy: Policy, suffix: str | None, dry_run: bool) -> Pruned:
        return prune.prune(self.path, policy, suffix, dry_run)
