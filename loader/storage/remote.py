"""Files on another host: an S3 bucket, or a directory over SFTP. What is read there is hostile until it is checked.

No secret is part of a name, or of a message: keys come from where the clients of S3 and SSH look for them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from loader import units
from loader.errors import FULL, FULL_ERRNOS, PackageMissing, RemoteFailed, RemoteFull, RemovalRefused, UsageProblem

_log = logging.getLogger(__name__)

SCHEMES = {"s3": "s3fs", "sftp": "loader.storage.sftp"}  # modules, for their packages are optional
_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]+")  # such as ditseed gives
_CHUNK, _BLOCK = 4 << 20, 8 << 20  # bytes that are read, and asked for, at once
_SSH_REFUSED = ("AuthenticationException", "BadHostKeyException", "PasswordRequiredException")
_S3_HINT = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write them to ~/.aws/credentials."
_BUCKET_HINT = "Create the bucket with the tools of the provider, or correct its name after s3://."
_SSH_HINT = "Connect once with sftp(1) as this user: it needs a key (~/.ssh, an agent), and the host's in known_hosts."
_HINT = "Look whether the server runs and can be reached, then run the same command again: no backup there has changed."


@dataclass(frozen=True)
class Location:
    """`s3://BUCKET/PREFIX` or `sftp://USER@HOST:PORT/DIRECTORY`. root: without a slash at the end."""

    url: str
    scheme: str
    root: str
    host: str = ""
    port: int = 0
    user: str = ""

    def __str__(self) -> str:
        return self.url


def is_remote(text: str) -> bool:
    return "://" in text


def parse(text: str) -> Location:
    """Raises UsageProblem; never repeats what may hold a password."""
    split = urlsplit(text)
    if split.scheme not in SCHEMES or "::" in text:
        known = " and ".join(f"{scheme}://" for scheme in SCHEMES)
        raise UsageProblem(reason=f"a repository is a directory, or begins with {known}")
    if split.password is not None or (split.scheme == "s3" and "@" in split.netloc):
        raise UsageProblem(reason="a password in a URL can be read by others: leave it out")
    if split.query or split.fragment or not split.hostname:
        raise UsageProblem(reason=f"{split.scheme}:// takes a name and a path, nothing else")
    try:
        port = split.port or 0
    except ValueError as error:
        raise UsageProblem(reason=f"{split.scheme}://: {error}") from error
    path = unquote(split.path).rstrip("/")
    if any(part in (".", "..") for part in path.split("/")):
        raise UsageProblem(reason=f"{text}: . and .. lead elsewhere")
    if split.scheme == "s3":
        return Location(text.rstrip("/"), "s3", f"{split.netloc}{path}")
    if not path:
        raise UsageProblem(reason=f"{text}: say which directory")
    user = unquote(split.username or "")
    return Location(text.rstrip("/"), "sftp", path, split.hostname, port, user)


@dataclass(frozen=True)
class Store:
    """A location that is connected. Names are relative to it, `DIRECTORY/FILE` or `FILE`."""

    place: Location
    system: Any

    def names(self, directory: str = "") -> dict[str, int]:
        """What is in it, with sizes in bytes (-1: a directory). Other names than ours are passed over: they may lead
        anywhere. Raises FileNotFoundError."""
        with self._told():
            found = self.system.ls(self._path(directory), detail=True)
        return {
            name: -1 if one["type"] == "directory" else int(one["size"] or 0)
            for one in found
            if _NAME.fullmatch(name := str(one["name"]).rstrip("/").rpartition("/")[2])
            and one["type"] in ("file", "directory")
        }

    def read(self, name: str, most: int) -> bytes:
        """A small file, no more than `most` bytes and one. Raises FileNotFoundError."""
        try:
            return self._read(name, most)
        except RemoteFailed:
            return self._read(name, most)  # a shorter one may have replaced it since its size was asked for

    def _read(self, name: str, most: int) -> bytes:
        with self._told():
            size = min(self._size(name), most + 1)
        return b"".join(self.chunks(name, size))

    def _size(self, name: str) -> int:
        return int(self.system.info(self._path(name))["size"])

    def chunks(self, name: str, size: int) -> Iterator[bytes]:
        """The first `size` bytes. Raises FileNotFoundError."""
        path = self._path(name)
        with self._told(), self.system.open(path, "rb", block_size=_BLOCK, size=size) as file:
            while size and (chunk := file.read(min(size, _CHUNK))):
                size -= len(chunk)
                yield chunk

    def put(self, source: Path, name: str) -> None:
        """Whole, or not under this name."""
        with self._writing(name):
            self.system.put_file(str(source), self._path(name))
            stored, wanted = self._size(name), source.stat().st_size
        if stored != wanted:
            raise self._failed(f"{name} has {stored} bytes there, not {wanted}")

    def create(self, name: str, content: bytes) -> None:
        """A new small file, if the server of S3 knows If-None-Match. Raises FileExistsError."""
        with self._writing(name):
            self.system.pipe_file(self._path(name), content, mode="create")

    def write(self, name: str, content: bytes) -> None:
        """A small file, in the place of whatever has that name."""
        with self._writing(name):
            self.system.pipe_file(self._path(name), content)

    def require_space(self, needed: int) -> None:
        """Raises RemoteFull, if the server tells how much is free there; those of S3 do not."""
        if self.place.scheme == "s3":
            return
        with self._told():
            free = self.system.free_bytes(self.place.root)
        if free is not None and free < needed:
            lack = f"{units.size(needed)} needed, {units.size(free)} free"
            raise RemoteFull(place=self.place, lack=lack)

    def remove(self, name: str) -> None:
        """Nothing there is fine. Raises RemovalRefused."""
        with self._told():
            try:
                self.system.rm_file(self._path(name))
            except FileNotFoundError:
                pass
            except PermissionError as error:
                raise RemovalRefused(place=self.place, reason=error.strerror or error) from error

    def remove_directory(self, name: str) -> None:
        """One that is empty."""
        if self.place.scheme == "sftp":
            with self._told():
                self.system.rmdir(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.place.root}/{name}" if name else self.place.root

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        """With the directory that it is to be in."""
        with self._told():
            try:
                if self.place.scheme == "sftp":
                    self.system.makedirs(self._path(name.rpartition("/")[0]), exist_ok=True)
                yield
            except FileNotFoundError as error:
                advice = _BUCKET_HINT if self.place.scheme == "s3" else _HINT
                raise self._failed(str(error), advice) from error

    @contextmanager
    def _told(self) -> Iterator[None]:
        with told(self.place):
            yield

    def _failed(self, reason: str, advice: str = _HINT) -> RemoteFailed:
        return RemoteFailed(place=self.place, reason=reason, advice=advice)


@contextmanager
def opened(place: Location) -> Iterator[Store]:
    """Raises PackageMissing, RemoteFailed."""
    system = _system(place)
    try:
        yield Store(place, system)
    finally:
        if place.scheme == "sftp":
            system.close()


def _system(place: Location) -> Any:
    try:
        module: Any = import_module(SCHEMES[place.scheme])
    except ImportError as error:
        raise PackageMissing(
            place=place, package=error.name or error, extra="remote", packages="fsspec, s3fs and paramiko"
        ) from error
    with told(place):
        if place.scheme == "s3":
            patience = {"connect_timeout": 15, "read_timeout": 60, "retries": {"max_attempts": 2}}
            system = module.S3FileSystem(config_kwargs=patience, use_listings_cache=False, skip_instance_cache=True)
            _warn_if_clear(str(system.s3.meta.endpoint_url))
            return system
        named = {"port": place.port, "username": place.user}
        given = {name: value for name, value in named.items() if value}
        return module.Sftp(place.host, **given, skip_instance_cache=True)


@cache  # once a run, which may open a repository again
def _warn_if_clear(endpoint: str) -> None:
    """For endpoints such as http://minio:9000, unless nothing leaves this host."""
    url = urlsplit(endpoint)
    if url.scheme == "https" or _is_loopback(url.hostname or ""):
        return
    _log.warning(
        "the S3 endpoint http://%s is not encrypted: whoever sees the network can read and change the backups; give an "
        "https:// URL as AWS_ENDPOINT_URL or endpoint_url",
        url.netloc.rpartition("@")[2],
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def told(place: Location) -> Iterator[None]:
    """What the libraries raise, as one error; what says that a file is there, or is not, as it is."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except Exception as error:
        if not _is_of_transport(error):
            raise
        if isinstance(error, OSError) and error.errno in FULL_ERRNOS:
            raise RemoteFull(place=place, lack=FULL) from error
        raise RemoteFailed(
            place=place, reason=str(error) or type(error).__name__, advice=_advice(error, place)
        ) from error


def _is_of_transport(error: Exception) -> bool:
    """Each library has a root of errors of its own."""
    roots = ("botocore", "aiobotocore", "aiohttp", "paramiko", "fsspec", "s3fs")
    kinds = [kind.__module__.partition(".")[0] for kind in type(error).__mro__]
    return isinstance(error, (OSError, EOFError)) or any(kind in roots for kind in kinds)


def _advice(error: Exception, place: Location) -> str:
    refused = isinstance(error, PermissionError) or "Credential" in type(error).__name__
    if place.scheme == "s3" and refused:
        return _S3_HINT
    if type(error).__name__ in _SSH_REFUSED or "known_hosts" in str(error):
        return _SSH_HINT
    return _HINT
