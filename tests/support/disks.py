"""Small file systems and devices of fixtures.limits for a test, which is skipped if they cannot be made."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from fixtures import limits
from fixtures.limits import Filesystem, missing_loop_filesystem
from tests.support.require import require


def loop_filesystem(megabytes: int, kind: Filesystem = "ext4") -> AbstractContextManager[Path]:
    require(missing_loop_filesystem(kind))
    return limits.loop_filesystem(megabytes, kind)


def loop_device(image: Path, megabytes: int) -> AbstractContextManager[str]:
    require(missing_loop_filesystem())
    return limits.loop_device(image, megabytes)


@contextmanager
def mounting(device: str, place: Path, *options: str) -> Iterator[Path]:
    """Mounts a device for the body, and then unmounts it wherever it is mounted."""
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", *options, device, place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--all-targets", device], capture_output=True, check=False)


def mounted(place: Path) -> str:
    """Returns the uppermost mount at `place`; empty if there is none."""
    command = ["findmnt", "-n", "-o", "SOURCE", "-M", place]
    sources = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    return sources[-1] if sources else ""
