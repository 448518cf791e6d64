"""Where entries come from."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from loader.progress import Meter

Inputs = Sequence[int | Path]  # files in loading order, or descriptors of streams


class Source(Protocol):
    """LDIF that a native call reads from its beginning to its end: `ldif_files.LdifFiles`, `synthetic.Synthetic`."""

    def entries(self) -> int | None:
        """How many there are; None if only reading tells."""
        ...

    def reading(self, meter: Meter) -> AbstractContextManager[Inputs]:
        """What to read in the body, counting into `meter`. Raises after the body what was wrong with what was read."""
        ...


def names(inputs: Inputs) -> list[Path]:
    """The same as paths."""
    return [Path(f"/dev/fd/{one}") if isinstance(one, int) else one for one in inputs]
