"""Checks whether packages can be made here, and reads what setup.cfg says of them."""

from __future__ import annotations

import shutil
from configparser import ConfigParser
from importlib.util import find_spec
from pathlib import Path


def missing_packaging() -> str | None:
    """Returns why not, or None. `bin/setup --packaging` installs what is missing."""
    if find_spec("ziglang") is None:
        return "zig is not installed (bin/setup --packaging)"
    for tool in ("dpkg-buildpackage", "dh", "unzip"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed (bin/setup --packaging)"
    return None


def setup_cfg() -> ConfigParser:
    settings = ConfigParser()
    settings.read(Path(__file__).parents[2] / "setup.cfg")
    return settings
