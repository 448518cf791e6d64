"""Keys of age and SSH as they are given, what they decrypt, and what is refused."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from loader import age
from loader.errors import FileUnsafe, NoSuchPath, PackageMissing, UsageProblem
from tests.support.keys import Key, generated


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return generated(tmp_path_factory.mktemp("key") / "key.txt")


def encrypted(*words: str) -> bytes:
    made = age.recipients(words, [])
    parts = list[bytes]()
    made.encrypt_stream([b"secret"], parts.append)
    return b"".join(parts)


def decrypted(identities: age.Identities, content: bytes) -> bytes:
    parts = list[bytes]()
    identities.decrypt_stream(io.BytesIO(content), parts.append)
    return b"".join(parts)


def ssh_key(place: Path, kind: str, passphrase: str = "") -> Key:
    words = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "me@host", "-f", str(place)]
    subprocess.run(words, check=True)
    return Key(place, place.with_name(place.name + ".pub").read_text().strip())


def test_each_recipient_decrypts(key: Key, tmp_path: Path) -> None:
    second, third = generated(tmp_path / "second"), generated(tmp_path / "third")
    made = encrypted(key.public, second.public)
    for paths in ([key.path], [second.path], [third.path, key.path]):
        assert decrypted(age.identities(paths), made) == b"secret"
    with pytest.raises(age.NotARecipient):
        decrypted(age.identities([third.path]), made)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
def test_keys_of_ssh(tmp_path: Path, kind: str) -> None:
    one = ssh_key(tmp_path / "key", kind)
    made = age.recipients([one.public], [])
    assert made.names == (one.public.removesuffix(" me@host"),)
    assert decrypted(age.identities([one.path]), encrypted(one.public)) == b"secret"


def test_a_file_of_recipients(key: Key, tmp_path: Path) -> None:
    second = generated(tmp_path / "second")
    path = tmp_path / "recipients"
    path.write_text(f"# ours\n\n  {key.public}\n{second.public}\n{key.public}\n")
    made = age.recipients([second.public], [path])
    assert made.names == (second.public, key.public)


def test_each_flipped_bit_is_noticed(key: Key) -> None:
    """In the stanzas a bit may be what tells for whom it is."""
    whole, mine = encrypted(key.public), age.identities([key.path])
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1
        with pytest.raises((age.Broken, age.NotARecipient)):
            decrypted(mine, bytes(changed))
    for length in (0, 10, len(whole) - 1):
        with pytest.raises(age.Broken):
            decrypted(mine, whole[:length])


@pytest.mark.parametrize("word", ["age1", "AGE-SECRET-KEY-1SECRET", "ssh-dss AAAA", "ssh-rsa", ""])
def test_what_is_no_recipient(word: str, tmp_path: Path) -> None:
    path = tmp_path / "recipients"
    path.write_text(f"# no key\n{word or '# nor here'}\n")
    for words, paths in (((word,), []), ((), [path])):
        with pytest.raises(UsageProblem) as caught:
            age.recipients(words, paths)
        assert "SECRET" not in str(caught.value)


def test_what_is_no_identity(key: Key, tmp_path: Path) -> None:
    secret = key.path.read_text().splitlines()[1]
    locked = ssh_key(tmp_path / "locked", "ed25519", "passphrase")
    path = tmp_path / "identity"
    for content, said in (
        (secret[:-1].encode(), "line 1"),
        (f"# one\n{secret}x\n".encode(), "line 2"),
        (b"AGE-PLUGIN-YUBIKEY-1QQQ", "not an identity"),
        (encrypted(key.public), "passphrase"),
        (b"-----BEGIN AGE ENCRYPTED FILE-----\n", "passphrase"),
        (b"-----BEGIN OPENSSH PRIVATE KEY-----\n", "Ed25519"),
        (locked.path.read_bytes(), "without a passphrase"),
        (b"# empty\n", "no identity"),
        (bytes(range(256)), "not an identity"),
        (b"#" * (1 << 21), "too large"),
    ):
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(UsageProblem, match=said) as caught:
            age.identities([path])
        assert "AGE-SECRET-KEY-1" not in str(caught.value).replace("AGE-SECRET-KEY-1...", "")
        assert caught.value.__cause__ is None


def test_files_that_others_can_read_or_write(key: Key, tmp_path: Path) -> None:
    identity, recipients = tmp_path / "key", tmp_path / "recipients"
    identity.write_bytes(key.path.read_bytes())
    for mode in (0o640, 0o604, 0o620, 0o602):
        identity.chmod(mode)
        with pytest.raises(UsageProblem, match="chmod 600"):
            age.identities([identity])
    recipients.write_text(key.public)
    for mode in (0o664, 0o646):
        recipients.chmod(mode)
        with pytest.raises(UsageProblem, match="chmod go-w"):
            age.recipients([], [recipients])
    if os.geteuid() == 0:  # only root gives files away
        identity.chmod(0o600)
        os.chown(identity, 65534, 65534)
        with pytest.raises(UsageProblem, match="belongs to uid 65534"):
            age.identities([identity])


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(NoSuchPath):
        age.identities([tmp_path / "none"])
    with pytest.raises(FileUnsafe):
        age.identities([tmp_path])


def test_the_package_is_missing(monkeypatch: pytest.MonkeyPatch, key: Key) -> None:
    monkeypatch.setitem(sys.modules, "pyrage", None)
    with pytest.raises(PackageMissing, match="pyrage") as caught:
        age.recipients([key.public], [])
    assert "ditseed[encrypted]" in str(caught.value.advice())
