"""Finds a leaked password in files, and in what /proc shows of every process while a command runs."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from fixtures.aside import BackgroundThread

SHOWN = ("cmdline", "environ", "comm")  # files of /proc/PID that others, or a support bundle, may read
LOOKS_APART = 0.005  # seconds between two looks at all processes


def forms(secret: bytes) -> set[bytes]:
    """Returns the secret as text, in hexadecimal, in a URL, and in base64 at any offset of the encoded data."""
    found = {secret, secret.hex().encode(), secret.hex().upper().encode(), quote(secret).encode()}
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + secret)
        # Leaves out the groups of 4 that neighbouring bytes affect.
        found.add(encoded[4 if before else 0 : len(encoded) - 4])
    return found


def in_files(top: Path, secret: bytes) -> list[str]:
    """Returns the files below `top` whose name or content contains the secret."""
    wanted = forms(secret)
    return [str(path) for path in sorted(top.rglob("*")) if any(form in _content(path) for form in wanted)]


def _content(path: Path) -> bytes:
    name = str(path).encode()
    return name + path.read_bytes() if path.is_file() else name


def in_text(text: str, secret: bytes) -> bool:
    return any(form in text.encode() for form in forms(secret))


class Watch(BackgroundThread):
    """`with Watch(secret, about):` looks at every process repeatedly.

    `leaks`: the places that showed the secret. `seen`: for each process whose command line names `about`, ID -> looks.
    """

    def __init__(self, secret: bytes, about: str) -> None:
        super().__init__()
        self._forms = forms(secret)
        self._about = about.encode()
        self.leaks: set[str] = set()
        self.seen: dict[int, int] = {}

    def _work(self) -> None:
        while not self._over.wait(LOOKS_APART):
            for pid, name, content in _shown():
                if any(form in content for form in self._forms):
                    self.leaks.add(f"{name} of {pid}: {content[:200]!r}")
                if name == "cmdline" and self._about in content:
                    self.seen[pid] = self.seen.get(pid, 0) + 1


def _shown() -> Iterator[tuple[int, str, bytes]]:
    for place in Path("/proc").glob("[0-9]*"):
        for name in SHOWN:
            try:
                yield int(place.name), name, (place / name).read_bytes()
            except OSError:
                continue  # the process has ended, or this account may not read the file
