"""The map size that a data file names: what tools other than slapd map of it (slapd goes by its own maxsize)."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from loader.mdb import meta

_BEHIND_HEADER = 16  # MDB_meta: magic, version, address, then the map size


def write(path: Path, size: int) -> None:
    """Into both meta pages of a data file that nobody has open. The caller makes it durable."""
    facts = meta.read_meta(path)
    with path.open("r+b") as file:
        for page in (0, 1):
            file.seek(page * facts.page_size + facts.header + _BEHIND_HEADER)
            file.write(struct.pack("=Q", max(size, facts.used)))
        file.flush()
        os.fsync(file.fileno())
