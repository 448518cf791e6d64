"""What every chart needs: a name that tells its kind, and the library that draws it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from loader.errors import UsageProblem

KINDS = (".svg", ".png")
_LACKING = (
    "needs the Python package matplotlib: pip install 'ditseed[charts]', or your distribution's (Debian: apt install "
    "python3-matplotlib)"
)


def require(path: Path) -> None:
    """Before the work, not after it. Raises UsageProblem."""
    if path.suffix.lower() not in KINDS:
        raise UsageProblem(reason=f"--chart {path}: the name must end in {' or '.join(KINDS)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageProblem(reason=f"--chart {_LACKING}")


def kind_of(path: Path) -> str:
    """As matplotlib names it."""
    return path.suffix[1:].lower()
