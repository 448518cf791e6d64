"""What operators write: sizes, durations, shares, times, places; and what it is read as."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from loader import units
from loader.errors import LoaderError, UsageProblem
from loader.storage import remote
from loader.storage.remote import Location


class Written(click.ParamType[Any]):
    """What a subclass reads as an operator writes it; `kind` is what it reads it as."""

    kind: type

    def parse(self, text: str) -> Any:
        """Raises LoaderError."""
        raise NotImplementedError

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, self.kind):
            return value
        try:
            return self.parse(value)
        except LoaderError as error:
            self.fail(str(error), param, ctx)


class Size(Written):
    """Bytes, written 250G or 64M; `auto` where the verb can work it out."""

    name, kind = "size", int

    def __init__(self, auto: bool = False) -> None:
        self._auto = auto

    def parse(self, text: str) -> int | str:
        return text if self._auto and text == "auto" else units.parse_size(text)


class Share(Written):
    """A part of one, written 5% or 0.05; up to `most`."""

    name, kind = "share", float

    def __init__(self, most: float = 1.0, zero: bool = False) -> None:
        self._most, self._zero = most, zero

    def parse(self, text: str) -> float:
        try:
            found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            found = math.nan
        if not 0 <= found <= self._most or (found == 0 and not self._zero):
            raise UsageProblem(
                reason=f"{text} is no share: write 5% or 0.05, up to {self._most:.0%}"
            )
        return found


class Duration(Written):
    """Seconds, written 90, 30s, 15m or 4h."""

    name, kind = "duration", float

    def parse(self, text: str) -> float:
        return units.parse_duration(text)


class EnvFlags(Written):
    """Flags of an LMDB environment, with commas between them; none. In the order of their names."""

    name, kind = "flags", tuple

    def __init__(self, known: Sequence[str]) -> None:
        self._known = known

    def parse(self, text: str) -> tuple[str, ...]:
        flags = {word for word in text.lower().replace(",", " ").split() if word != "none"}
        if not flags.issubset(self._known):
            raise UsageProblem(reason=f"{text} has other flags than {', '.join(self._known)}")
        return tuple(sorted(flags))


class Checkpoint(Written):
    """KBYTES MINUTES (slapd-mdb(5)); none."""

    name, kind = "checkpoint", tuple

    def parse(self, text: str) -> tuple[str, ...]:
        words = [] if text.lower() == "none" else text.split()
        if len(words) not in (0, 2) or not all(map(str.isdecimal, words)) or not text.strip():
            raise UsageProblem(reason=f"{text} is not 'KBYTES MINUTES', nor none")
        return tuple(words)


class Moment(Written):
    """A time of day on a date, not in the future."""

    name, kind = "time", datetime.datetime

    def parse(self, text: str) -> datetime.datetime:
        found = units.parse_moment(text)
        if found > datetime.datetime.now(datetime.timezone.utc):
            raise UsageProblem(reason=f"{text} is in the future")
        return found


class Repository(click.Path):
    """A directory, or a location on another host."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, readable=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and remote.is_remote(value):
            return remote.parse(value)
        return value if isinstance(value, Location) else super().convert(value, param, ctx)
