"""Does a slapd run on a configuration? Asked of its pid file and of /proc; locks of its databases are storage's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from loader.config import Config


def slapd_on(config: Config) -> int | None:
    """Process ID of a slapd that was started on this slapd.d or slapd.conf; None when there is none to be seen."""
    named = _of_pid_file(config)
    for pid in _slapds():
        given = _configuration_of(pid)
        if given is not None and _same(given, config.path):
            return pid
        if given is None and pid == named:  # started without -F and -f
            return pid
    return None


def is_slapd(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "slapd"
    except OSError:
        return False


def _slapds() -> Iterator[int]:
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and is_slapd(int(place.name)):
            yield int(place.name)


def _of_pid_file(config: Config) -> int | None:
    name = config.reader("cn=config").word("olcPidFile")
    try:
        return int(Path(name).read_text().strip()) if name else None
    except (OSError, ValueError):
        return None


def _configuration_of(pid: int) -> Path | None:
    """The slapd.d or slapd.conf it was told, as seen from here (it may live in a chroot or container)."""
    try:
        words = (
            Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="surrogateescape").split("\0")
        )
        start = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None
    for option in ("-F", "-f"):  # -F wins where both are given
        for word, following in zip(words, [*words[1:], ""], strict=True):
            value = following if word == option else word[2:] if word.startswith(option) else ""
            if value:
                return Path(f"/proc/{pid}/root{os.path.join(start, value)}")
    return None


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
