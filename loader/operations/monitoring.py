"""What a monitoring plugin says, by the guidelines of the Monitoring Plugins."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """A plugin's exit status."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3
