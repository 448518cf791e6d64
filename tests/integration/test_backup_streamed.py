"""A backup for another host that is sent while it is made, because this host has no room for it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fixtures import replication
from fixtures.s3 import S3Server
from fixtures.slapd import Slapd
from loader.errors import RemoteFailed
from loader.operations.backup import places, sending
from loader.operations.backup.pack import Packing
from loader.operations.backup.restore import RestoreOptions, restore
from loader.operations.backup.run import BackupOptions
from loader.operations.backup.sending import SentFile
from loader.progress import Progress
from loader.storage import remote
from tests.integration.test_backup_remote import (
    Remote,
    assert_only,
    both,
    bucket,
    directory,
    other,
    place,
    server,
    source,
    ssh,
)
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd
__all__ = ["bucket", "directory", "other", "place", "server", "source", "ssh"]

NO_ROOM = ("--keep-free", "1000T")
QUIET = Progress("none")
LEAST = 5 << 20  # bytes of a part that S3 takes


@both
@pytest.mark.parametrize("words", [[], ["--incremental"], ["--kind", "ldif"]], ids=" ".join)
def test_restored_it_is_the_same(
    source: Slapd, other: Slapd, place: Remote, words: list[str], tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = place.run(source, *words, *NO_ROOM, "-v", "--tmp", scratch).ok()
    assert "it is sent while it is made" in done.err
    assert not list(scratch.iterdir())
    (made,) = place.listed()
    place.backup("verify").ok()
    place.restore(other).ok()
    assert_same(source, other)
    assert_only(place, made)


@both
def test_killed(source: Slapd, place: Remote) -> None:
    """What had been sent is no backup, and the next run removes it."""
    words = (source, "--incremental", *NO_ROOM)
    for point in ("copy.middle", "copy.recorded", "send.middle"):
        assert place.run(*words, DITSEED_KILL_AT=point).status == -signal.SIGKILL
        assert place.listed() == []
    for _ in range(2):  # the second finds nothing new
        place.run(*words).ok()
        assert_only(place, *place.listed())
        assert not [name for name in place.names() if name.endswith(("pages.pack", ".partial"))]


def test_the_server_stops(source: Slapd, other: Slapd, server: S3Server, bucket: Remote) -> None:
    good = bucket.run(source, "--json").ok().facts["id"]
    server.proxy.refuse_after(50_000)
    assert bucket.run(source, *NO_ROOM).status == RemoteFailed.exit_status
    server.proxy.accept()
    assert bucket.listed() == [good]
    bucket.restore(other).ok()
    assert_same(source, other)


@pytest.fixture(scope="module")
def large() -> Iterator[Slapd]:
    """Its data, uncompressed, takes four parts; stopped."""
    person = "dn: cn={0},{1}\nobjectClass: person\ncn: {0}\nsn: {0}\ndescription: {2}\n\n"
    with closing(replication.provider()) as made:
        text = "".join(person.format(number, made.suffix, "x" * 1_000_000) for number in range(16))
        made.slapadd(f"dn: {made.suffix}\nobjectClass: domain\ndc: example\n\n{text}", "-w")
        yield made


@both
def test_many_parts(
    large: Slapd, place: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    for name, value in place.environment.items():
        if value:
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(sending, "PART", LEAST)
    packing = Packing("none", keep_free=1 << 50)
    places.init(remote.parse(place.url))
    with places.at(remote.parse(place.url), QUIET, tmp_path, changes=True) as there:
        options = BackupOptions(there.path, source=large.database_dir, packing=packing)
        made = there.run(options, QUIET)
        assert made.data_bytes > 3 * LEAST
        wanted = RestoreOptions(there.path, "latest", target=tmp_path / "back")
        (found,) = restore(wanted, QUIET, there.bring)
    assert found.entries == 17


class Parts:
    """What is put together of parts, as they come."""

    def __init__(self) -> None:
        self.parts: dict[int, tuple[int, bytes]] = {}

    def put(self, number: int, start: int, content: bytes) -> None:
        assert number not in self.parts
        self.parts[number] = (start, content)

    def together(self) -> bytes:
        whole = b""
        for _, (start, content) in sorted(self.parts.items()):
            assert start == len(whole)
            whole += content
        return whole


@pytest.mark.parametrize(
    "sizes", [[], [3], [10], [10, 1], [4, 4, 4, 4, 4, 4, 9], [95, 1], [1] * 31]
)
def test_parts(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten bytes; the beginning is known last."""
    monkeypatch.setattr(sending, "PART", 10)
    parts: Any = Parts()
    pieces = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    with ThreadPoolExecutor(1) as sender:
        file = SentFile(parts, sender)
        for piece in pieces:
            file.append(piece)
        wanted = b"".join(pieces)
        assert file.size == len(wanted)
        if wanted:
            file.put_first(b"!")
            wanted = b"!" + wanted[1:]
        file.finish()
    assert parts.together() == wanted
    assert all(len(content) >= 10 for _, content in list(parts.parts.values())[:-2])


def test_a_part_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "PART", 10)

    class Broken(Parts):
        def put(self, number: int, start: int, content: bytes) -> None:
            raise OSError("gone")

    broken: Any = Broken()
    with ThreadPoolExecutor(1) as sender:
        file = SentFile(broken, sender)
        file.append(bytes(10))
        file.append(bytes(10))
        with pytest.raises(OSError, match="gone"):
            file.append(bytes(10))
