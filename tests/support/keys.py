"""Keys of age for the tests, made by pyrage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyrage


@dataclass(frozen=True)
class Key:
    """`path`: the file with the identity. `public`: its recipient."""

    path: Path
    public: str


def generated(path: Path) -> Key:
    """Writes a file as age-keygen does."""
    made = pyrage.x25519.Identity.generate()
    path.touch(0o600)
    path.write_text(f"# public key: {made.to_public()}\n{made}\n")
    return Key(path, str(made.to_public()))
