"""Checks whether packages can be made here."""

from __future__ import annotations

import shutil
from importlib.util import find_spec


def missing_packaging() -> str | None:
    """Returns why not, or None. `bin/setup --packaging` installs what is missing."""
    if find_spec("ziglang") is None:
        return "zig is not installed (bin/setup --packaging)"
    for tool in ("dpkg-buildpackage", "dh", "unzip"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed (bin/setup --packaging)"
    return None
