"""Reads entries of servers, databases, LDIF and synthetic trees."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from loader.ldif import EntryDigests
from loader.progress import Meter

Inputs = Sequence[int | Path]  # files and descriptors of streams, in loading order
Entry = dict[str, frozenset[bytes]]  # attribute description in lower case -> values
Entries = dict[str, Entry]  # dn.key(DN) -> entry


class Source(Protocol):
    """LDIF that a native call reads from beginning to end. `location.LdifFiles` and `dit.Synthetic` implement this."""

    def entries(self) -> int | None:
        """Returns the entry count, or None if it is unknown before reading."""
        ...

    def reading(self, meter: Meter) -> AbstractContextManager[Inputs]:
        """Yields the inputs, which the body reads with `meter`. After the body, raises errors of the source."""
        ...


class Comparable(Protocol):
    """A side of `ditseed compare`, such as `ldap.Server`, `location.ConfiguredDatabase`, `location.LdifFiles`."""

    @property
    def label(self) -> str:
        """Returns the side's name for messages and reports. The name contains no secrets."""
        ...

    def digest(self, ignore: Sequence[str], meter: Meter) -> EntryDigests:
        """Returns the digests of all entries, computed without the attributes in `ignore`."""
        ...

    def find(self, names: Sequence[str]) -> Entries:
        """Returns the entries with these DNs. Omits missing DNs."""
        ...


def names(inputs: Inputs) -> list[Path]:
    """Returns the inputs as paths. A descriptor N becomes /dev/fd/N."""
    return [Path(f"/dev/fd/{source}") if isinstance(source, int) else source for source in inputs]
