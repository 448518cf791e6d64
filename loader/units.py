"""Parses and formats sizes, durations, rates and times."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Sequence

from loader.errors import UsageProblem

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_size(text: str) -> int:
    """Returns the bytes in "250G", "64 MiB" or "4096": powers of 1024, as LMDB and LVM count. Raises UsageProblem."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise UsageProblem(reason=f"not a size: {text!r} (write 250G, 64M or bytes)")
    return int(float(match[1]) * 1024 ** _POWERS[match[2].lower()])


def parse_duration(text: str) -> float:
    """Returns the seconds in "90", "1.5h" or "30s". Raises UsageProblem."""
    match = _DURATION.fullmatch(text.strip())
    if not match:
        raise UsageProblem(reason=f"not a duration: {text!r} (write 90, 30s, 15m or 2h)")
    return float(match[1]) * _SECONDS[match[2].lower()]


def size(count: float) -> str:
    """Formats bytes: 1536 -> "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def duration(seconds: float) -> str:
    """Formats seconds: 93784 -> "1 d 2 h"; 3.21 -> "3.2 s"."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def number(count: int) -> str:
    """Formats a count: 30000000 -> "30,000,000"."""
    return f"{count:,}"


def listed(names: Sequence[str], most: int, between: str = ", ", last: str = "") -> str:
    """Returns the first `most` names, and how many more there are. `last`: text before that number ("": `between`)."""
    shown, more = between.join(names[:most]), len(names) - most
    return f"{shown}{last or between}and {more} more" if more > 0 else shown


def brief(count: float) -> str:
    """Formats a count for narrow columns: 123456 -> "123,456"; 30000000 -> "30.0M"."""
    if count < 1_000_000:
        return f"{count:,.0f}"
    return f"{count / 1e6:,.1f}M" if count < 1e9 else f"{count / 1e9:,.2f}G"


def rate(count: float, seconds: float) -> str:
    """Returns entries per second as text, or "-" if nothing was measured."""
    return f"{count / seconds:,.0f}/s" if seconds > 0 and count else "-"


def moment(seconds: float | None = None) -> str:
    """Formats a Unix time (None: now) as ISO 8601 in UTC, to the second."""
    seconds = time.time() if seconds is None else seconds
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat(timespec="seconds")
