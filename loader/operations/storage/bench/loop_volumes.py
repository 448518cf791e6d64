"""File systems that are made for a bench, each on a loop device over a file of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from loader import child
from loader.errors import ToolFailed, UsageProblem
from loader.operations.storage.bench import places
from loader.operations.storage.bench.places import Place
from loader.progress import Progress
from loader.storage import files, private_mounts, temporary

# Of mkfs.KIND: to say little, and to ask nothing.
OPTIONS = {
    **dict.fromkeys(("ext2", "ext3", "ext4"), ("-q", "-F")),
    **dict.fromkeys(("xfs", "btrfs", "f2fs", "nilfs2"), ("-q", "-f")),
    "jfs": ("-q",),
    "reiserfs": ("-q", "-f", "-f"),
}
KIND = "bench"  # of the temporary directories
KINDS = tuple(OPTIONS)


def require(kinds: Sequence[str]) -> None:
    """Raises UsageProblem for one that is unknown, given twice, or cannot be made here."""
    for kind in kinds:
        if kind not in OPTIONS:
            raise UsageProblem(reason=f"--fs {kind}: there are {', '.join(KINDS)}")
        if shutil.which(f"mkfs.{kind}") is None:
            raise UsageProblem(reason=f"--fs {kind}: mkfs.{kind} is not installed")
    if len(set(kinds)) < len(kinds):
        raise UsageProblem(reason="--fs: a file system is given twice")


@contextmanager
def made(
    kinds: Sequence[str], size: int, work: Path, progress: Progress
) -> Iterator[tuple[Place, ...]]:
    """Mounted in `work`, for this process and its children alone; gone at the end. Raises UsageProblem."""
    sweep()
    with ExitStack() as stack:
        found = []
        for kind in kinds:
            with progress.step(f"make {kind}"):
                found.append(stack.enter_context(_one(kind, size, work)))
        yield tuple(found)


@contextmanager
def _one(kind: str, size: int, work: Path) -> Iterator[Place]:
    image, target = work / f"{kind}.img", work / kind
    with files.explained(image), files.creating(image, 0o600) as file:
        os.ftruncate(file.fileno(), size)
    target.mkdir(mode=0o700)
    with ExitStack() as stack:
        try:
            child.output([f"mkfs.{kind}", *OPTIONS[kind], str(image)])
            detach = partial(_detach, os.path.realpath(image))
            stack.callback(
                detach
            )  # once more: a signal may have come while it was being detached below
            device, name = _attached(image)
            stack.enter_context(private_mounts.mounted(target, "-t", kind, device))
            detach()  # while it is mounted, the kernel only notes that: it goes with the mount, even if we are killed
        except ToolFailed as error:
            raise UsageProblem(reason=f"--fs {kind}: {error}") from error
        yield places.made(f"{kind}, {name}", kind, target)


def _attached(image: Path) -> tuple[str, str]:
    """The loop device, and what it is: past the page cache, where the file system of `image` has that."""
    command = ("losetup", "--find", "--show")
    answer = child.ask([*command, "--direct-io=on", str(image)])
    if answer.status == 0:
        return answer.out.decode().strip(), "loop device"
    return child.output([*command, str(image)]).decode().strip(), "cached loop device"


def sweep() -> None:
    """Detach devices of runs that were killed before they had mounted them. Their files are gone by now."""
    _detach(" (deleted)")


def _detach(end: str) -> None:
    """Devices over files of a bench whose path ends like that, as the kernel tells it."""
    for told in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            file = told.read_text().strip()
            if f"/{temporary.PREFIX}{KIND}-" in file and file.endswith(end):
                child.ask(["losetup", "--detach", f"/dev/{told.parts[3]}"])
