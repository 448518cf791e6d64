"""The account under which root lets slapd's tools read an operator's configuration.

Every tool of slapd that reads a configuration opens the file DUMMY in each database directory for writing, and removes
it again, to see whether the directory can be written to (back-mdb/config.c). Whoever owns that directory can make DUMMY
a link to any file, which root would empty. So the tools run as the owner then.
"""

from __future__ import annotations

import base64
import os
import pwd
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from loader import child, slapd_conf, words
from loader.errors import ToolFailed, UsageProblem
from loader.server import tools
from loader.slapd_conf import TextOf
from loader.storage import files, held
from loader.storage.files import Owner

NOBODY = "nobody"
_DIRECTORY = re.compile(rb"^olcDbDirectory:(:?) *(.+)$", re.MULTILINE | re.IGNORECASE)
_FOLDED = re.compile(rb"\r?\n ")


def of_directories(directories: Sequence[Path]) -> Owner | None:
    """The first account that owns one of them, or a directory or link on the way: it decides what stands there when a
    tool looks. None: root may run the tools (or we are not root)."""
    if os.geteuid() != 0:
        return None
    found = (status for path in directories for status in held.on_the_way(path))
    return next((Owner.told(status) for status in found if status.st_uid != 0), None)


def of_directories_or(user: str | None, directories: Sequence[Path]) -> Owner | None:
    """For a slapd that must not run as root: of `user` if one is named, else of the directories, else of nobody. None
    where we are not root. Raises UsageProblem."""
    if os.geteuid() != 0:
        if user is not None:
            raise UsageProblem(reason=f"only root can run slapd as {user}")
        return None
    return named(user) if user is not None else of_directories(directories) or named(NOBODY)


def named(user: str) -> Owner:
    """An account of this host that is not root's. Raises UsageProblem."""
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        raise UsageProblem(reason=f"this host has no account {user}") from None
    if found.pw_uid == 0:
        raise UsageProblem(reason=f"slapd shall not run as {user}, which is root")
    return Owner(found.pw_uid, found.pw_gid)


def of_configuration(path: Path, text_of: TextOf) -> Owner | None:
    """The same, of a slapd.d or slapd.conf that no tool has read yet. Who owns that may name other directories in it by
    the time a tool reads it."""
    if os.geteuid() != 0:
        return None
    named = _in_directory(path) if path.is_dir() else _in_text(path, text_of)
    own = (path, *path.rglob("*.ldif")) if path.is_dir() else (path,)
    return of_directories([*named, *own])


def _in_directory(path: Path) -> Iterator[Path]:
    for file in path.rglob("*.ldif"):
        text = _FOLDED.sub(b"", files.read(file))
        for encoded, value in _DIRECTORY.findall(text):
            try:
                told = os.fsdecode(base64.b64decode(value) if encoded else value).strip()
            except ValueError:
                continue  # slapd's tools refuse such a file with a message of their own
            yield from (Path(one) for one in (told, *words.of_value(told)[:1]))


def _in_text(path: Path, text_of: TextOf) -> Iterator[Path]:
    for one in slapd_conf.statements(path, text_of):
        if one.keyword == "directory" and len(one.words) == 2:
            yield Path(one.words[1])


def may_read(owner: Owner, paths: Sequence[Path]) -> bool:
    """Can that account read all of them?"""
    asked = 'for path do test -r "$path" || exit; done'  # a program `test` in PATH may be anybody's
    words = ("-c", asked, "sh", *map(str, paths))
    try:
        child.output(tools.server_tool_as(owner.uid, owner.gid, "/bin/sh", *words))
    except ToolFailed:
        return False
    return True


def change_owner(owner: Owner | None, place: Path) -> None:
    """A directory of ours and what is in it, from the bottom up: once the account has a directory, it can put links
    there."""
    if owner is not None:
        for descriptor in _each(place):
            owner.give(descriptor)


def let_read(owner: Owner | None, place: Path) -> None:
    """Let the group of an account read a directory of ours and what is in it, which nobody but us can change."""
    if owner is not None:
        for descriptor in _each(place):
            os.fchown(descriptor, -1, owner.gid)
            is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
            os.fchmod(descriptor, 0o750 if is_directory else 0o640)


def _each(place: Path) -> Iterator[int]:
    """Descriptors of a directory and of what is in it, from the bottom up."""
    for path, _, names in os.walk(place, topdown=False):
        with held.opened(Path(path)) as directory:
            for name in names:
                with _opened(directory, name) as descriptor:
                    yield descriptor
            yield directory.descriptor


@contextmanager
def _opened(directory: held.Directory, name: str) -> Iterator[int]:
    descriptor = directory.open(name)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
