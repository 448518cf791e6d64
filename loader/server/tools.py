"""slapd's own tools: slapadd, slapcat, slaptest, slapmodify, slapindex.

DITSEED_TOOLS names a command to run them through, where slapd lives elsewhere ("chroot /srv/ldap"). What runs there
knows directories by their names alone, not through descriptors of this process.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
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
        stdin = os.fsencode(naming.with_operator_paths(os.fsdecode(stdin)))
    uid, gid = (owner.uid, owner.gid) if owner else (0, 0)
    try:
        return child.output(server_tool_as(uid, gid, name, *arguments), stdin=stdin)
    except ToolFailed as error:
        raise ToolFailed(**{**error.facts, "tool": name}) from error
