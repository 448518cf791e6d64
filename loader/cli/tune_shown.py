"""What the commands of `ditseed tune` share: whose settings they are, and how these are shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from loader.cli import access, options
from loader.cli.report import show, show_json, show_table
from loader.errors import UsageProblem
from loader.operations.add import lending
from loader.operations.tune.plan import EDIT, Outcome, State
from loader.operations.tune.target import Target, opened
from loader.server.options import Connection

target_options = options.stack(
    options.optional_config_option,
    access.connection_options,
    click.option(
        "--apply",
        is_flag=True,
        help="Make the change; without it, the change is only shown. A slapd.conf is never edited: the lines to change "
        "are shown.",
    ),
    options.dry_run_option,
    options.json_option,
)


@dataclasses.dataclass(frozen=True)
class Further:
    """What a command tells besides settings. `facts`: a dataclass, in JSON under `name`."""

    name: str
    facts: Any
    show: Callable[[], None]


def taken(given: dict[str, Any]) -> tuple[bool, bool, str | None, bool]:
    """(make the change, print JSON, suffix, a change was asked for)."""
    apply, dry_run = given.pop("apply"), given.pop("dry_run")
    return apply and not dry_run, given.pop("as_json"), given["base"], apply or dry_run


@contextmanager
def target_of(given: dict[str, Any], apply: bool) -> Iterator[Target]:
    """What a killed `ditseed add` left loosened there is tightened before anything else is changed."""
    options.keep_strongest(given, ("config_path", "uri"))
    path: Path | None = given.pop("config_path")
    account = [name for name in ("bind_dn", "mechanism") if given[name]]
    named = bool(given["uri"]) or any(path is None or options.is_given(name) for name in account)
    if (path is not None) == named:
        raise UsageProblem(
            reason="say which server: either --config slapd.d or slapd.conf, or -H ldapi:/// -Y EXTERNAL"
        )
    where: Path | Connection = access.connection_of(given) if path is None else path
    if apply and isinstance(where, Connection):
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
