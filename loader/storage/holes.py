"""Writing files with holes where there is nothing but zeros, so that a restored file takes no more than it must."""

from __future__ import annotations

import os
from typing import BinaryIO

BLOCK = 4096
_ZEROS = bytes(BLOCK)


def write(file: BinaryIO, piece: bytes) -> None:
    """Write at the file's place, whole blocks of zeros left out. Call `finish` after the last piece."""
    if _ZEROS not in piece:
        file.write(piece)
        return
    for start in range(0, len(piece), BLOCK):
        block = piece[start : start + BLOCK]
        if block == _ZEROS:
            file.seek(BLOCK, os.SEEK_CUR)
        else:
            file.write(block)


def finish(file: BinaryIO) -> None:
    """Give the file its length when it ends with a hole."""
    file.flush()
    os.ftruncate(file.fileno(), file.tell())
