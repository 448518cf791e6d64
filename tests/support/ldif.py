"""Reads LDIF files as text."""

from __future__ import annotations

import io
import json
from pathlib import Path

import zstandard


def text_of_export(directory: Path) -> str:
    """Returns the records of all files of an export."""
    shards = json.loads((directory / "manifest.json").read_text())["shards"]
    return "".join(text_of(directory / shard["name"]) for shard in shards)


def text_of(path: Path) -> str:
    """Returns the records of a file, decompressed, with a blank line at the end."""
    content = path.read_bytes()
    if path.suffix == ".zst":
        reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(content), read_across_frames=True)
        content = reader.read()
    return content.decode()
