"""slapd on this host: its own tools (slapadd, slapcat, slaptest ...), the account under which root runs them, the
release that is installed, and the processes that run.

DITSEED_TOOLS names a command to run them through, where slapd lives elsewhere ("chroot /srv/ldap"). What runs there
knows directories by their names alone, not through descriptors of this process.
"""

from __future__ import annotations

import base64
import functools
import os
import pwd
import re
import shlex
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from loader import child, plain, slapd_conf, values
from loader.child import Child
from loader.config import Config
from loader.defaults import ENV_TOOLS
from loader.errors import FileUnsafe, ToolFailed, ToolMissing, ToolUnreachable, UsageProblem
from loader.slapd_conf import TextOf
from loader.storage import files, held
from loader.storage.files import Owner

# The slap* tools are administrators' programs; the path of an ordinary user or of cron often lacks sbin.
_ALSO = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/libexec:/usr/libexec/openldap:/opt/symas/sbin"


def server_tool(name: str, *arguments: str) -> list[str]:
    """The command line of a slap* tool."""
    prefix = shlex.split(os.environ.get(ENV_TOOLS, ""))
    if prefix:
        return [*prefix, name, *map(plain.with_operator_paths, arguments)]
    path = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_ALSO}")
    if path is None:
        raise ToolMissing(tool=name)
    return [path, *arguments]


def server_tool_as(uid: int, gid: int, name: str, *arguments: str) -> list[str]:
    """The same, as the owner of a database, so that the files it makes are the server's; only root can, or must."""
    if os.geteuid() != 0 or uid == 0:
        return server_tool(name, *arguments)
    # The kernel drops the parent death signal when the user changes, so it is asked for again.
    who = [f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--pdeathsig=KILL", "--"]
    prefix = os.environ.get(ENV_TOOLS)
    command = [name, *arguments] if prefix else server_tool(name, *arguments)
    if not name.startswith("/"):
        _require_reached(command[0], uid, tuple(who), prefix)
    return server_tool("setpriv", *who, *command) if prefix else ["setpriv", *who, *command]


# Prints the first directory on the way to a tool that the account may not enter; its name may be a link to it.
_FIND_CLOSED = """
test -x "$1" && exit
for path; do
    closed=
    while path=${path%/*}; test "$path"; do test -x "$path" || closed=$path; done
    test -z "$closed" || exec printf %s "$closed"
done
"""
_AS_OWNER = """
path=$(command -v "$1") || exit 0
closed=$2
shift 2
exec setpriv "$@" /bin/sh -c "$closed" sh "$path" "$(readlink -f "$path")"
"""


@functools.cache
def _require_reached(tool: str, uid: int, who: tuple[str, ...], prefix: str | None) -> None:
    """Raises ToolUnreachable where the account may not enter a directory of the tool's path, as below root's home: all
    that setpriv and shells say of that is the status 127."""
    asked = server_tool("/bin/sh", "-c", _AS_OWNER, "sh", tool, _FIND_CLOSED, *who)
    if closed := os.fsdecode(child.ask(asked).out):
        raise ToolUnreachable(tool=Path(tool).name, account=files.account_name(uid), place=closed)


def configuration(*arguments: str, owner: Owner | None = None) -> bytes:
    """cn=config as slapcat prints it. Raises ToolMissing, ToolFailed."""
    found = run("slapcat", "-n0", *arguments, owner=owner)
    if not found.strip():  # its status is 0 even where it could not read one of the files
        reason = "it printed nothing: it could not read one of the files (see dmesg)"
        raise ToolFailed(tool="slapcat", status=0, reason=reason)
    return found


def run(name: str, *arguments: str, stdin: bytes = b"", owner: Owner | None = None) -> bytes:
    """Run a short-lived slap* tool, as `owner`; its output. Raises ToolMissing, ToolFailed."""
    if os.environ.get(ENV_TOOLS):
        stdin = os.fsencode(plain.with_operator_paths(os.fsdecode(stdin)))
    uid, gid = (owner.uid, owner.gid) if owner else (0, 0)
    try:
        return child.output(server_tool_as(uid, gid, name, *arguments), stdin=stdin)
    except ToolFailed as error:
        raise ToolFailed(**{**error.facts, "tool": name}) from error


# --- account ---------------------------------------------------------------------------------------------------------
#
# The account under which root lets slapd's tools read an operator's configuration.
#
# Every tool of slapd that reads a configuration opens the file DUMMY in each database directory for writing, and
# removes it again, to see whether the directory can be written to (back-mdb/config.c). Whoever owns that directory
# can make DUMMY a link to any file, which root would empty. So the tools run as the owner then.


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
            yield from (Path(one) for one in (told, *values.of_value(told)[:1]))


def _in_text(path: Path, text_of: TextOf) -> Iterator[Path]:
    for one in slapd_conf.statements(path, text_of):
        if one.keyword == "directory" and len(one.words) == 2:
            yield Path(one.words[1])


def may_read(owner: Owner, paths: Sequence[Path]) -> bool:
    """Can that account read all of them?"""
    asked = 'for path do test -r "$path" || exit; done'  # a program `test` in PATH may be anybody's
    words = ("-c", asked, "sh", *map(str, paths))
    try:
        child.output(server_tool_as(owner.uid, owner.gid, "/bin/sh", *words))
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


# --- version ---------------------------------------------------------------------------------------------------------
#
# Which OpenLDAP is installed, as far as files depend on it.


Release = tuple[int, int, int]


def release() -> Release | None:
    """Of the installed slapd: (2, 5, 13); None where there is none, or it does not say."""
    try:
        with Child(server_tool("slapd", "-VV")) as child:
            child.wait()
    except ToolMissing:
        return None
    found = re.search(r"slapd (\d+)\.(\d+)(?:\.(\d+))?", " ".join(child.words))
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def lmdb_format() -> int | None:
    """Data format of the installed slapd's LMDB: 1 up to OpenLDAP 2.6, 3 from 2.7 on; None where it does not say."""
    found = release()
    if found is None:
        return None
    return 1 if found < (2, 7, 0) else 3


# --- processes -------------------------------------------------------------------------------------------------------
#
# Does a slapd run on a configuration, and which files has it open? Asked of its pid file and of /proc; locks of its
# databases are storage's.


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
    return tuple(next(_option_values(pid, "-h"), "ldap:///").split())


def _configuration_of(pid: int) -> Path | None:
    """The slapd.d or slapd.conf it was told, as seen from here (it may live in a chroot or container)."""
    try:
        start = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None
    for option in ("-F", "-f"):  # -F wins where both are given
        for value in _option_values(pid, option):
            return Path(f"/proc/{pid}/root{os.path.join(start, value)}")
    return None


def _option_values(pid: int, option: str) -> Iterator[str]:
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
