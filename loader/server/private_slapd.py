"""A slapd of ours on a private configuration: on a socket alone, as the account of the database, gone at the end."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from loader.child import Child
from loader.errors import ServerDown, ToolFailed, UsageProblem
from loader.server import tools
from loader.server.options import Connection
from loader.server.session import Session, session
from loader.storage import temporary
from loader.storage.files import Owner

_PATIENCE = 60.0  # seconds; it opens a database and listens, however large that is
_LOOK = 0.02
_LONGEST_SOCKET = 107  # bytes, sun_path of unix(7): slapd crashes on a longer name


@contextmanager
def running(config: Path, owner: Owner | None, tmpdir: str | None = None) -> Iterator[Session]:
    """A session with a slapd that runs on `config`, slapd.d or slapd.conf, as `owner`.

    Nobody else can reach its socket. Raises ToolFailed with its last words if it does not begin to listen,
    UsageProblem if TMPDIR is too long.
    """
    uid, gid = (owner.uid, owner.gid) if owner else (0, 0)
    with temporary.directory("slapd", tmpdir) as place:  # the path of a socket may not be long
        tools.change_owner(owner, place)
        path = place / "ldapi"
        if len(bytes(path)) > _LONGEST_SOCKET:
            raise UsageProblem(reason=f"TMPDIR: {place} is too long for a socket in it")
        uri = f"ldapi://{quote(str(path), safe='')}"
        # -d keeps it in the foreground, its words on stderr; -s 0 keeps them out of the system's log.
        words = ["-d", "none", "-s", "0", "-h", uri, "-F" if config.is_dir() else "-f", str(config)]
        with Child(tools.server_tool_as(uid, gid, "slapd", *words)) as child:
            _await(child, path)
            with session(Connection(uri)) as opened:
                yield opened


def _await(child: Child, path: Path) -> None:
    """It makes its socket at once, and listens once the database is open."""
    deadline = time.monotonic() + _PATIENCE
    while not _listens(path):
        if child.has_ended:
            child.check()
            raise ToolFailed(tool="slapd", status=0, reason="it ended at once")
        if time.monotonic() > deadline:
            raise ServerDown(uri=str(path), reason="the private slapd does not listen")
        time.sleep(_LOOK)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(str(path))
        except OSError:
            return False
        return True
