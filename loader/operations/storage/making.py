"""A file system for a planned volume: mkfs, mount and fstab, with the reason of each number, and the limits of each
kind."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

import msgspec

from loader import units
from loader.errors import UsageProblem, VolumeTooSmall
from loader.operations.storage import commands, kinds
from loader.operations.storage.findings import PAGE
from loader.operations.storage.format import XFS_LEAST, XFS_MINIMUM

KINDS = ("xfs", "ext4", "ext3", "ext2")
_LOG_UNIT = 256 * 1024  # bytes: the largest of XFS
_LARGEST = dict.fromkeys(
    ("ext3", "ext2"), ((1 << 32) - 1) * PAGE
)  # bytes: 32 bits number the blocks
# Bytes in blocks of 4096 bytes: of a file.
_LARGEST_FILE = {"xfs": 8 << 60, "ext4": 16 << 40, "ext3": 2 << 40, "ext2": 2 << 40}


class Step(msgspec.Struct, frozen=True):
    """A command of the shell, and the reason of each of its numbers."""

    command: str
    why: tuple[str, ...]


class Stripes(msgspec.Struct, frozen=True):
    """Of a volume, in bytes; a `count` of 1 is none."""

    unit: int
    count: int
    size: int


def require_room(size: int, database: int, kind: str) -> None:
    """Raises VolumeTooSmall."""
    if size - size // 20 < 2 * database:
        raise VolumeTooSmall(
            reason=f"a volume of {units.size(size)}, of which 5 % are counted for the file system itself, does not "
            f"hold a database of {units.size(database)} twice: a build, a restore or a copy is made beside it"
        )
    if kind == "xfs" and size < XFS_MINIMUM:
        raise VolumeTooSmall(
            reason=f"xfs needs {units.size(XFS_MINIMUM)}, the volume has {units.size(size)}"
        )
    if size > (most := _LARGEST.get(kind, size)):
        raise UsageProblem(
            reason=f"--fs: {kind} takes at most {units.size(most)} with blocks of {PAGE} bytes, and the volume has "
            f"{units.size(size)}; take ext4 or xfs, or a --volume-size of less than that"
        )
    if database > _LARGEST_FILE[kind]:
        raise VolumeTooSmall(
            reason=f"a file of {kind} can have {units.size(_LARGEST_FILE[kind])}, and data.mdb is one file"
        )


def steps(kind: str, device: str, mount: str, stripes: Stripes) -> Iterator[Step]:
    yield _xfs(device, stripes) if kind == "xfs" else _ext(kind, device, stripes)
    yield Step(
        f"mkdir -p {quote(mount)}", ("The mount point; not the directory of a database in use.",)
    )
    yield Step(
        f"mount -t {kind} {device} {quote(mount)}",
        (
            "No options: barriers are on by default and must stay on (xfs with nobarrier does not mount "
            "since Linux 4.19), and a weekly fstrim does what discard would do at every write.",
        ),
    )
    yield Step(
        commands.add_to_fstab(device, mount, kind),
        ("The same at the next boot; without the line slapd would find an empty directory.",),
    )


def notes(kind: str) -> Iterator[str]:
    if kind == "ext3":
        yield "ext3 is a legacy format, which the driver of ext4 serves; ext4 has extents, and files above 2 TiB."
    elif kind in kinds.KNOWN:
        _, what, why, _ = kinds.KNOWN[kind]
        yield f"{kind}: {what}. {why}"


def _xfs(device: str, stripes: Stripes) -> Step:
    options, why = [f"-b size={PAGE}"], [_block()]
    if stripes.count > 1 and stripes.size >= XFS_LEAST:
        log = min(stripes.unit, _LOG_UNIT)
        options += [f"-d su={stripes.unit // 1024}k,sw={stripes.count}", f"-l su={log // 1024}k"]
        why += [
            "su and sw: the stripe size and the number of stripes, so that files begin where a stripe does.",
            f"-l su: writes of the log in whole stripes; at most {units.size(_LOG_UNIT)}. Its size is left to "
            "mkfs.xfs: a database is one file and changes few metadata.",
        ]
    elif stripes.count > 1:
        why.append("mkfs.xfs takes no stripes below 1 GiB.")
    why.append(
        "agcount is left to mkfs.xfs: more allocation groups serve many files that are written at once; LMDB has one "
        "file and one writer."
    )
    return Step(f"mkfs.xfs {' '.join(options)} {device}", tuple(why))


def _ext(kind: str, device: str, stripes: Stripes) -> Step:
    options = [f"-b {PAGE}", "-m 0"]
    why = [_block(), "-m 0: no 5 % kept back for root, as which slapd does not run."]
    if stripes.count > 1:
        stride = stripes.unit // PAGE
        options.append(f"-E stride={stride},stripe_width={stride * stripes.count}")
        why.append(
            f"stride: {units.size(stripes.unit)} in blocks; stripe_width: {stride} x {stripes.count} stripes."
        )
    if kind != "ext2":
        why.append(
            "The size of the journal is left to mke2fs: a database is one file and changes few metadata."
        )
    return Step(f"mkfs.{kind} {' '.join(options)} {device}", tuple(why))


def _block() -> str:
    return f"Blocks of {PAGE} bytes are pages of LMDB: each page is one block."
