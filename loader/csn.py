"""Change sequence numbers: `20261121070501.123456Z#000000#001#000000` (time, count, server ID, modification).

As text they order by time; there is one line of them for each server ID (draft-ietf-ldup-model).
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping

_CSN = re.compile(r"\d{14}\.\d{6}Z#[0-9a-f]{6}#([0-9a-f]{3})#[0-9a-f]{6}")


def server_id(csn: str) -> str | None:
    """Its server ID, three hex digits; None when the text is no CSN of the modern form."""
    match = _CSN.fullmatch(csn.strip())
    return match[1] if match else None


def by_server(csns: Iterable[str]) -> dict[str, str]:
    """The greatest CSN of each server ID."""
    found: dict[str, str] = {}
    for text in map(str.strip, csns):
        sid = server_id(text)
        if sid is not None and text > found.get(sid, ""):
            found[sid] = text
    return found


def is_covered_by(csns: Mapping[str, str], by: Mapping[str, str]) -> bool:
    """Has a server at `by` seen everything that a server at `csns` has?"""
    return all(by.get(sid, "") >= csn for sid, csn in csns.items())


def just_before(csn: str) -> str:
    """The greatest CSN of the same server that is less by its time: one microsecond earlier."""
    earlier = time(csn) - datetime.timedelta(microseconds=1)
    return f"{earlier:%Y%m%d%H%M%S.%fZ}#{csn.partition('#')[2]}"


def time(csn: str) -> datetime.datetime:
    """When it was given, in UTC, without a zone. ValueError for what is no CSN of the modern form."""
    return datetime.datetime.strptime(csn.partition("#")[0], "%Y%m%d%H%M%S.%fZ")
