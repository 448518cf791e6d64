"""What a server does not show as it is stored: a note of an export, and a refusal of a seeding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from loader import manifest, overlays
from loader.errors import HiddenFromAccount, NotAsStored
from loader.server import visibility
from loader.server.session import Session
from loader.server.visibility import VisibilityReport, Wanted

_NAMED = 8  # attributes named in one message


def require_all_visible(
    server: Session, base: str, wanted: Wanted = None, own: Sequence[str] = ()
) -> None:
    """Is what a search shows all that a replica needs? Raises HiddenFromAccount, NotAsStored.

    `wanted` tells which attributes the replica stores (None: all). `own`: the overlays of the replica's database,
    which speak for the provider's where the provider does not tell its own.
    """
    sight = visibility.compare_sample(server, base, wanted)
    if sight is None:
        return
    differing = [*_distorted(sight), *_supposed(sight, own)]
    if differing:
        raise NotAsStored(uri=server.uri, what="; ".join(differing))
    hidden = list(_hidden(sight))
    if hidden:
        raise HiddenFromAccount(uri=server.uri, what="; ".join(hidden), rule=rule(sight.who))


def require_whole(directory: Path) -> None:
    """Has the export of a server noted that something was hidden? Raises HiddenFromAccount."""
    made = manifest.read(directory) if directory.is_dir() else None
    if made is not None:
        require_nothing_hidden(made.source, made.hidden)


def require_nothing_hidden(uri: str, hidden: Sequence[str]) -> None:
    """`hidden`: what a reading of that server has noted. Raises HiddenFromAccount."""
    if hidden:
        raise HiddenFromAccount(uri=uri, what="; ".join(hidden), rule=rule("ACCOUNT"))


def rule(who: str) -> str:
    """The first rule of a database, which shows everything to `who` and leaves others to the rules behind it."""
    return f"{{0}}to * by {who} read by * break"


def notes(sight: VisibilityReport) -> list[str]:
    """For the operator of an export."""
    return [*_hidden(sight), *_distorted(sight)]


def _hidden(sight: VisibilityReport) -> Iterator[str]:
    if sight.hidden:
        example = next(iter(sight.hidden.values()))
        names = _listed(list(sight.hidden))
        yield f"access control hides {names} from {sight.who} (for instance of {example})"
    for name in sight.below[:1]:
        yield f"access control hides the entries below {name} from {sight.who}"


def _distorted(sight: VisibilityReport) -> Iterator[str]:
    for one in sight.distorting:
        yield f"the overlay {one.name} changes what a search shows: {one.why}"
    if sight.computed and not sight.distorting:
        example = next(iter(sight.computed.values()))
        yield f"an overlay computes {_listed(list(sight.computed))} for the answer (for instance of {example})"


def _supposed(sight: VisibilityReport, own: Sequence[str]) -> Iterator[str]:
    if not sight.tells_overlays:
        for one in overlays.overlays_that_change_searches(own):
            yield (
                f"the replica's configuration has the overlay {one.name}; if the provider has it as well, it changes "
                f"what a search shows: {one.why}"
            )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
