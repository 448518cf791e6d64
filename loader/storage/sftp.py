"""Extends fsspec's SFTP. Connects as ssh(1) does: only to hosts whose keys are in known_hosts.

Its packages are optional (the extra `remote`), so this module must be imported only when it is used."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

import paramiko
from fsspec.implementations.sftp import SFTPFileSystem
from paramiko.sftp import CMD_EXTENDED

KNOWN_HOSTS = Path("/etc/ssh/ssh_known_hosts")
_PARTIAL = ".partial"
_FULL = 1 << 20  # bytes; if a write fails with less free space, the server is assumed to be full
_WINDOW = 8 << 20  # bytes that the server may send before it waits for an acknowledgement
_PATIENCE = 60.0  # maximum seconds until a server begins its answer


class Sftp(SFTPFileSystem):  # type: ignore[misc]
    """Reads host keys from known_hosts of the account and of this host, and private keys from the agent and ~/.ssh."""

    def _connect(self) -> None:
        self.client = paramiko.SSHClient()
        self.client.load_system_host_keys()
        if KNOWN_HOSTS.is_file():
            self.client.load_system_host_keys(str(KNOWN_HOSTS))
        self.client.set_missing_host_key_policy(paramiko.RejectPolicy())
        patience = dict.fromkeys(("timeout", "banner_timeout", "auth_timeout"), _PATIENCE)
        self.client.connect(self.host, **patience, **self.ssh_kwargs)
        transport = cast("paramiko.Transport", self.client.get_transport())
        self.ftp = cast("paramiko.SFTPClient", paramiko.SFTPClient.from_transport(transport, window_size=_WINDOW))
        self.ftp.get_channel().settimeout(_PATIENCE)

    def close(self) -> None:
        self.client.close()

    def makedirs(self, path: str, exist_ok: bool = True, mode: int = 0o700) -> None:
        """Creates a directory and its missing parents with mode 0700."""
        try:
            self.ftp.stat(path)
        except FileNotFoundError:
            self.makedirs(path.rpartition("/")[0] or "/")
            self.ftp.mkdir(path, mode)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: object) -> None:
        """Writes a file. If `mode` is "create" and the file exists, raises FileExistsError."""
        if mode != "create":
            with self._remove_on_error(partial := f"{path}{_PARTIAL}"):
                with self._private(partial) as file:
                    file.write(value)
                self.ftp.posix_rename(partial, path)
            return
        try:
            file = self.ftp.open(path, "wx")
        except OSError:
            if self.exists(path):
                raise FileExistsError(path) from None
            raise
        with self._remove_on_error(path), file:
            file.write(value)

    def put_file(
        self, lpath: str, rpath: str, mode: str = "overwrite", content: Iterable[bytes] | None = None, **options: object
    ) -> None:
        """Uploads a file, whose name appears only when it is complete. `content` yields the content of `lpath`, or is
        None. If `mode` is "create" and the file exists, raises FileExistsError."""
        if mode == "create" and self.exists(rpath):
            raise FileExistsError(rpath)
        with self._remove_on_error(partial := f"{rpath}{_PARTIAL}"):
            with self._private(partial) as file:
                file.set_pipelined(True)
                for chunk in content or ():
                    file.write(chunk)
            if content is None:
                self.ftp.put(lpath, partial)
            try:
                self.ftp.posix_rename(partial, rpath)
            except PermissionError:  # the server forbids it: `sftp-server -P posix-rename`
                # A hard link cannot replace an existing file. The partial name stays.
                self.ftp._request(CMD_EXTENDED, "hardlink@openssh.com", partial, rpath)

    @contextmanager
    def _private(self, path: str) -> Iterator[paramiko.SFTPFile]:
        with self.ftp.open(path, "wb") as file:
            with suppress(PermissionError):  # with `sftp-server -P fsetstat`, the umask of the server decides
                file.chmod(0o600)
            yield file

    @contextmanager
    def _remove_on_error(self, path: str) -> Iterator[None]:
        """Removes the file if the body fails: a partial file would keep a full server full, or count as a lock. Raises
        ENOSPC if the server seems full: SFTP has no error for that, but an extension of sshd reports the free space."""
        try:
            yield
        except OSError as error:
            free = None
            if error.errno is None:
                with suppress(OSError):
                    free = self.free_bytes(path.rpartition("/")[0])
            with suppress(OSError):
                self.ftp.remove(path)
            if free is not None and free < _FULL:
                raise OSError(errno.ENOSPC, str(error)) from error
            raise

    def free_bytes(self, path: str) -> int | None:
        """Returns the free bytes of a file system, or None if the server lacks the extension statvfs@openssh.com."""
        try:
            _, answer = self.ftp._request(CMD_EXTENDED, "statvfs@openssh.com", path)
        except OSError as error:
            if error.errno is not None:
                raise
            return None
        _, unit, _, _, free, *_ = [answer.get_int64() for _ in range(11)]
        return int(unit * free)

    def cat_file(self, path: str, start: int = 0, end: int = 0, **options: object) -> bytes:
        """Returns the bytes from `start` to `end`. Sends all requests before it waits for the first answer."""
        with self.ftp.open(path, "rb") as file:
            return b"".join(file.readv([(start, end - start)]))
