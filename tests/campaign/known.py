"""Faults of the campaigns that are known and not mended yet. One that has gone has to go from here too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from fixtures.campaign.verdict import SKIPPED, Verdict

# Pattern for the name of a verdict -> why.
NAMED: Mapping[str, str] = {}


def unexpected(found: Iterable[Verdict], known: Mapping[str, str]) -> list[str]:
    """Faults that nobody knows, and known ones that are no more."""
    faults = [one for one in found if not one.sound and one.outcome != SKIPPED]
    new = [str(one) for one in faults if not any(re.search(word, one.name) for word in known)]
    gone = [word for word in known if not any(re.search(word, one.name) for one in faults)]
    return [*new, *(f"mended: {word}" for word in gone)]
