"""What the commands of `ditseed tune` share: whose settings they are, and how these are shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from loader.cli.access import Server, connection_of
from loader.cli.options import DryRun, Json, is_given, keep_strongest
from loader.cli.report import show, show_json, show_table
from loader.common_options import OptionalConfig
from loader.errors import UsageProblem
from loader.operations.add import lending
from loader.operations.tune.target import EDIT, Outcome, State, Target, opened
from loader.server.options import Connection


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change(Server):
    """Of which server settings are shown, and whether they are changed."""

    config_path: OptionalConfig = None
    apply: Annotated[
        bool,
        "Make the change; without it, the change is only shown. A slapd.conf is never edited: the lines to change are "
        "shown.",
    ] = False
    dry_run: DryRun = False
    as_json: Json = False

    @property
    def applies(self) -> bool:
        return self.apply and not self.dry_run

    @property
    def is_wanted(self) -> bool:
        return self.apply or self.dry_run


@dataclasses.dataclass(frozen=True)
class Further:
    """What a command tells besides settings. `facts`: a dataclass, in JSON under `name`."""

    name: str
    facts: Any
    show: Callable[[], None]


@contextmanager
def target_of(change: Change) -> Iterator[Target]:
    """What a killed `ditseed add` left loosened there is tightened before anything else is changed."""
    change = keep_strongest(change, ("config_path", "uri"))
    path = change.config_path
    account = [name for name in ("bind_dn", "mechanism") if getattr(change, name)]
    named = bool(change.uri) or any(path is None or is_given(name) for name in account)
    if (path is not None) == named:
        raise UsageProblem(
            reason="say which server: either --config slapd.d or slapd.conf, or -H ldapi:/// -Y EXTERNAL"
        )
    where: Path | Connection = connection_of(change) if path is None else path
    if change.applies and isinstance(where, Connection):
        lending.release(where)
    with opened(where) as target:
        yield target


def show_settings(
    target: Target,
    found: Sequence[Any],
    outcome: Outcome | None,
    as_json: bool,
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    further: Sequence[Further] = (),
) -> None:
    if as_json:
        change = None if outcome is None else dataclasses.asdict(outcome)
        databases = [dataclasses.asdict(one) for one in found]
        told = {one.name: dataclasses.asdict(one.facts) for one in further}
        show_json({"target": target.config.where, "databases": databases, "change": change, **told})
        return
    show_table(headings, list(rows))
    for more in further:
        more.show()
    show(*(f"{one.suffix}: {note}" for one in found for note in one.notes))
    if outcome is not None:
        _show_outcome(outcome)


def _show_outcome(outcome: Outcome) -> None:
    show("")
    if outcome.difference:
        show(*outcome.difference.split("\n"))
    words = {
        State.UNCHANGED: "unchanged: this is the present setting",
        State.PROPOSED: "nothing was changed; --apply makes this change",
        State.BY_HAND: f"nothing was changed. {EDIT}",
        State.CHANGED: "changed",
    }
    show(words[outcome.state])
    for note in outcome.notes:
        show(f"note: {note}")
