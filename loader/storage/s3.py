"""fsspec's S3, through which TLS is verified. Imported only where it is used (the extra `remote`).

Keys, region and endpoint are where every S3 client looks for them: AWS_* in the environment, ~/.aws.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, cast

from s3fs import S3FileSystem

_BLOCK = 8 << 20  # bytes that are asked for at once


class S3(S3FileSystem):  # type: ignore[misc]
    """An object is there whole or not at all, so nothing is renamed."""

    def close(self) -> None:
        pass

    def create(self, path: str, content: bytes) -> None:
        """A new object, if the server knows If-None-Match. Raises FileExistsError."""
        self.pipe_file(path, content, mode="create")

    def put_whole(self, source: Path, path: str) -> None:
        self.put_file(str(source), path)

    def reading(self, path: str, size: int) -> IO[bytes]:
        return cast("IO[bytes]", self.open(path, "rb", block_size=_BLOCK, size=size))

    def mkdir(self, path: str, create_parents: bool = True) -> None:
        """There are none."""

    def makedirs(self, path: str, exist_ok: bool = True) -> None:
        """There are none, and a bucket is made by whoever pays for it."""
