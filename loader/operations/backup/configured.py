"""The configuration that a backup is tried with: its own, or another that is named."""

from __future__ import annotations

from pathlib import Path

from loader import config
from loader.age import Identities
from loader.config import Config
from loader.errors import UsageProblem
from loader.operations.backup import encryption
from loader.operations.backup.manifest import Backup
from loader.server import configuration


def of(
    repo: Path, backup: Backup, config_path: Path | None, identities: Identities | None
) -> Config:
    """Raises ConfigUnreadable, BackupDamaged, BackupEncrypted, UsageProblem where there is none."""
    if config_path is not None:
        return configuration.read(config_path)
    if not backup.with_config:
        reason = f"backup {backup.id} holds no configuration: give --config, the one to try it with"
        raise UsageProblem(reason=reason)
    place = repo / backup.id
    path = place / backup.config_file
    content = encryption.config(place, backup, identities)
    return config.parse(path, configuration.entries_of(content, path))
