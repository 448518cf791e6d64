"""Files without a name: gone when they are closed, or with the process."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from loader.storage import held

_NO_SUCH_FLAG = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}


def made(directory: Path) -> int:
    """One on the file system of `directory`, open for reading and writing, mode 0600.

    Where the file system makes none (OCFS2, NFS), one in a directory of ours, whose name is removed at once.
    Raises DirectoryUnsafe, OSError.
    """
    with held.opened(directory) as place:
        try:
            flags = os.O_TMPFILE | os.O_RDWR | os.O_EXCL | os.O_CLOEXEC
            return os.open(place.path, flags, mode=0o600)
        except OSError as error:
            if error.errno not in _NO_SUCH_FLAG:
                raise
    with held.scratch(directory, ".ditseed-watch-") as own:
        descriptor = own.create("probe")
        own.remove("probe")
        return descriptor


def filled(descriptor: int, size: int, piece: int = 1 << 20) -> None:
    """With blocks of its own on the device: what compresses might take no room. Raises OSError."""
    for place in range(0, size, piece):
        os.pwrite(descriptor, os.urandom(min(piece, size - place)), place)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
