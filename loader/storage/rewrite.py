"""Rewriting a small file that belongs to somebody else: the new whole or the old whole, owner and mode as they were."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from loader.errors import ConfigNotEditable
from loader.storage import files
from loader.storage.files import PARTIAL


def rewrite(path: Path, before: bytes, after: bytes) -> None:
    """Put `after` in the place of `before`. A symbolic link stays one; its target changes.

    Killed at any moment, the file is one of the two. Raises ConfigNotEditable when it is no longer `before`,
    NotPermitted, NoSpace.
    """
    real = path.resolve()
    partial = real.with_name(real.name + PARTIAL)
    with files.explained(real):
        try:
            _write_like(real, partial, after)
            if real.read_bytes() != before:
                raise ConfigNotEditable(
                    path=path,
                    reason="it was changed by somebody else meanwhile",
                    advice="Nothing was changed; run the same command again.",
                )
            files.publish(partial, real)
        finally:
            partial.unlink(missing_ok=True)


def _write_like(original: Path, partial: Path, content: bytes) -> None:
    """All through the descriptor: the directory may be the server's user's, and we may be root."""
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        status = original.stat()
        if os.geteuid() == 0:
            os.fchown(descriptor, status.st_uid, status.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
        _copy_labels(original, descriptor)


def _copy_labels(original: Path, descriptor: int) -> None:
    """ACLs and SELinux's label; without the right to set them the directory's default stays."""
    for name in os.listxattr(original):
        try:
            os.setxattr(descriptor, name, os.getxattr(original, name))
        except OSError:
            continue
