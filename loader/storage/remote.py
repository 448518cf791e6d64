"""Reads and writes files on another host: in an S3 bucket, or in a directory over SFTP. The content of files is not
checked.

Names and messages contain no secrets. Keys come from the files and environment variables of S3 and SSH clients."""

from __future__ import annotations

import datetime
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

from loader import units
from loader.errors import FULL, FULL_ERRNOS, PackageMissing, RemoteFailed, RemoteFull, RemovalRefused, UsageProblem

_log = logging.getLogger(__name__)

SCHEMES = {"s3": "s3fs", "sftp": "loader.storage.sftp"}  # modules, imported when used: their packages are optional
_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]+")  # the names of ditseed's own files match this
_BLOCK = 8 << 20  # minimum bytes of a part of an upload
_PARTS = 9000  # maximum parts of an upload; S3 accepts at most 10,000
_SSH_REFUSED = ("AuthenticationException", "BadHostKeyException", "PasswordRequiredException")
# Packages whose exceptions are errors of the transport. They have no common base class.
_TRANSPORTS = {"botocore", "aiobotocore", "aiohttp", "paramiko", "fsspec", "s3fs"}
_S3_HINT = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write them to ~/.aws/credentials."
_BUCKET_HINT = "Create the bucket with the tools of the provider, or correct its name after s3://."
_SSH_HINT = "Connect once with sftp(1) as this user: it needs a key (~/.ssh, agent), and the host's key in known_hosts."
_HINT = "Check that the server runs and is reachable, then run the same command again: no backup there has changed."


class Location(Struct, frozen=True):
    """`s3://BUCKET/PREFIX` or `sftp://USER@HOST:PORT/DIRECTORY`. `root` is the path without a slash at the end."""

    url: str
    scheme: str
    root: str
    host: str = ""
    port: int = 0
    user: str = ""

    def __str__(self) -> str:
        return self.url


def parse(text: str) -> Location:
    """Returns the location that a URL names. Raises UsageProblem, whose message never shows a possible password."""
    split = urlsplit(text)
    if split.scheme not in SCHEMES or "::" in text:
        schemes = " and ".join(f"{scheme}://" for scheme in SCHEMES)
        raise UsageProblem(reason=f"a repository is a directory, or begins with {schemes}")
    if split.password is not None or (split.scheme == "s3" and "@" in split.netloc):
        raise UsageProblem(reason="other users can read a password in a URL: leave it out")
    if split.query or split.fragment or not split.hostname:
        raise UsageProblem(reason=f"{split.scheme}:// takes only a name and a path")
    try:
        port = split.port or 0
    except ValueError as error:
        raise UsageProblem(reason=f"{split.scheme}://: {error}") from error
    path = unquote(split.path).rstrip("/")
    if any(part in (".", "..") for part in path.split("/")):
        raise UsageProblem(reason=f"{text}: . and .. are not allowed")
    if split.scheme == "s3":
        return Location(text.rstrip("/"), "s3", f"{split.netloc}{path}")
    if not path:
        raise UsageProblem(reason=f"{text}: a directory is missing")
    return Location(text.rstrip("/"), "sftp", path, split.hostname, port, unquote(split.username or ""))


class Listed(NamedTuple):
    """A file or directory on the server. `size`: bytes of the file, or -1 for a directory. `modified`: time of the last
    write, which a client of an S3 server cannot choose; None for an S3 directory."""

    size: int
    modified: datetime.datetime | None


class Store(Struct, frozen=True):
    """An open connection to a location. File names are relative to the location: `DIRECTORY/FILE` or `FILE`."""

    location: Location
    system: Any
    running: set[Any] = field(default_factory=set)  # requests of `part`

    @property
    def serves_threads(self) -> bool:
        """Whether several threads can use this store at once: yes for S3, whose client opens several connections."""
        return self.location.scheme == "s3"

    def names(self, directory: str = "") -> dict[str, Listed]:
        """Returns the files and directories in `directory`, by name. Omits names that ditseed never uses: a hostile
        server could send a path. Raises FileNotFoundError."""
        with _translate_errors(self.location):
            entries = self.system.ls(self._path(directory), detail=True)
        names = dict[str, Listed]()
        for entry in entries:
            name = str(entry["name"]).rstrip("/").rpartition("/")[2]
            if _NAME.fullmatch(name) and entry["type"] in ("file", "directory"):
                size = -1 if entry["type"] == "directory" else int(entry["size"] or 0)
                names[name] = Listed(size, entry.get("LastModified") or entry.get("mtime"))
        return names

    def read(self, name: str, most: int) -> bytes:
        """Returns the content of a file, or its first `most` + 1 bytes if it is larger. Raises FileNotFoundError."""
        with suppress(RemoteFailed):  # if a shorter file replaces this file between the two requests, try again
            return self.part(name, 0, min(self._size(name), most + 1))
        return self.part(name, 0, min(self._size(name), most + 1))

    def _size(self, name: str) -> int:
        with _translate_errors(self.location):
            return int(self.system.info(self._path(name))["size"])

    def modified(self, name: str) -> datetime.datetime:
        """Returns the time of the last write to a file. Raises FileNotFoundError."""
        with _translate_errors(self.location):
            return cast(datetime.datetime, self.system.modified(self._path(name)))

    def part(self, name: str, start: int, size: int) -> bytes:
        """Returns `size` bytes of a file from `start`, or fewer at its end. Raises FileNotFoundError."""
        import asyncio  # imported here because the import takes 30 ms

        if not size:
            return b""
        path, end = self._path(name), start + size
        with _translate_errors(self.location):
            if not self.serves_threads:
                return bytes(self.system.cat_file(path, start=start, end=end))
            answer = self.system._cat_file(path, start=start, end=end)
            request = asyncio.run_coroutine_threadsafe(answer, self.system.loop)
            self.running.add(request)
            try:
                return bytes(request.result())
            finally:
                request.cancel()
                self.running.discard(request)

    def cancel(self) -> None:
        """Ends the calls of `part` in other threads (only for S3; for SFTP, close the connection instead)."""
        for request in list(self.running):
            request.cancel()

    def put(self, source: Path, name: str, new: bool = False, content: Iterable[bytes] | None = None) -> None:
        """Uploads a file, whose name appears on the server only when it is complete. `content` yields the content of
        `source` at a limited rate, or is None for no limit. `new`: as in `write`."""
        with self._writing(name, new):
            mode = "create" if new else "overwrite"
            if content is None:
                self.system.put_file(str(source), self._path(name), mode=mode)
            elif self.location.scheme == "sftp":
                self.system.put_file(str(source), self._path(name), mode=mode, content=content)
            else:
                self._put_parts(name, "xb" if new else "wb", content, source.stat().st_size)
            remote, local = self._size(name), source.stat().st_size
        if remote != local:
            reason = f"{name} has {remote} bytes there, not {local}"
            raise RemoteFailed(place=self.location, reason=reason, advice=_HINT)

    def _put_parts(self, name: str, mode: str, content: Iterable[bytes], size: int) -> None:
        """Uploads an S3 object. Discards it after an error, because closing the file would publish a part of it."""
        file = self.system.open(self._path(name), mode, block_size=max(_BLOCK, size // _PARTS))
        try:
            for chunk in content:
                file.write(chunk)
        except BaseException:
            with suppress(Exception):
                file.discard()
            file.closed = True
            raise
        file.close()

    def write(self, name: str, content: bytes, new: bool = False) -> None:
        """Writes a small file. With `new`, raises FileExistsError if it exists; some S3 servers replace it anyway."""
        with self._writing(name, new):
            self.system.pipe_file(self._path(name), content, mode="create" if new else "overwrite")

    def require_space(self, needed: int) -> None:
        """Raises RemoteFull if less than `needed` bytes are free. S3 and some servers do not report this."""
        if self.location.scheme == "s3":
            return
        with _translate_errors(self.location):
            free = self.system.free_bytes(self.location.root)
        if free is not None and free < needed:
            raise RemoteFull(place=self.location, lack=f"{units.size(needed)} needed, {units.size(free)} free")

    def remove(self, name: str) -> None:
        """Removes a file if it exists. Raises RemovalRefused."""
        with _translate_errors(self.location):
            try:
                with suppress(FileNotFoundError):
                    self.system.rm_file(self._path(name))
            except PermissionError as error:
                raise RemovalRefused(place=self.location, reason=error.strerror or error) from error

    def remove_directory(self, name: str) -> None:
        """Removes an empty directory. S3 has no directories."""
        if self.location.scheme == "sftp":
            with _translate_errors(self.location):
                self.system.rmdir(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.location.root}/{name}" if name else self.location.root

    @contextmanager
    def _writing(self, name: str, new: bool) -> Iterator[None]:
        """Creates the file's directory before the body, which writes the file. Raises RemoteFailed if the directory or
        bucket is missing, and FileExistsError if, with `new`, the server refuses because the file exists."""
        with _translate_errors(self.location):
            try:
                if self.location.scheme == "sftp":
                    self.system.makedirs(self._path(name.rpartition("/")[0]), exist_ok=True)
                yield
            except PermissionError as error:
                if new and self.system.exists(self._path(name)):
                    raise FileExistsError(name) from error
                raise
            except FileNotFoundError as error:
                advice = _BUCKET_HINT if self.location.scheme == "s3" else _HINT
                raise RemoteFailed(place=self.location, reason=str(error), advice=advice) from error


@contextmanager
def opened(location: Location) -> Iterator[Store]:
    """Connects to a location. Raises PackageMissing, RemoteFailed."""
    try:
        module: Any = import_module(SCHEMES[location.scheme])
    except ImportError as error:
        package, packages = error.name or error, "fsspec, s3fs and paramiko"
        raise PackageMissing(place=location, package=package, extra="remote", packages=packages) from error
    with _translate_errors(location):
        if location.scheme == "s3":
            patience = {"connect_timeout": 15, "read_timeout": 60, "retries": {"max_attempts": 2}}
            system = module.S3FileSystem(config_kwargs=patience, use_listings_cache=False, skip_instance_cache=True)
            _warn_if_clear(str(system.s3.meta.endpoint_url))
        else:
            login = {name: value for name, value in (("port", location.port), ("username", location.user)) if value}
            system = module.Sftp(location.host, **login, skip_instance_cache=True)
    try:
        yield Store(location, system)
    finally:
        if location.scheme == "sftp":
            system.close()


@cache  # warns only once, although a run may open a repository several times
def _warn_if_clear(endpoint: str) -> None:
    """Warns if the endpoint is on another host and not encrypted, such as http://minio:9000."""
    url = urlsplit(endpoint)
    try:
        is_loopback = ip_address(url.hostname or "").is_loopback
    except ValueError:
        is_loopback = url.hostname == "localhost"
    if url.scheme != "https" and not is_loopback:
        text = "the S3 endpoint http://%s is not encrypted: anyone on the network path can read and change the backups"
        text += "; give an https:// URL as AWS_ENDPOINT_URL or endpoint_url"
        _log.warning(text, url.netloc.rpartition("@")[2])


@contextmanager
def _translate_errors(location: Location) -> Iterator[None]:
    """Turns errors of the libraries into LoaderErrors, except FileNotFoundError and FileExistsError."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except Exception as error:
        packages = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
        if not isinstance(error, (OSError, EOFError)) and packages.isdisjoint(_TRANSPORTS):
            raise
        if isinstance(error, OSError) and error.errno in FULL_ERRNOS:
            raise RemoteFull(place=location, lack=FULL) from error
        name, advice = type(error).__name__, _HINT
        if location.scheme == "s3" and (isinstance(error, PermissionError) or "Credential" in name):
            advice = _S3_HINT
        elif name in _SSH_REFUSED or "known_hosts" in str(error):
            advice = _SSH_HINT
        raise RemoteFailed(place=location, reason=str(error) or name, advice=advice) from error
