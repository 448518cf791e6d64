"""The database of a backup as a data file, whichever kind of backup it is: pages are unpacked, LDIF is built again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loader.age import Identities
from loader.mdb import meta
from loader.operations.backup import configured, pack
from loader.operations.backup.manifest import Backup
from loader.progress import Progress
from loader.server import configuration, private
from loader.storage import files, temporary

_ENTRIES, _BUILT = "entries.ldif", "built"  # beside the data file


@dataclass(frozen=True)
class Contents:
    """config_path: what LDIF is built for; None: the configuration that is part of the backup."""

    repo: Path
    backup: Backup
    identities: Identities | None = None
    config_path: Path | None = None

    def put(self, target: Path, progress: Progress, step: str = "unpack") -> float:
        """Write the data file `target` into a private directory; seconds. Raises BackupDamaged, BackupEncrypted,
        NoSpace, and of LDIF what a build raises."""
        if not self.backup.is_ldif:
            return self._unpack(target, progress, step)
        entries, built = target.with_name(_ENTRIES), target.with_name(_BUILT)
        try:
            seconds = self._unpack(entries, progress, step)
            return seconds + self._build(entries, built, target, progress)
        finally:
            entries.unlink(missing_ok=True)
            files.remove_tree(built)

    def _unpack(self, target: Path, progress: Progress, step: str) -> float:
        with progress.step(step) as meter:
            pack.unpack(self.repo / self.backup.id, self.backup, target, meter, self.identities)
            return meter.seconds

    def _build(self, entries: Path, built: Path, target: Path, progress: Progress) -> float:
        """Entries are what they were: nothing is refused for the schema's sake, and nothing is added."""
        from loader.operations import build  # it takes long to load, and most backups are of pages

        config = configured.of(self.repo, self.backup, self.config_path, self.identities)
        database = config.database(self.backup.suffix)
        files.remove_tree(built)  # of a try that was killed
        built.mkdir(mode=0o700)
        with (
            temporary.directory("backup", configuration.tools_tmpdir()) as place,
            private.configured(config, database, place) as home,
        ):
            asked = build.BuildOptions(
                inputs=(entries,),
                config_path=home,
                suffix=self.backup.suffix,
                target=built,
                check_schema=False,
                complete_naming=False,
                glue=False,
            )
            made = build.build(asked, progress, {})
        files.publish(built / meta.DATA, target)
        return float(made["seconds"])
