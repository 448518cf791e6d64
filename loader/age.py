"""Encrypts and decrypts files in the age format (age-encryption.org/v1), with the optional package pyrage. Only this
module imports pyrage, at its first use.

An identity is a secret key. No message contains a part of an identity, or pyrage's error text about an identity.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from loader.errors import PackageMissing, UsageProblem
from loader.storage import files, held

SUFFIX = ".age"  # end of the file name of an encrypted file
_KEY_FILE_LIMIT = 1 << 20  # bytes; a larger key file is rejected
_READ = 1 << 20  # bytes per read
_PASSPHRASE_HEADERS = (b"age-encryption.org/", b"-----BEGIN AGE ENCRYPTED FILE-----")
_SSH_HEADER = b"-----BEGIN "
_NO_MATCH = "No matching keys"  # pyrage has one class for all decryption errors; this text: no identity matches


class NotARecipient(Exception):
    """None of the identities can decrypt the file."""


class Broken(Exception):
    """The file was truncated or changed after its encryption."""


class Recipients(Struct, frozen=True):
    """Public keys, also as text (`names`). The owner of any of these keys can decrypt the files."""

    names: tuple[str, ...]
    keys: tuple[Any, ...]

    def encrypt_stream(self, content: Iterable[bytes], put: Callable[[bytes], object]) -> None:
        """Encrypts `content` to one age file, and passes this file's bytes to `put`. The file's length varies, because
        rage (in pyrage) adds a random stanza. Holds the GIL. Raises the exceptions of `content` and `put`."""
        pyrage, stream = _pyrage(), _Stream(content, put)
        try:
            pyrage.encrypt_io(stream, stream, self.keys)
        except (pyrage.EncryptError, OSError) as error:
            raise stream.failure or error from error


class Identities(Struct, frozen=True):
    keys: tuple[Any, ...]

    def decrypt_stream(self, file: BinaryIO, put: Callable[[bytes], object]) -> None:
        """Decrypts `file` and passes its content to `put`. Raises NotARecipient, Broken, errors of `file` and `put`."""
        pyrage, stream = _pyrage(), _Stream(iter(lambda: file.read(_READ), b""), put)
        try:
            pyrage.decrypt_io(stream, stream, self.keys)
        except (pyrage.DecryptError, OSError) as error:
            if stream.failure is not None:
                raise stream.failure from error
            raise NotARecipient if _NO_MATCH in str(error) else Broken from None


class _Stream:
    """The file that pyrage reads and writes. pyrage reports only the text of an exception that is raised here.
    `failure`: the exception itself."""

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
        """Does nothing: `put` does not buffer."""


def recipients(words: Sequence[str], paths: Sequence[Path]) -> Recipients:
    """Returns the public keys in `words` and in the recipient files `paths`. No message quotes an invalid key: it may
    be a secret key. Raises UsageProblem, NoSuchPath, NotPermitted, PackageMissing."""
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
            forms = "age1..., ssh-ed25519 ... or ssh-rsa ..."
            raise UsageProblem(reason=f"{source} is not a public key of age or SSH: {forms}") from None
    if not keys:
        raise UsageProblem(reason=f"{', '.join(map(str, paths))}: contains no recipient")
    return Recipients(tuple(keys), tuple(keys.values()))


def identities(paths: Sequence[Path]) -> Identities:
    """Returns the secret keys in age identity files and SSH private key files. Raises UsageProblem, NoSuchPath,
    NotPermitted, PackageMissing."""
    keys = list[Any]()
    for path in paths:
        content, pyrage, source = _content(path, secret=True), _pyrage(), str(path)
        if content.startswith(_PASSPHRASE_HEADERS):
            decrypt = "decrypt it into a file that only you can read: (umask 077; age -d FILE > OTHER)"
            raise UsageProblem(reason=f"{path} is encrypted with a passphrase; {decrypt}")
        try:
            if content.startswith(_SSH_HEADER):
                forms = "an Ed25519 or RSA key without a passphrase (ssh-keygen -p removes it from a copy)"
                reason = f"cannot be used as an identity: give {forms}"
                keys.append(pyrage.ssh.Identity.from_buffer(content))
                continue
            lines = list(_lines(content, path))
            reason = "is not an identity: AGE-SECRET-KEY-1..."
            for text, line in lines:
                source = line
                keys.append(pyrage.x25519.Identity.from_str(text))
        except pyrage.IdentityError:
            raise UsageProblem(reason=f"{source} {reason}") from None
        if not lines:
            raise UsageProblem(reason=f"{path} contains no identity")
    return Identities(tuple(keys))


def _lines(content: bytes, path: Path) -> Iterator[tuple[str, str]]:
    """Yields each key in a key file, and its source (path and line) for messages."""
    for number, line in enumerate(content.decode("ascii", "replace").splitlines(), 1):
        if (text := line.strip()) and not text.startswith("#"):
            yield text, f"{path}, line {number},"


def _content(path: Path, secret: bool = False) -> bytes:
    with files.explained(path), os.fdopen(held.secret(path, others_may_read=not secret)[0], "rb") as file:
        content = file.read(_KEY_FILE_LIMIT + 1)
    if len(content) > _KEY_FILE_LIMIT:
        raise UsageProblem(reason=f"{path} is too large for a key file")
    return content


def _pyrage() -> Any:
    try:
        return import_module("pyrage")
    except ImportError as error:
        raise PackageMissing(
            place="encryption", package=error.name or error, extra="encrypted", packages="pyrage"
        ) from error
