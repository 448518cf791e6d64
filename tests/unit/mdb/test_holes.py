"""Restored files: equal to what went in, and holes where there were zeros."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.storage import files

BLOCK = files.BLOCK


def write(path: Path, content: bytes, piece: int) -> None:
    with path.open("wb") as file:
        for start in range(0, len(content), piece):
            files.write(file, content[start : start + piece])
        file.truncate()


@pytest.mark.slow
@given(st.lists(st.sampled_from([bytes(BLOCK), b"x" * BLOCK, b"\0" * 100 + b"y", b"z"]), max_size=8))
def test_what_is_written_is_what_is_read(tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]) -> None:
    path, content = tmp_path_factory.mktemp("holes") / "file", b"".join(parts)
    write(path, content, 3 * BLOCK)
    assert path.read_bytes() == content


def test_zeros_take_no_room(tmp_path: Path) -> None:
    content = b"a" * BLOCK + bytes(4 << 20) + b"b" * BLOCK + bytes(4 << 20)
    write(tmp_path / "file", content, 1 << 20)
    assert (tmp_path / "file").read_bytes() == content
    assert (tmp_path / "file").stat().st_blocks * 512 <= 16 * BLOCK
