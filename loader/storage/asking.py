"""Tools of the system that tell a fact: one that is absent, or refuses, is noted, and the fact is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import TypeVar

import msgspec

from loader import child

# Administrators' programs; the path of an ordinary user or of cron often lacks sbin.
_ALSO = "/usr/local/sbin:/usr/sbin:/sbin"
Told = TypeVar("Told")


class Unseen(msgspec.Struct, frozen=True):
    """What could not be looked at, and why."""

    what: str
    why: str


class Asker:
    """Runs tools, and keeps a list of those that gave no answer."""

    def __init__(self) -> None:
        self._unseen: list[Unseen] = []

    @property
    def unseen(self) -> tuple[Unseen, ...]:
        return tuple(self._unseen)

    def missed(self, what: str, why: str) -> None:
        self._unseen.append(Unseen(what, why))

    def output(self, what: str, tool: str, *arguments: str) -> str | None:
        """What the tool prints; None, and `what` is noted as not looked at, when it gives no answer."""
        place = shutil.which(tool, path=f"{os.environ.get('PATH', '')}:{_ALSO}")
        if place is None:
            self.missed(what, f"{tool} is not installed")
            return None
        answer = child.ask([place, *arguments])
        if answer.status != 0:
            said = "; ".join(word.strip() for word in answer.words[-2:] if word.strip())
            self.missed(what, f"{tool}: {said or f'exit status {answer.status}'}")
            return None
        return answer.out.decode("utf-8", "replace")

    def parsed(
        self, what: str, tool: str, text: str | None, parse: Callable[[str], Told]
    ) -> Told | None:
        """What the tool's answer means; None, and `what` is noted, when it is not in its documented form."""
        if text is None:
            return None
        try:
            return parse(text)
        except (msgspec.MsgspecError, KeyError, ValueError) as error:
            self.missed(
                what, f"{tool}: its answer cannot be read ({type(error).__name__}: {error})"
            )
            return None
