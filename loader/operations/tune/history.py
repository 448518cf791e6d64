"""What was changed before, for people who want it back."""

from __future__ import annotations

from loader.run import journal
from loader.run.journal import Entry


def changes() -> list[Entry]:
    """Oldest first."""
    return journal.entries()
