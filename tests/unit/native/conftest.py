"""What the tests of the native core share: entries as text, and calls fed from files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from loader import _native

Put = Callable[..., Path]


@pytest.fixture
def counters() -> _native.Counters:
    return _native.Counters()


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Writes a file of the given records (whole texts), each followed by a blank line."""

    def write(name: str, *records: str) -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{record.strip()}\n\n" for record in records), "utf-8")
        return path

    return write


@pytest.fixture
def user() -> Callable[..., str]:
    """Text of a person as an export shows it."""

    def text(dn: str, number: int = 0, second: int = 0, **more: str) -> str:
        lines = [
            f"dn: {dn}",
            "objectClass: person",
            f"entryUUID: 00000000-0000-0000-0000-{number:012}",
            f"entryCSN: 202601010000{second:02}.000000Z#000000#001#000000",
            f"modifyTimestamp: 202601010000{second:02}Z",
            *(f"{name}: {value}" for name, value in more.items()),
        ]
        return "\n".join(lines)

    return text
