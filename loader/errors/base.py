"""What every error has: a stable code, an exit status, a message, a hint; and how its facts are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from loader import plain

EXIT_OK = 0
EXIT_DIFFERENT = 1
EXIT_ERROR = 2


class LoaderError(Exception):
    """Base of all. Keyword arguments fill `message` (and `hint`); both are lower case, without a full stop."""

    code: ClassVar[str] = "error"
    exit_status: ClassVar[int] = EXIT_ERROR
    message: ClassVar[str] = "{reason}"
    hint: ClassVar[str | None] = None
    # In the hint's place where no run stays that could go on.
    hint_without_run: ClassVar[str | None] = None
    retryable: ClassVar[bool] = False

    def __init__(self, **facts: object) -> None:
        self.facts = facts = plain.told(facts)
        super().__init__(self.message.format(**_told(facts)))

    def advice(self) -> str | None:
        """The hint with the facts put in."""
        hint = self.hint if is_resumable(self) else self.hint_without_run or self.hint
        return hint.format(**_told(self.facts)) if hint else None

    def __reduce__(self) -> tuple[object, ...]:
        return (_revive, (type(self), self.facts))


_VALUES = {
    *("base", "dn", "first", "suffix", "value", "who", "names", "known", "offered"),
    *("differences", "attribute", "consumer", "provider"),
}
# To be found on a disk, or typed: given as they stand.
_WHOLE = {*("path", "config", "target", "log", "where", "place"), *("advice", "undo", "setting", "rule", "mend")}


def _told(facts: Mapping[str, object]) -> dict[str, object]:
    """The facts as a message may show them; `facts` keeps them as they are."""
    return {name: _plain(name, value) for name, value in facts.items()}


def _plain(name: str, value: object) -> object:
    if isinstance(value, int | float):
        return value
    if isinstance(value, tuple):  # lines to be pasted
        return "".join(f"\n{plain.shortened(line, plain.WHOLE)}" for line in value)
    if name in _VALUES:
        return plain.shortened(str(value))
    if name in _WHOLE:
        return plain.shortened(str(value), plain.WHOLE)
    return plain.sentence(str(value))


_RESUMABLE = "ditseed_goes_on"


def keeps_run_directory(error: BaseException) -> None:
    """Note in an error, or a stop, that it leaves a run behind with which the same command goes on."""
    error.__dict__[_RESUMABLE] = True


def is_resumable(error: BaseException) -> bool:
    return _RESUMABLE in error.__dict__


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error and those behind it: what a signal interrupts may fail in its own way while it is cleaned up."""
    following: BaseException | None = error
    while following is not None:
        yield following
        following = following.__cause__ or following.__context__


def _revive(kind: type[LoaderError], facts: dict[str, object]) -> LoaderError:
    """Errors keep their facts across process borders."""
    return kind(**facts)
