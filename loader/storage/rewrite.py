"""Rewriting a small file that belongs to somebody else: the new whole or the old whole, owner and mode as they were."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from loader.errors import ConfigNotEditable
from loader.storage import files, held
from loader.storage.files import PARTIAL, Owner


def rewrite(path: Path, before: bytes, after: bytes) -> None:
    """Put `after` in the place of `before`. A symbolic link stays one; its target changes.

    Killed at any moment, the file is one of the two. Raises ConfigNotEditable when it is no longer `before`,
    NotPermitted, NoSpace, FileUnsafe (as root: a link that somebody else made).
    """
    with files.explained(path), held.checked_file(path) as pin:
        real = Path(os.readlink(pin))
        with held.opened(real.parent) as place:
            partial = real.name + PARTIAL
            try:
                _write_like(place, real.name, partial, after)
                if _read(place, real.name) != before:
                    raise ConfigNotEditable(
                        path=path,
                        reason="it was changed by somebody else meanwhile",
                        advice="Nothing was changed; run the same command again.",
                        lines=(),
                    )
                place.take(place.path / partial, real.name)
            finally:
                place.remove(partial)


def _read(place: held.Directory, name: str) -> bytes:
    with os.fdopen(place.open(name), "rb") as file:
        return file.read()


def _write_like(place: held.Directory, original: str, partial: str, content: bytes) -> None:
    """All through descriptors: the directory may be the server's user's, and we may be root."""
    place.remove(partial)
    with (
        os.fdopen(place.open(original), "rb") as model,
        os.fdopen(place.create(partial), "wb") as file,
    ):
        file.write(content)
        file.flush()
        status = os.fstat(model.fileno())
        Owner.told(status).give(file.fileno())
        os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
        _copy_labels(model.fileno(), file.fileno())
        os.fsync(file.fileno())


def _copy_labels(original: int, descriptor: int) -> None:
    """ACLs and SELinux's label; without the right to set them the directory's default stays."""
    for name in os.listxattr(original):
        try:
            os.setxattr(descriptor, name, os.getxattr(original, name))
        except OSError:
            continue
