"""Reads JSON files of earlier runs, and checks their types, version and size, but not the meaning of their values."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from loader.errors import FileUnsafe
from loader.storage import held

T = TypeVar("T")

LARGEST = 64 << 20  # maximum bytes of a file; the manifest of an export of a billion entries has far less

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"^[^/\x00-\x1f\x7f]+\Z")]
Digest32 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]  # XXH3 (128 bits), or a sum of XXH3s
Digest64 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]  # SHA-256
Csn = Annotated[str, msgspec.Meta(max_length=128, pattern=r"^[0-9A-Za-z.#+-]+\Z")]


class Unfit(ValueError):
    """The reason why a file is invalid, in lower case, as part of a message."""


def read(path: Path, kind: type[T], version: int) -> T:
    """Returns the file as `kind`, a struct whose field `format` must be `version`. Raises Unfit, OSError."""
    return parse(content(path), kind, version)


def content(path: Path) -> bytes:
    """Returns the content of a file. Raises OSError; Unfit if the file is a link, not a regular file, or too large."""
    try:
        descriptor = held.reading(path, links=False)
    except FileUnsafe as error:
        is_link = error.facts["kind"] == held.SYMBOLIC_LINK
        raise Unfit(f"is {held.SYMBOLIC_LINK}" if is_link else "is not a regular file") from error
    with held.named(path), os.fdopen(descriptor, "rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Unfit(f"is larger than {LARGEST >> 20} MiB")
    return data


def parse(text: bytes, kind: type[T], version: int) -> T:
    """Like `read`, but parses the content `text` of a file."""
    try:
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        if "format" not in fields:
            raise Unfit("not a manifest: no field 'format'")
        written = msgspec.json.decode(fields["format"], type=int)
        if written != version:
            raise Unfit(f"format {written}, but this ditseed reads {version}")
        # An unknown field may change the meaning of the others.
        unknown = sorted(fields.keys() - {field.encode_name for field in msgspec.structs.fields(kind)})  # type: ignore[arg-type]
        if unknown:
            raise Unfit(f"not a manifest: unknown field {unknown[0]!r}")
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Unfit(f"not a manifest: {error}") from error
