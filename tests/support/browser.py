"""Opens a page in a real browser, and returns its console messages and its colours."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome")
BLUE = (0x00, 0x72, 0xB2)  # colour of the bars in a report
Colour = tuple[int, int, int]


def _browser() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)


def missing_browser() -> str | None:
    return None if _browser() else f"no browser: none of {', '.join(_NAMES)} (Debian: chromium)"


def browse(path: Path) -> tuple[list[str], Counter[Colour]]:
    """Returns the console's lines, and the number of pixels of each colour."""
    with tempfile.TemporaryDirectory(prefix="browser-") as home:
        shot = Path(home) / "shot.png"
        words = (
            *(str(_browser()), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--enable-logging=stderr", f"--user-data-dir={home}/profile"),
            *("--window-size=1000,2400", f"--screenshot={shot}", path.absolute().as_uri()),
        )
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        found = re.findall(r"^.*CONSOLE.*$", done.stderr, flags=re.M)
        return found, _colours(shot.read_bytes())


def _colours(picture: bytes) -> Counter[Colour]:
    from matplotlib import image

    pixels = (image.imread(io.BytesIO(picture), format="png")[:, :, :3] * 255).round()
    return Counter(map(tuple, pixels.astype(int).reshape(-1, 3).tolist()))
