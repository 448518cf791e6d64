"""fsspec's S3, through which TLS is verified. Imported only where it is used (the extra `remote`).

Keys, region and endpoint are where every S3 client looks for them: AWS_* in the environment, ~/.aws.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from s3fs import S3FileSystem

_BLOCK = 8 << 20  # bytes that are asked for at once


class S3(S3FileSystem):  # type: ignore[misc]
    """An object is there whole or not at all, so nothing is renamed."""

    @property
    def endpoint(self) -> str:
        """The URL that requests go to, wherever it was configured."""
        return str(self.s3.meta.endpoint_url)

    def close(self) -> None:
        pass

    def create(self, path: str, content: bytes) -> None:
        """A new object, if the server knows If-None-Match. Raises FileExistsError."""
        self.pipe_file(path, content, mode="create")

    def write(self, path: str, content: bytes) -> None:
        self.pipe_file(path, content)

    def free_bytes(self, path: str) -> None:
        """S3 does not tell."""

    def put_whole(self, source: Path, path: str) -> None:
        self.put_file(str(source), path)

    def upload(self, path: str) -> Upload:
        return Upload(self, path)

    def move_whole(self, path: str, new: str) -> None:
        """The server copies, whatever the size. If nothing may be removed there, both names stay."""
        self.copy(path, new)
        with suppress(PermissionError):
            self.rm_file(path)

    def reading(self, path: str, size: int) -> IO[bytes]:
        return cast("IO[bytes]", self.open(path, "rb", block_size=_BLOCK, size=size))

    def mkdir(self, path: str, create_parents: bool = True) -> None:
        """There are none."""

    def makedirs(self, path: str, exist_ok: bool = True) -> None:
        """There are none, and a bucket is made by whoever pays for it."""


class Upload:
    """Of an object, in parts: S3 shows it when it is whole."""

    def __init__(self, system: S3, path: str) -> None:
        bucket, key, _ = system.split_path(path)
        self._ask, self._known = system.call_s3, {"Bucket": bucket, "Key": key}
        self._known["UploadId"] = self._ask("create_multipart_upload", **self._known)["UploadId"]
        self._parts: dict[int, str] = {}

    def put(self, number: int, start: int, content: bytes) -> None:
        said = self._ask("upload_part", **self._known, PartNumber=number, Body=content)
        self._parts[number] = said["ETag"]

    def finish(self) -> None:
        parts = [
            {"PartNumber": number, "ETag": self._parts[number]} for number in sorted(self._parts)
        ]
        self._ask("complete_multipart_upload", **self._known, MultipartUpload={"Parts": parts})

    def give_up(self) -> None:
        self._ask("abort_multipart_upload", **self._known)
