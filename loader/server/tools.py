"""slapd on this host: its tools (slapadd, slapcat, slaptest ...), the account under which root runs them, the installed
release, and the running slapd processes.

DITSEED_TOOLS contains a command prefix for the tools if slapd is installed elsewhere ("chroot /srv/ldap"). Under a
prefix the tools reach directories only by their paths, not through descriptors of this process.
"""

from __future__ import annotations

import base64
import functools
import os
import pwd
import re
import shlex
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from loader import child, config, defaults, plain, slapd_conf
from loader.child import Child
from loader.config import Config
from loader.defaults import ENV_TOOLS
from loader.errors import FileUnsafe, ToolFailed, ToolMissing, ToolUnreachable, UsageProblem
from loader.storage import files, held
from loader.storage.files import Owner


def server_tool(name: str, *arguments: str) -> list[str]:
    """Returns the command line of a slap* tool. Skips the links that `ditseed shims` creates. Raises ToolMissing."""
    prefix = shlex.split(os.environ.get(ENV_TOOLS, ""))
    if prefix:
        return [*prefix, name, *map(plain.with_operator_paths, arguments)]
    path = defaults.find_tool(name)
    if path is None:
        raise ToolMissing(tool=name)
    is_diverted = path.endswith(".distrib") and name.startswith("slap") and name != "slapd"
    return [path, *([f"-T{name[4:]}"] if is_diverted else []), *arguments]


def server_tool_as(owner: Owner | None, name: str, *arguments: str) -> list[str]:
    """Returns the command line that runs a tool as `owner` if this process is root's, otherwise as this account."""
    if os.geteuid() != 0 or owner is None or owner.uid == 0:
        return server_tool(name, *arguments)
    # The kernel clears the parent death signal when the user changes, so setpriv sets the signal again.
    identity = [f"--reuid={owner.uid}", f"--regid={owner.gid}", "--clear-groups", "--pdeathsig=KILL", "--"]
    prefix = os.environ.get(ENV_TOOLS)
    command = [name, *arguments] if prefix else server_tool(name, *arguments)
    if not name.startswith("/"):
        _require_reachable(command[0], owner.uid, tuple(identity), prefix)
    return server_tool("setpriv", *identity, *command) if prefix else ["setpriv", *identity, *command]


# Shell code: prints the topmost directory, on the path or the real path of a tool, that the account may not enter.
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
def _require_reachable(tool: str, uid: int, identity: tuple[str, ...], prefix: str | None) -> None:
    """Raises ToolUnreachable if the account may not enter a directory on the tool's path; setpriv would return 127."""
    command = server_tool("/bin/sh", "-c", _AS_OWNER, "sh", tool, _FIND_CLOSED, *identity)
    if closed := os.fsdecode(child.run(command).out):
        raise ToolUnreachable(tool=Path(tool).name, account=files.account_name(uid), place=closed)


def configuration(*arguments: str, owner: Owner | None = None) -> bytes:
    """Returns slapcat's output for cn=config. Raises ToolMissing; ToolFailed if slapcat fails or prints nothing."""
    text = run("slapcat", "-n0", *arguments, owner=owner)
    if not text.strip():  # slapcat's status is 0 even if it could not read a file
        reason = "it printed nothing, because it could not read one of the files (see dmesg)"
        raise ToolFailed(tool="slapcat", status=0, reason=reason)
    return text


def run(name: str, *arguments: str, stdin: bytes = b"", owner: Owner | None = None) -> bytes:
    """Runs a short-lived slap* tool as `owner` and returns its output. Raises ToolMissing, ToolFailed."""
    if os.environ.get(ENV_TOOLS):
        stdin = os.fsencode(plain.with_operator_paths(os.fsdecode(stdin)))
    try:
        return child.output(server_tool_as(owner, name, *arguments), stdin=stdin)
    except ToolFailed as error:
        raise ToolFailed(**{**error.facts, "tool": name}) from error


_DIRECTORY = re.compile(rb"^olcDbDirectory:(:?) *(.+)$", re.MULTILINE | re.IGNORECASE)
_FOLDED = re.compile(rb"\r?\n ")


# Each slapd tool that reads a configuration opens a file DUMMY in every database directory for writing and removes it
# again, to test whether the directory is writable (back-mdb/config.c). The directory's owner could make DUMMY a link
# to any file, which root would then empty. So root runs the tools as the directory's owner.
def of_directories(directories: Sequence[Path]) -> Owner | None:
    """Returns the first account, other than root, that owns one of the directories or could replace it, because it owns
    a directory or link on its path. Returns None if there is no such account, or if this process is not root's."""
    if os.geteuid() != 0:
        return None
    statuses = (status for path in directories for status in held.statuses_along(path))
    return next((Owner.from_status(status) for status in statuses if status.st_uid != 0), None)


def slapd_account(user: str | None, directories: Sequence[Path]) -> Owner | None:
    """Returns the account for a slapd that must not run as root: `user`, else the directories' owner, else `nobody`.
    Returns None if this process is not root's. Raises UsageProblem if `user` cannot be used."""
    if os.geteuid() != 0:
        if user is not None:
            raise UsageProblem(reason=f"only root can run slapd as {user}")
        return None
    owner = of_directories(directories) if user is None else None
    if owner is not None:
        return owner
    name = user or "nobody"
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        raise UsageProblem(reason=f"this host has no account {name}") from None
    if account.pw_uid == 0:
        raise UsageProblem(reason=f"slapd must not run as {name}, which is root")
    return Owner(account.pw_uid, account.pw_gid)


def of_configuration(path: Path) -> Owner | None:
    """Like `of_directories`, for the database directories in a slapd.d or slapd.conf that no tool has read yet. Owners
    of the configuration's files count too, because they could add directories before a tool reads the files."""
    if os.geteuid() != 0:
        return None
    if not path.is_dir():
        statements = [each.words for each in slapd_conf.statements(path) if each.keyword == "directory"]
        return of_directories([*(Path(words[1]) for words in statements if len(words) == 2), path])
    configuration_files = list(path.rglob("*.ldif"))
    directories: list[Path] = []
    for file in configuration_files:
        for encoded, value in _DIRECTORY.findall(_FOLDED.sub(b"", files.read(file))):
            with suppress(ValueError):  # an invalid file; slapd's tools will refuse it with their own message
                directory = os.fsdecode(base64.b64decode(value) if encoded else value).strip()
                directories += map(Path, (directory, *config.words_of_value(directory)[:1]))
    return of_directories([*directories, path, *configuration_files])


def may_read(owner: Owner, paths: Sequence[Path]) -> bool:
    script = 'for path do test -r "$path" || exit; done'  # uses the shell's own `test`, not a program from PATH
    return child.run(server_tool_as(owner, "/bin/sh", "-c", script, "sh", *map(str, paths))).status == 0


def change_owner(owner: Owner | None, top: Path) -> None:
    """Makes `owner` the owner of a directory that this process owns, and of its contents. Starts at the bottom, because
    the account could create links in a directory as soon as it owns the directory."""
    if owner is not None:
        for descriptor in _each(top):
            owner.apply_to(descriptor)


def let_read(owner: Owner | None, top: Path) -> None:
    """Lets the account's group read, but not write, a directory that this process owns, and its contents."""
    if owner is not None:
        for descriptor in _each(top):
            os.fchown(descriptor, -1, owner.gid)
            os.fchmod(descriptor, 0o750 if stat.S_ISDIR(os.fstat(descriptor).st_mode) else 0o640)


def _each(top: Path) -> Iterator[int]:
    for path, _, names in os.walk(top, topdown=False):
        with held.opened(Path(path)) as directory:
            for name in names:
                with held.closing_descriptor(directory.open(name)) as descriptor:
                    yield descriptor
            yield directory.descriptor


Release = tuple[int, int, int]


def release() -> Release | None:
    """Returns the installed slapd's release, such as (2, 5, 13); None if there is no slapd or it prints no release."""
    try:
        command = server_tool("slapd", "-VV")
        if os.environ.get(ENV_TOOLS):  # the command begins with a prefix such as podman, not with slapd
            return _printed_release(command)
        status = os.stat(command[0])
        return _release_of(command[0], status.st_ino, status.st_mtime_ns)
    except ToolMissing:
        return None


def require_release() -> Release:
    if installed := release():
        return installed
    raise UsageProblem(reason="slapd is not installed here, or does not print its release")


@functools.lru_cache
def _release_of(path: str, _inode: int, _changed: int) -> Release | None:
    """Returns the release that the slapd at `path` prints; cached, because a build needs it four times."""
    return _printed_release([path, "-VV"])


def _printed_release(command: Sequence[str]) -> Release | None:
    with Child(command) as child:
        child.wait()
    match = re.search(r"slapd (\d+)\.(\d+)(?:\.(\d+))?", " ".join(child.stderr_lines))
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def lmdb_format() -> int | None:
    """Returns the data format of the installed slapd's LMDB: 1 up to OpenLDAP 2.6, 3 from 2.7 on; None if unknown."""
    version = release()
    return version and (1 if version < (2, 7, 0) else 3)


def slapd_on(config: Config) -> int | None:
    """Returns the process ID of a slapd that was started on this slapd.d or slapd.conf; None if none is visible."""
    of_pid_file = _of_pid_file(config)
    for pid in _slapds():
        path = None
        with suppress(OSError):
            start = os.readlink(f"/proc/{pid}/cwd")
            # slapd ignores -f if -F is given too. Through /proc/PID/root, the path works for a chroot or container too.
            if configurations := (*_option_values(pid, "-F"), *_option_values(pid, "-f")):
                path = Path(f"/proc/{pid}/root{os.path.join(start, configurations[0])}")
        if files.same(path, config.path) or (path is None and pid == of_pid_file):  # started without -F and -f
            return pid
    return None


def unreadable_slapd() -> int | None:
    """Returns the process ID of a slapd whose configuration this account may not read, or None."""
    for pid in _slapds():
        try:
            os.readlink(f"/proc/{pid}/cwd")
        except PermissionError:
            return pid
        except OSError:
            pass  # the process has ended
    return None


def stale_pid_file(config: Config) -> Path | None:
    """Returns the path of a pid file whose slapd was killed or has crashed, or None."""
    pid = _of_pid_file(config)
    is_stale = pid is not None and not is_slapd(pid)
    return Path(config.reader("cn=config").word("olcPidFile") or "") if is_stale else None


def has_other_network(pid: int) -> bool:
    """Returns True if the process is in another network namespace (a container), so its URIs are not reachable here."""
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
    return False


def account_of(pid: int) -> int | None:
    with suppress(OSError):  # the process has ended
        match = re.search(r"^Uid:\s+\d+\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        return int(match[1]) if match else None
    return None


def is_slapd(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip() == "slapd"
    return False


def flush(pid: int, name: str) -> bool:
    """Flushes to disk the process's open files whose path ends with `name` (as in a chroot). Returns False if no such
    file is reachable. Opens them through /proc, because the same path outside a container is a different file."""
    with ExitStack() as opened:
        descriptors = list[int]()
        with suppress(OSError):  # the process belongs to another account, or has ended
            for path in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):  # closed meanwhile
                    if os.readlink(path).endswith(name):
                        descriptors.append(held.reading(path))
                        opened.callback(os.close, descriptors[-1])
        for descriptor in descriptors:
            os.fsync(descriptor)
        return bool(descriptors)


def _slapds() -> Iterator[int]:
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and is_slapd(int(path.name)):
            yield int(path.name)


def _of_pid_file(config: Config) -> int | None:
    if name := config.reader("cn=config").word("olcPidFile"):
        with suppress(OSError, ValueError, FileUnsafe), files.reading(Path(name)) as file:
            return int(file.read(32))
    return None


def ldapi_uri(pid: int) -> str:
    """Returns the ldapi URI on which the slapd listens; "ldapi:///" if its command line has none."""
    return next((uri for uri in uris(pid) if uri.startswith("ldapi://")), "ldapi:///")


def uris(pid: int) -> tuple[str, ...]:
    """Returns the URIs on which the slapd listens: its option -h, or slapd's default."""
    return tuple(next(_option_values(pid, "-h"), "ldap:///").split())


def _option_values(pid: int, option: str) -> Iterator[str]:
    line = b""
    with suppress(OSError):  # the process has ended
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    words = line.decode(errors="surrogateescape").split("\0")
    for word, following in zip(words, [*words[1:], ""], strict=True):
        value = following if word == option else word[2:] if word.startswith(option) else ""
        if value:
            yield value
