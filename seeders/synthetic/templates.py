"""Where templates are: those shipped by their names, others by their paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def located(name: str) -> tuple[Path, tuple[Path, ...], Callable[[Path, Mapping[str, str]], str] | None]:
    """An entry point of `ditseed.templates`: the file, where its lists are besides, and what converts it to TOML if it
    is of another program."""
    path = find(name)
    if path.suffix.lower() == ".toml":
        return path, (LISTS,), None
    from seeders.synthetic import makeldif  # few templates need it

    return path, (LISTS,), makeldif.convert if makeldif.is_makeldif(path) else None
