"""Finds templates: those that come with ditseed by name, others by path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from loader.errors import NoSuchTemplate

HERE = Path(__file__).parent
LISTS = HERE / "data"


def shipped() -> dict[str, Path]:
    return {path.stem: path for path in sorted((HERE / "templates").glob("*.toml"))}


def find(name: str) -> Path:
    """Returns the path of a shipped template (by name) or of another template (by path). Raises NoSuchTemplate."""
    path = shipped().get(name, Path(name))
    if not path.is_file():
        raise NoSuchTemplate(name=name, known=", ".join(shipped()))
    return path


def located(name: str) -> tuple[Path, tuple[Path, ...], Callable[[Path, Mapping[str, str]], str] | None]:
    """Entry point of `ditseed.templates`. Returns the template's file, the directories with more word lists, and the
    function that converts the file to TOML (None if it is TOML already). Raises NoSuchTemplate."""
    path = find(name)
    if path.suffix.lower() == ".toml":
        return path, (LISTS,), None
    from seeders.synthetic import makeldif  # imported here because few templates need it

    return path, (LISTS,), makeldif.convert if makeldif.is_makeldif(path) else None
