"""Commands that `check` prints to mend something, and `plan` to make it: one place for the form of each."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

FEW_SECTORS = 32  # of 512 bytes, 16 KiB: readahead for a database that does not fit into memory


def lvcreate(group: str, name: str, extents: int, stripe_size: int, legs: Sequence[str]) -> str:
    """A stripe on each leg; linear on a single one. `extents`: of all legs together. `stripe_size`: bytes."""
    striped = f"-i {len(legs)} -I {stripe_size // 1024}k " if len(legs) > 1 else ""
    disks = " ".join(map(quote, legs))
    return f"lvcreate {striped}-l {extents} -n {quote(name)} {quote(group)} {disks}"


def read_ahead(group: str, name: str, sectors: int) -> str:
    return f"lvchange -r {sectors} {group}/{name}"


def add_to_fstab(source: str, target: str, kind: str) -> str:
    """printf, for the echo of some shells reads the escapes of fstab(5) as its own."""
    line = " ".join((*map(fstab_word, (source, target, kind)), "defaults 0 2"))
    return f"printf '%s\\n' {quote(line)} >>/etc/fstab"


def fstab_word(word: str) -> str:
    return word.replace("\\", r"\134").replace(" ", r"\040").replace("\t", r"\011")
