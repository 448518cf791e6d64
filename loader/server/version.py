"""Which OpenLDAP is installed, as far as files depend on it."""

from __future__ import annotations

import re

from loader.child import Child
from loader.errors import ToolMissing
from loader.server.tools import server_tool

Release = tuple[int, int, int]


def release() -> Release | None:
    """Of the installed slapd: (2, 5, 13); None where there is none, or it does not say."""
    try:
        with Child(server_tool("slapd", "-VV")) as child:
            child.wait()
    except ToolMissing:
        return None
    found = re.search(r"slapd (\d+)\.(\d+)(?:\.(\d+))?", " ".join(child.words))
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def lmdb_format() -> int | None:
    """Data format of the installed slapd's LMDB: 1 up to OpenLDAP 2.6, 3 from 2.7 on; None where it does not say."""
    found = release()
    if found is None:
        return None
    return 1 if found < (2, 7, 0) else 3
