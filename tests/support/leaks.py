"""Where a password came out: files below a directory, and what every process shows of itself while a command runs."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from fixtures.aside import BackgroundThread

SHOWN = ("cmdline", "environ", "comm")  # of /proc/PID: what others, or a support bundle, may read
LOOKS_APART = 0.005  # seconds


def forms(secret: bytes) -> set[bytes]:
    """How it may be written: plain, in hexadecimal, in a URL, and in base64, wherever in what is encoded it stands."""
    found = {secret, secret.hex().encode(), secret.hex().upper().encode(), quote(secret).encode()}
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + secret)
        # Without the groups of 4 that other bytes have a part in.
        found.add(encoded[4 if before else 0 : len(encoded) - 4])
    return found


def in_files(top: Path, secret: bytes) -> list[str]:
    """Files below `top` whose name or content holds it."""
    wanted = forms(secret)
    return [str(path) for path in sorted(top.rglob("*")) if any(form in _content(path) for form in wanted)]


def _content(path: Path) -> bytes:
    name = str(path).encode()
    return name + path.read_bytes() if path.is_file() else name


def in_text(text: str, secret: bytes) -> bool:
    return any(form in text.encode() for form in forms(secret))


class Watch(BackgroundThread):
    """`with Watch(secret, about):` looks at every process again and again.

    leaks: what showed it. seen: process ID -> how many looks met it, of processes whose command line names `about`.
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
                continue  # it has ended, or it is not ours to read
