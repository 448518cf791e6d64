"""What encrypted backups hold, for those who have an identity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loader import age
from loader.age import Identities
from loader.errors import BackupDamaged, BackupEncrypted
from loader.operations.backup import manifest
from loader.operations.backup.manifest import Backup


def unlocked(repo: Path, backup: Backup, paths: Sequence[Path]) -> Identities | None:
    """What decrypts the backup; None for one that is not encrypted. Raises BackupEncrypted, UsageProblem, NoSuchPath,
    NotPermitted, PackageMissing."""
    if not backup.is_encrypted:
        return None
    if not paths:
        raise BackupEncrypted(path=repo / backup.id, reason="no identity is given")
    return age.identities(paths)


def decrypted(stored: bytes, identities: Identities | None, path: Path, what: str = "it") -> bytes:
    """Of what was compared with its checksum. Raises BackupDamaged, BackupEncrypted."""
    if identities is None:
        raise BackupEncrypted(path=path, reason="no identity is given")
    try:
        return identities.decrypt(stored)
    except age.NotARecipient:
        reason = "none of the identities that are given is one of its recipients"
        raise BackupEncrypted(path=path, reason=reason) from None
    except age.Broken:
        raise BackupDamaged(path=path, reason=f"{what} cannot be decrypted") from None


def config(directory: Path, backup: Backup, identities: Identities | None) -> bytes:
    """cn=config as LDIF. Raises BackupDamaged, BackupEncrypted, NoSuchPath."""
    stored = manifest.config(directory, backup)
    if not backup.is_encrypted:
        return stored
    return decrypted(stored, identities, directory / backup.config_file)
