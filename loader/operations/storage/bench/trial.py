"""A database engine in one directory: its configuration, its tools, its server."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import msgspec

from loader.child import Child
from loader.operations.storage.bench.installation import Installation
from loader.storage import files

_LOOK = 0.02  # seconds
SOCKET = "ldapi"
BERKELEY = ("bdb", "hdb")
# 160 MiB in one piece: without it Berkeley DB has 256 KiB, and a load takes hours.
_CACHE = b"set_cachesize 0 167772160 1\n"


class Trial(msgspec.Struct, frozen=True):
    """`directory`: for the database. `work`: for the configuration and the socket."""

    installation: Installation
    backend: str
    directory: Path
    work: Path

    def inside(self, path: Path) -> str:
        """A file in `work`, as the tools see it."""
        work, _ = self.installation.names(self.work, self.directory)
        return f"{work}/{path.relative_to(self.work)}"

    def command(self, tool: str, *arguments: str) -> list[str]:
        """Raises ToolMissing."""
        return self.installation.command(tool, *arguments)

    def configured(self, entries: int) -> str:
        """Write the slapd.conf; its path as the tools see it. Raises UsageProblem."""
        path = self.work / "slapd.conf"
        _, directory = self.installation.names(self.work, self.directory)
        settings = self.directory / "DB_CONFIG"
        if self.backend in BERKELEY and not settings.exists():  # a newer one makes slapd recover
            files.write_durably(settings, _CACHE)
        text = self.installation.configuration(self.backend, directory, entries)
        files.write_durably(path, text.encode(), 0o600)
        return self.inside(path)

    @contextmanager
    def running(self, entries: int) -> Iterator[str]:
        """The URI of a slapd on it, which is killed at the end. Raises ToolMissing, ToolFailed."""
        path = self.work / SOCKET
        path.unlink(missing_ok=True)
        config = self.configured(entries)
        asked = ("-d", "0", "-h", _uri(self.inside(path)), "-f", config)
        with Child(self.command("slapd", *asked)) as server:
            while not _answers(path):
                if server.has_ended:
                    server.check()
                time.sleep(_LOOK)
            yield _uri(str(path))


def _uri(path: str) -> str:
    return f"ldapi://{quote(path, safe='')}"


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as tried:
        try:
            tried.connect(str(path))
        except OSError:
            return False
    return True
