"""Where templates are: those shipped by their names, others by their paths."""

from __future__ import annotations

from pathlib import Path

from loader.errors import NoSuchTemplate

HERE = Path(__file__).parent
LISTS = HERE / "data"


def shipped() -> dict[str, Path]:
    """The templates that come with ditseed, by name."""
    return {path.stem: path for path in sorted((HERE / "templates").glob("*.toml"))}


def find(name: str) -> Path:
    """A shipped template by name, or another by path. Raises NoSuchTemplate."""
    path = shipped().get(name, Path(name))
    if not path.is_file():
        raise NoSuchTemplate(name=name, known=", ".join(shipped()))
    return path


def path_of(name: str) -> tuple[Path, tuple[Path, ...]]:
    """The same, and where its lists are besides: an entry point of `ditseed.templates`."""
    return find(name), (LISTS,)
