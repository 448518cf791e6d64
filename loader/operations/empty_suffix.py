"""The root entry of a database whose suffix is the empty DN (`suffix ""`, as Zimbra has it).

Its contextCSN stands there, in an entry with ID 0 that no search shows: a search with the base "" is answered with the
root DSE, and one of the whole tree begins below. slapd makes the entry when it stores its first contextCSN, as a glue
entry (syncrepl.c, `syncrepl_add_glue`), and so must a seed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from loader import dn
from loader.sources import records

GLUE = b"dn:\nobjectClass: glue\nstructuralObjectClass: glue\n\n"
FILE = "root.ldif"


def is_empty(suffix: str) -> bool:
    return dn.key(suffix) == ""


def write(path: Path) -> Path:
    """The entry as an LDIF file, which is of no age: it changes no build."""
    path.write_bytes(GLUE)
    os.utime(path, (0, 0))
    return path


def begins_with_root(path: Path) -> bool:
    """Is the first entry of an LDIF file the one of the empty DN, as slapcat writes it?"""
    return [name for name, _ in records.entries(path, most=1)] == [""]


def completed(sources: Sequence[Path], first: Path, scratch: Path) -> tuple[Path, ...]:
    """`sources` with the root entry before them where they lack it. `first`: the file that is read first."""
    if begins_with_root(first):
        return tuple(sources)
    return (write(scratch / FILE), *sources)
