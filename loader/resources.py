"""The memory and processors that this process may use: those of the host, within the limits of its control groups."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
CONNECTIONS = 4
_OWN = Path("/proc/self/cgroup")

# cgroups(7): version 2 has one hierarchy, version 1 one for each controller.
_MEMORY = {"": "memory.max", "memory": "memory.limit_in_bytes"}


def memory() -> int:
    """Returns the bytes of RAM, at most the limit of the control groups."""
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([host, *(int(text) for text in _limits(_MEMORY) if text.isdigit())])


def sorting_memory() -> int:
    """Returns the default memory of a job for sorting, in bytes: a quarter of the memory."""
    return memory() // 4


def processors() -> int:
    """Returns the processors this process may use, limited by its affinity and the quotas of its control groups."""
    quotas = [_shares(text) for text in _limits({"": "cpu.max"})]
    old = zip(_limits({"cpu": "cpu.cfs_quota_us"}), _limits({"cpu": "cpu.cfs_period_us"}), strict=False)
    quotas += [_shares(f"{quota} {period}") for quota, period in old]
    own = len(os.sched_getaffinity(0))
    return max(1, min([own, *(quota for quota in quotas if quota)]))


def connections() -> int:
    """Returns the default number of connections to a server. Each occupies a processor that other clients need, too."""
    return min(CONNECTIONS, processors())


def _shares(text: str) -> int:
    """Returns the whole processors in a quota like "200000 100000" (microseconds per period); 0: no limit."""
    words = text.split()
    if len(words) != 2 or not all(word.isdigit() for word in words) or not int(words[1]):
        return 0
    return max(1, int(words[0]) // int(words[1]))


def _limits(files: dict[str, str]) -> Iterator[str]:
    """Yields the contents of `files` (controller -> file name) in our control groups and in those above them."""
    for controllers, path in _groups():
        for controller in controllers.split(","):
            if controller in files:
                top = CGROUPS / controller
                group = top / path.lstrip("/")
                for place in (group, *group.parents):
                    if place == top or top in place.parents:
                        yield from _content(place / files[controller])


def _groups() -> list[tuple[str, str]]:
    """Returns the controllers and the path of each control group of this process."""
    return [group for text in _content(_OWN) for group in re.findall(r"^\d+:([^:\n]*):(/.*)$", text, re.MULTILINE)]


def _content(path: Path) -> Iterator[str]:
    try:
        yield path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return
