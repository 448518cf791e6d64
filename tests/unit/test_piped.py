"""A pipe between a writer and a reader of one process: whichever fails, the failure that came first is told."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from loader.errors import LdifTruncated, MdbDamaged, ReaderGone
from loader.piped import piped

MUCH = b"x" * (4 << 20)  # more than a pipe holds


def _all(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read()


def _write(descriptor: int) -> int:
    with os.fdopen(os.dup(descriptor), "wb") as file:
        return file.write(MUCH)


def test_what_is_written_is_read() -> None:
    with piped(_write, "test") as (descriptor, made):
        assert _all(descriptor) == MUCH
    assert made.result() == len(MUCH)


@pytest.mark.parametrize("kind", [BrokenPipeError(), ReaderGone(path="x", what="LDIF")])
def test_a_reader_may_stop_early(kind: BaseException) -> None:
    def write(descriptor: int) -> None:
        try:
            _write(descriptor)
        except BrokenPipeError:
            raise kind from None

    with piped(write, "test") as (descriptor, _):
        assert os.read(descriptor, 1) == b"x"


def _fail(descriptor: int) -> None:
    raise MdbDamaged(path="x", reason="of the source")


def _strict(descriptor: int) -> None:
    """As the core reads LDIF, which has to end with a whole record."""
    if not _all(descriptor):
        raise LdifTruncated(path="x", line=1, reason="the end is missing")


@pytest.mark.parametrize("read", [_all, _strict])
def test_the_writer_failed_first(read: Callable[[int], object]) -> None:
    with pytest.raises(MdbDamaged), piped(_fail, "test") as (descriptor, _):
        read(descriptor)


@pytest.mark.parametrize("kind", [LdifTruncated(path="x", line=1, reason=""), KeyboardInterrupt()])
def test_the_reader_failed_first(kind: BaseException) -> None:
    with pytest.raises(type(kind)), piped(_write, "test"):
        raise kind
