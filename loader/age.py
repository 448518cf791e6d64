"""Encryption to recipients in the format of age (age-encryption.org/v1), by pyrage, which is optional: only this module
imports it, where it is needed.

An identity is a secret: no message has anything of one, nor what pyrage says about it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from loader.errors import PackageMissing, UsageProblem
from loader.storage import files, held

SUFFIX = ".age"  # of the name of an encrypted file
_LARGEST = 1 << 20  # bytes of a file of keys
_READ = 1 << 20  # bytes that are read at once
_ENCRYPTED = (b"age-encryption.org/", b"-----BEGIN AGE ENCRYPTED FILE-----")
_SSH = b"-----BEGIN "
_NO_MATCH = "No matching keys"  # what pyrage says; it has one class for all that can go wrong


class NotARecipient(Exception):
    """None of the identities can decrypt it."""


class Broken(Exception):
    """It was cut off, or changed since it was encrypted."""


@dataclass(frozen=True)
class Recipients:
    """names: the public keys, as they are shown. Each can decrypt everything."""

    names: tuple[str, ...]
    keys: tuple[Any, ...]

    def encrypt(self, data: bytes) -> bytes:
        """The length differs each time: rage adds a stanza by chance."""
        sealed: bytes = _pyrage().encrypt(data, self.keys)
        return sealed

    def encrypt_stream(self, content: Iterable[bytes], put: Callable[[bytes], object]) -> None:
        """As one age file. pyrage keeps the interpreter lock meanwhile. Raises what `content` and `put` do."""
        pyrage, stream = _pyrage(), _Stream(content, put)
        try:
            pyrage.encrypt_io(stream, stream, self.keys)
        except (pyrage.EncryptError, OSError) as error:
            raise stream.failure or error from error


@dataclass(frozen=True, repr=False)
class Identities:
    keys: tuple[Any, ...]

    def decrypt(self, sealed: bytes) -> bytes:
        """Raises NotARecipient, Broken."""
        pyrage = _pyrage()
        try:
            data: bytes = pyrage.decrypt(sealed, self.keys)
            return data
        except pyrage.DecryptError as error:
            raise NotARecipient if _NO_MATCH in str(error) else Broken from None

    def decrypt_stream(self, file: BinaryIO, put: Callable[[bytes], object]) -> None:
        """Raises NotARecipient, Broken, and what reading and `put` do."""
        pyrage = _pyrage()
        stream = _Stream(iter(lambda: file.read(_READ), b""), put)
        try:
            pyrage.decrypt_io(stream, stream, self.keys)
        except (pyrage.DecryptError, OSError) as error:
            if stream.failure is not None:
                raise stream.failure from error
            raise NotARecipient if _NO_MATCH in str(error) else Broken from None


class _Stream:
    """What pyrage reads from and writes to. failure: what stopped it, of which pyrage tells no more than the text."""

    def __init__(self, content: Iterable[bytes], put: Callable[[bytes], object]) -> None:
        self._content, self._put = iter(content), put
        self._rest = memoryview(b"")
        self.failure: BaseException | None = None

    def read(self, size: int) -> bytes:
        try:
            while not self._rest:
                self._rest = memoryview(next(self._content))
        except StopIteration:
            return b""
        except BaseException as error:
            self.failure = error
            raise
        part, self._rest = self._rest[:size], self._rest[size:]
        return bytes(part)

    def write(self, content: bytes) -> int:
        try:
            self._put(content)
        except BaseException as error:
            self.failure = error
            raise
        return len(content)

    def flush(self) -> None:
        """`put` keeps nothing back."""


def recipients(words: Sequence[str], paths: Sequence[Path]) -> Recipients | None:
    """Public keys as they are given, and those of age's files of them; None where nothing is given. Raises
    UsageProblem, NoSuchPath, NotPermitted, PackageMissing."""
    if not words and not paths:
        return None
    asked = [*((word.strip(), "a recipient") for word in words)]
    for path in paths:
        asked += _lines(_content(path), path)
    found = dict(_recipient(text, place) for text, place in asked)
    if not found:
        raise UsageProblem(reason=f"{', '.join(map(str, paths))}: holds no recipient")
    return Recipients(tuple(found), tuple(found.values()))


def _recipient(text: str, place: str) -> tuple[str, Any]:
    """Its name, without the comment of an SSH key, and what encrypts to it. A text that is no key is not repeated: it
    may be a secret one."""
    pyrage, name = _pyrage(), " ".join(text.split()[:2])
    kind = pyrage.ssh.Recipient if name.startswith("ssh-") else pyrage.x25519.Recipient
    try:
        return name, kind.from_str(name)
    except pyrage.RecipientError:
        known = "age1..., ssh-ed25519 ... or ssh-rsa ..."
        raise UsageProblem(reason=f"{place} is not a public key of age or SSH: {known}") from None


def identities(paths: Sequence[Path]) -> Identities:
    """Of age's files of identities, and of private keys of SSH. Raises UsageProblem, NoSuchPath, NotPermitted,
    PackageMissing."""
    return Identities(tuple(key for path in paths for key in _identities(path)))


def _identities(path: Path) -> list[Any]:
    content = _content(path, secret=True)
    if content.startswith(_ENCRYPTED):
        made = "decrypt it into a file that only you can read: (umask 077; age -d FILE > OTHER)"
        raise UsageProblem(reason=f"{path} is an identity under a passphrase; {made}")
    pyrage = _pyrage()
    if content.startswith(_SSH):
        try:
            return [pyrage.ssh.Identity.from_buffer(content)]
        except pyrage.IdentityError:
            known = "an Ed25519 or RSA key without a passphrase (ssh-keygen -p takes one off a copy)"
            raise UsageProblem(reason=f"{path} cannot be used as an identity: give {known}") from None
    keys = []
    for text, place in _lines(content, path):
        try:
            keys.append(pyrage.x25519.Identity.from_str(text))
        except pyrage.IdentityError:
            raise UsageProblem(reason=f"{place} is not an identity: AGE-SECRET-KEY-1...") from None
    if not keys:
        raise UsageProblem(reason=f"{path} holds no identity")
    return keys


def _lines(content: bytes, path: Path) -> Iterator[tuple[str, str]]:
    """What stands in a file of keys, and where."""
    for number, line in enumerate(content.decode("ascii", "replace").splitlines(), 1):
        if line.strip() and not line.strip().startswith("#"):
            yield line.strip(), f"{path}, line {number},"


def _content(path: Path, secret: bool = False) -> bytes:
    with files.explained(path), os.fdopen(held.secret(path, may_be_read=not secret)[0], "rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise UsageProblem(reason=f"{path} is too large for a file of keys")
    return content


def _pyrage() -> Any:
    try:
        return import_module("pyrage")
    except ImportError as error:
        raise PackageMissing(
            place="encryption", package=error.name or error, extra="encrypted", packages="pyrage"
        ) from error
