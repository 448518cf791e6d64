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

    def encrypt_stream(self, content: Iterable[bytes], put: Callable[[bytes], object]) -> None:
        """Writes one age file; its length differs each time, for rage adds a stanza by chance. pyrage keeps the
        interpreter lock meanwhile. Raises what `content` and `put` do."""
        pyrage, stream = _pyrage(), _Stream(content, put)
        try:
            pyrage.encrypt_io(stream, stream, self.keys)
        except (pyrage.EncryptError, OSError) as error:
            raise stream.failure or error from error


@dataclass(frozen=True, repr=False)
class Identities:
    keys: tuple[Any, ...]

    def decrypt_stream(self, file: BinaryIO, put: Callable[[bytes], object]) -> None:
        """Raises NotARecipient, Broken, and what reading and `put` do."""
        pyrage, stream = _pyrage(), _Stream(iter(lambda: file.read(_READ), b""), put)
        try:
            pyrage.decrypt_io(stream, stream, self.keys)
        except (pyrage.DecryptError, OSError) as error:
            if stream.failure is not None:
                raise stream.failure from error
            raise NotARecipient if _NO_MATCH in str(error) else Broken from None


class _Stream:
    """The reader and the writer of pyrage. failure: the error of `content` or `put` that stopped it: pyrage reports
    its text only."""

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
    """Public keys, and those in age's files of recipients; None if neither is given. A text that is no key is not
    repeated, for it may be a secret one. Raises UsageProblem, NoSuchPath, NotPermitted, PackageMissing."""
    if not words and not paths:
        return None
    texts = [(word.strip(), "a recipient") for word in words]
    for path in paths:
        texts += _lines(_content(path), path)
    pyrage, keys = _pyrage(), dict[str, Any]()
    for text, source in texts:
        name = " ".join(text.split()[:2])  # without the comment of an SSH key
        kind = pyrage.ssh.Recipient if name.startswith("ssh-") else pyrage.x25519.Recipient
        try:
            keys[name] = kind.from_str(name)
        except pyrage.RecipientError:
            known = "age1..., ssh-ed25519 ... or ssh-rsa ..."
            raise UsageProblem(reason=f"{source} is not a public key of age or SSH: {known}") from None
    if not keys:
        raise UsageProblem(reason=f"{', '.join(map(str, paths))}: holds no recipient")
    return Recipients(tuple(keys), tuple(keys.values()))


def identities(paths: Sequence[Path]) -> Identities:
    """Those in age's files of identities, and private keys of SSH. Raises UsageProblem, NoSuchPath, NotPermitted,
    PackageMissing."""
    return Identities(tuple(key for path in paths for key in _identities(path)))


def _identities(path: Path) -> Iterator[Any]:
    content, pyrage = _content(path, secret=True), _pyrage()
    reason = f"{path} holds no identity"
    try:
        if content.startswith(_ENCRYPTED):
            decrypt = "decrypt it into a file that only you can read: (umask 077; age -d FILE > OTHER)"
            raise UsageProblem(reason=f"{path} is an identity under a passphrase; {decrypt}")
        if content.startswith(_SSH):
            known = "an Ed25519 or RSA key without a passphrase (ssh-keygen -p takes one off a copy)"
            reason = f"{path} cannot be used as an identity: give {known}"
            yield pyrage.ssh.Identity.from_buffer(content)
            return
        lines = list(_lines(content, path))
        for text, source in lines:
            reason = f"{source} is not an identity: AGE-SECRET-KEY-1..."
            yield pyrage.x25519.Identity.from_str(text)
    except pyrage.IdentityError:
        raise UsageProblem(reason=reason) from None
    if not lines:
        raise UsageProblem(reason=reason)


def _lines(content: bytes, path: Path) -> Iterator[tuple[str, str]]:
    """The keys in a file, and the line of each for messages."""
    for number, line in enumerate(content.decode("ascii", "replace").splitlines(), 1):
        if (text := line.strip()) and not text.startswith("#"):
            yield text, f"{path}, line {number},"


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
