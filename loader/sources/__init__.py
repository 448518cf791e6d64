"""Sources of entries."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from loader.ldif import EntryDigests
from loader.progress import Meter

Inputs = Sequence[int | Path]  # files in loading order, or descriptors of streams
Entry = dict[str, frozenset[bytes]]  # attribute description in lower case -> values
Entries = dict[str, Entry]  # dn.key(DN) -> entry


class Source(Protocol):
    """LDIF that a native call reads from beginning to end: `location.LdifFiles`, `dit.Synthetic`."""

    def entries(self) -> int | None:
        """Returns the entry count; None if it is unknown before reading."""
        ...

    def reading(self, meter: Meter) -> AbstractContextManager[Inputs]:
        """Yields the inputs, which the body reads with `meter`. Raises errors of the inputs after the body."""
        ...


class Comparable(Protocol):
    """A side of `ditseed compare`: `ldap.Server`, `location.ConfiguredDatabase`, `location.LdifFiles`."""

    @property
    def label(self) -> str:
        """Returns the side's name for messages and reports; it contains no secrets."""
        ...

    def digest(self, ignore: Sequence[str], meter: Meter) -> EntryDigests:
        """Returns the digests of all entries; the attributes in `ignore` are left out."""
        ...

    def find(self, names: Sequence[str]) -> Entries:
        """Returns the entries with these DNs; missing DNs are omitted."""
        ...


def names(inputs: Inputs) -> list[Path]:
    """Returns the inputs as paths; a descriptor becomes /dev/fd/N."""
    return [Path(f"/dev/fd/{source}") if isinstance(source, int) else source for source in inputs]
