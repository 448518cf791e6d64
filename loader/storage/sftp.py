"""fsspec's SFTP as ssh(1) would connect: only to hosts whose keys are known.

Imported only where it is used, for its packages are optional (the extra `remote`).
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, cast

import paramiko
from fsspec.implementations.sftp import SFTPFileSystem

KNOWN_HOSTS = Path("/etc/ssh/ssh_known_hosts")
_PARTIAL = ".partial"
_PATIENCE = 60.0  # seconds in which a server has to begin an answer


class Sftp(SFTPFileSystem):  # type: ignore[misc]
    """Keys of hosts from known_hosts of the account and of the host; own keys from the agent and ~/.ssh."""

    def _connect(self) -> None:
        self.client = paramiko.SSHClient()
        self.client.load_system_host_keys()
        if KNOWN_HOSTS.is_file():
            self.client.load_system_host_keys(str(KNOWN_HOSTS))
        self.client.set_missing_host_key_policy(paramiko.RejectPolicy())
        self.client.connect(
            self.host,
            timeout=_PATIENCE,
            banner_timeout=_PATIENCE,
            auth_timeout=_PATIENCE,
            **self.ssh_kwargs,
        )
        self.ftp = self.client.open_sftp()
        self.ftp.get_channel().settimeout(_PATIENCE)

    def close(self) -> None:
        self.client.close()

    def makedirs(self, path: str, exist_ok: bool = True, mode: int = 0o700) -> None:
        """For nobody else to see."""
        try:
            self.ftp.stat(path)
        except FileNotFoundError:
            self.makedirs(path.rpartition("/")[0] or "/")
            self.ftp.mkdir(path, mode)

    def create(self, path: str, content: bytes) -> None:
        """A new file. Raises FileExistsError."""
        try:
            with self.ftp.open(path, "wx") as file:
                file.write(content)
        except OSError:
            if self.exists(path):
                raise FileExistsError(path) from None
            raise

    def put_whole(self, source: Path, path: str) -> None:
        """All of it or nothing has that name."""
        partial = f"{path}{_PARTIAL}"
        with self.ftp.open(partial, "wb") as file:
            file.chmod(0o600)
        self.ftp.put(str(source), partial)
        self.ftp.posix_rename(partial, path)

    def upload(self, path: str) -> Upload:
        return Upload(self.ftp, path)

    def move_whole(self, path: str, new: str) -> None:
        self.ftp.posix_rename(path, new)

    def reading(self, path: str, size: int) -> IO[bytes]:
        file = self.ftp.open(path, "rb")
        file.prefetch(size)  # one question after the other would wait for each answer
        return cast("IO[bytes]", file)


class Upload:
    """Of a file, in parts: it gets its name when it is whole."""

    def __init__(self, ftp: paramiko.SFTPClient, path: str) -> None:
        self._ftp, self._path, self._partial = ftp, path, f"{path}{_PARTIAL}"
        self._file = ftp.open(self._partial, "wb")
        self._file.chmod(0o600)
        self._file.set_pipelined()  # one answer after the other would take its time

    def put(self, number: int, start: int, content: bytes) -> None:
        self._file.seek(start)
        self._file.write(content)

    def finish(self) -> None:
        self._file.close()
        self._ftp.posix_rename(self._partial, self._path)

    def give_up(self) -> None:
        self._file.close()
        self._ftp.remove(self._partial)
