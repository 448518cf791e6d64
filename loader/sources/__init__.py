"""Where entries come from."""

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
    """LDIF that a native call reads from its beginning to its end: `location.LdifFiles`, `dit.Synthetic`."""

    def entries(self) -> int | None:
        """How many there are; None if only reading tells."""
        ...

    def reading(self, meter: Meter) -> AbstractContextManager[Inputs]:
        """What to read in the body, counting into `meter`. Raises after the body what was wrong with what was read."""
        ...


class Comparable(Protocol):
    """A side of `ditseed compare`: `ldap.Server`, `location.ConfiguredDatabase`, `location.LdifFiles`."""

    @property
    def label(self) -> str:
        """For people and reports; no secrets."""
        ...

    def digest(self, ignore: Sequence[str], meter: Meter) -> EntryDigests:
        """Reads all of it."""
        ...

    def find(self, names: Sequence[str]) -> Entries:
        """The entries of these DNs, as far as they are there."""
        ...


def names(inputs: Inputs) -> list[Path]:
    """The same as paths."""
    return [Path(f"/dev/fd/{one}") if isinstance(one, int) else one for one in inputs]
