"""Small file systems and devices for a test, which is skipped if they cannot be made."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fixtures import limits
from fixtures.limits import Filesystem, missing_loop_filesystem
from tests.support.require import require


@contextmanager
def loop_filesystem(megabytes: int, kind: Filesystem = "ext4") -> Iterator[Path]:
    """That of fixtures.limits."""
    require(missing_loop_filesystem(kind))
    with limits.loop_filesystem(megabytes, kind) as disk:
        yield disk


@contextmanager
def loop_device(image: Path, megabytes: int) -> Iterator[str]:
    """That of fixtures.limits."""
    require(missing_loop_filesystem())
    with limits.loop_device(image, megabytes) as device:
        yield device


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
