"""Commands that `check` prints to mend something, and `plan` to make it: one place for the form of each."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

FEW_SECTORS = 32  # of 512 bytes, 16 KiB: readahead for a database that does not fit into memory


def lvcreate(
    group: str, name: str, extents: int, stripe_size: int, legs: Sequence[str], copies: int = 1
) -> str:
    """A stripe on each leg, or on each pair of legs if `copies` is 2; without stripes if there is only one.

    `extents`: of the volume. `stripe_size`: bytes. Signatures of a file system that had these extents before are wiped;
    without both options lvcreate asks, and a script aborts.
    """
    stripes = len(legs) // copies
    kind = f"--type {'raid10' if stripes > 1 else 'raid1'} -m 1 " if copies > 1 else ""
    striped = f"-i {stripes} -I {stripe_size // 1024}k " if stripes > 1 else ""
    disks = " ".join(map(quote, legs))
    return (
        f"lvcreate -y --wipesignatures y {kind}{striped}-l {extents} -n {quote(name)} {quote(group)} "
        f"{disks}"
    )


def more_disks(group: str, lacking: str, count: int, least: str) -> tuple[str, ...]:
    """What adds disks to a group; the commands after it name them as `to_add` does. `lacking`: why, for the reader."""
    disks = " ".join(to_add(count))
    return (f"# {lacking}: add disks of {least} or more", f"vgextend {group} {disks}")


def to_add(count: int) -> list[str]:
    return [f"/dev/DISK{number}" for number in range(1, count + 1)]


def read_ahead(group: str, name: str, sectors: int) -> str:
    return f"lvchange -r {sectors} {group}/{name}"


def add_to_fstab(source: str, target: str, kind: str, options: str = "defaults 0 2") -> str:
    """printf, for the echo of some shells reads the escapes of fstab(5) as its own."""
    line = " ".join((*map(fstab_word, (source, target, kind)), options))
    return f"printf '%s\\n' {quote(line)} >>/etc/fstab"


def fstab_word(word: str) -> str:
    return word.replace("\\", r"\134").replace(" ", r"\040").replace("\t", r"\011")
