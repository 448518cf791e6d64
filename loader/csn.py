"""Change sequence numbers: `20261121070501.123456Z#000000#001#000000` (time, count, server ID, modification).

Compared as text, CSNs order by time. Each server ID has its own sequence (draft-ietf-ldup-model).
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping

_CSN = re.compile(r"\d{14}\.\d{6}Z#[0-9a-f]{6}#([0-9a-f]{3})#[0-9a-f]{6}")


def server_id(csn: str) -> str | None:
    """Returns the server ID of a CSN, three hex digits; None if the text is not a CSN of the modern form."""
    match = _CSN.fullmatch(csn.strip())
    return match[1] if match else None


def by_server(csns: Iterable[str]) -> dict[str, str]:
    """Maps each server ID to the greatest CSN of its server. Ignores texts that are not CSNs."""
    greatest: dict[str, str] = {}
    for text in map(str.strip, csns):
        sid = server_id(text)
        if sid is not None and text > greatest.get(sid, ""):
            greatest[sid] = text
    return greatest


def is_covered_by(csns: Mapping[str, str], by: Mapping[str, str]) -> bool:
    """Returns whether a server with contextCSN `by` has all changes of a server with contextCSN `csns`."""
    return all(by.get(sid, "") >= csn for sid, csn in csns.items())


def just_before(csn: str) -> str:
    """Returns the CSN with a time that is one microsecond earlier."""
    earlier = time(csn) - datetime.timedelta(microseconds=1)
    return f"{earlier:%Y%m%d%H%M%S.%fZ}#{csn.partition('#')[2]}"


def time(csn: str) -> datetime.datetime:
    """Returns the time of a CSN in UTC, without a zone. Raises ValueError if it is not a CSN of the modern form."""
    return datetime.datetime.strptime(csn.partition("#")[0], "%Y%m%d%H%M%S.%fZ")
