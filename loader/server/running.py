"""Does a slapd run on a configuration, and which files has it open? Asked of its pid file and of /proc; locks of its
databases are storage's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from loader.config import Config
from loader.errors import FileUnsafe
from loader.storage import files, held

_LONGEST_PID = 32  # bytes of a pid file that are read


def slapd_on(config: Config) -> int | None:
    """Process ID of a slapd that was started on this slapd.d or slapd.conf; None when there is none to be seen."""
    named = _of_pid_file(config)
    for pid in _slapds():
        given = _configuration_of(pid)
        if files.same(given, config.path):
            return pid
        if given is None and pid == named:  # started without -F and -f
            return pid
    return None


def unreadable() -> int | None:
    """Process ID of a slapd whose configuration this account may not see; None when there is none."""
    return next((pid for pid in _slapds() if not _is_readable(pid)), None)


def left_pid_file(config: Config) -> Path | None:
    """The pid file of a slapd that ended without removing it, as a slapd that is stopped does; None where there is
    none."""
    pid = _of_pid_file(config)
    if pid is None or is_slapd(pid):
        return None
    return Path(config.reader("cn=config").word("olcPidFile") or "")


def is_elsewhere(pid: int) -> bool:
    """Is it in another network namespace (a container), where its URIs are not ours?"""
    try:
        return os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
    except OSError:
        return False


def account_of(pid: int) -> int | None:
    """The user ID that a process has now."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = re.search(r"^Uid:\s+\d+\s+(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else None


def is_slapd(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "slapd"
    except OSError:
        return False


def flushed(pid: int, name: str) -> bool:
    """Put all that the process wrote to its open files of that path on the disk. False where none can be reached.

    They are reached through the process, for in a container the path is that of another file. A path that only ends so
    (as seen from a chroot) is taken too: to flush more does no harm.
    """
    found = list(_opened_again(pid, name))
    for descriptor in found:
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return bool(found)


def _opened_again(pid: int, name: str) -> Iterator[int]:
    with suppress(OSError):  # of another account, or over
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                if os.readlink(path).endswith(name):
                    yield held.reading(path)


def _is_readable(pid: int) -> bool:
    try:
        os.readlink(f"/proc/{pid}/cwd")
    except PermissionError:
        return False
    except OSError:
        pass  # it has ended
    return True


def _slapds() -> Iterator[int]:
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and is_slapd(int(place.name)):
            yield int(place.name)


def _of_pid_file(config: Config) -> int | None:
    name = config.reader("cn=config").word("olcPidFile")
    try:
        if name is None:
            return None
        with files.reading(Path(name)) as file:
            return int(file.read(_LONGEST_PID))
    except (OSError, ValueError, FileUnsafe):
        return None


def ldapi_uri(pid: int) -> str:
    """Where it listens for processes of this host."""
    return next((uri for uri in uris(pid) if uri.startswith("ldapi://")), "ldapi:///")


def uris(pid: int) -> tuple[str, ...]:
    """Where it listens: its option -h, or slapd's default."""
    return tuple(next(_given(pid, "-h"), "ldap:///").split())


def _configuration_of(pid: int) -> Path | None:
    """The slapd.d or slapd.conf it was told, as seen from here (it may live in a chroot or container)."""
    try:
        start = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None
    for option in ("-F", "-f"):  # -F wins where both are given
        for value in _given(pid, option):
            return Path(f"/proc/{pid}/root{os.path.join(start, value)}")
    return None


def _given(pid: int, option: str) -> Iterator[str]:
    """Values of an option of its command line."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="surrogateescape")
    except OSError:
        return
    words = line.split("\0")
    for word, following in zip(words, [*words[1:], ""], strict=True):
        value = following if word == option else word[2:] if word.startswith(option) else ""
        if value:
            yield value
