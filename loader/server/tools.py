"""slapd's own tools: slapadd, slapcat, slaptest, slapmodify, slapindex.

DITSEED_TOOLS names a command to run them through, where slapd lives elsewhere ("chroot /srv/ldap"). What runs there
knows directories by their names alone, not through descriptors of this process.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from loader import child, naming
from loader.defaults import ENV_TOOLS
from loader.errors import ToolFailed, ToolMissing, ToolUnreachable
from loader.storage import files
from loader.storage.files import Owner

# The slap* tools are administrators' programs; the path of an ordinary user or of cron often lacks sbin.
_ALSO = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/libexec:/usr/libexec/openldap:/opt/symas/sbin"


def server_tool(name: str, *arguments: str) -> list[str]:
    """The command line of a slap* tool."""
    prefix = shlex.split(os.environ.get(ENV_TOOLS, ""))
    if prefix:
        return [*prefix, name, *map(naming.with_operator_paths, arguments)]
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
    if os.environ.get(ENV_TOOLS):
        return server_tool("setpriv", *who, name, *arguments)
    command = server_tool(name, *arguments)
    _require_reached(uid, gid, ["setpriv", *who], command[0])
    return ["setpriv", *who, *command]


def _require_reached(uid: int, gid: int, as_owner: Sequence[str], tool: str) -> None:
    """Raises ToolUnreachable where that account may not enter a directory of the tool's path, as below root's home."""
    ways = (Path(tool), Path(os.path.realpath(tool)))
    places = dict.fromkeys(one for way in ways for one in reversed(way.parents))
    closed = next((one for one in places if not _lets_in(one.stat(), uid, gid)), None)
    # An access control list may let it in where the mode does not, so then the kernel is asked.
    if closed and child.ask([*as_owner, "/bin/sh", "-c", 'test -x "$0"', tool]).status != 0:
        raise ToolUnreachable(tool=Path(tool).name, account=files.account_name(uid), place=closed)


def _lets_in(status: os.stat_result, uid: int, gid: int) -> bool:
    shift = 6 if status.st_uid == uid else 3 if status.st_gid == gid else 0
    return bool(status.st_mode >> shift & 1)


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
        stdin = os.fsencode(naming.with_operator_paths(os.fsdecode(stdin)))
    uid, gid = (owner.uid, owner.gid) if owner else (0, 0)
    try:
        return child.output(server_tool_as(uid, gid, name, *arguments), stdin=stdin)
    except ToolFailed as error:
        raise ToolFailed(**{**error.facts, "tool": name}) from error
