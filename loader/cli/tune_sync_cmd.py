"""`ditseed tune sync`."""

from __future__ import annotations

from typing import Any

import click

from loader.cli import access, leases, options
from loader.cli.report import show
from loader.cli.tune_shown import show_settings, taken, target_of, target_options
from loader.cli.written import Checkpoint, Duration, EnvFlags
from loader.errors import EXIT_DIFFERENT, EXIT_OK, UsageProblem
from loader.operations.add import lending
from loader.operations.tune import syncing
from loader.operations.tune.plan import Outcome, State

_SETTINGS = options.stack(
    click.option(
        "--nosync",
        type=click.Choice([syncing.ON, syncing.OFF]),
        help="on: slapd no longer syncs commits to disk; off: it does so again.",
    ),
    click.option(
        "--envflags",
        type=EnvFlags(syncing.FLAGS),
        help=f"Flags of the environment, with commas between them, or none: {', '.join(syncing.FLAGS)}.",
    ),
    click.option(
        "--checkpoint",
        type=Checkpoint(),
        help="'KBYTES MINUTES', or none: how often slapd syncs what nosync has left.",
    ),
    click.option(
        "--lease",
        type=Duration(),
        help="Over LDAP: the change is for so long only (90m, 4h), and until the next boot at most.",
    ),
    click.option(
        "--why", metavar="TEXT", help="With --lease: what it is for. It is shown beside it."
    ),
)


@click.command("sync")
@_SETTINGS
@click.option(
    "--give-back",
    is_flag=True,
    help="Put back what killed runs, and leases that have ended, left changed at the servers of this host.",
)
@target_options
def sync_command(lease: float | None, why: str | None, give_back: bool, **given: Any) -> int:
    """Show whether commits are synced to disk (nosync, envflags, checkpoint); change one of the three.

    nosync makes a load faster, but while it is on, a crash of the host can lose or damage the database.

    \b
    Examples:
      ditseed tune sync --config /etc/ldap/slapd.d
      ditseed tune sync -H ldapi:/// -Y EXTERNAL --nosync off --apply
      ditseed tune sync -H ldapi:/// -Y EXTERNAL --nosync on --lease 4h --why "load of March" --apply
      ditseed tune sync -H ldapi:/// -Y EXTERNAL --checkpoint "1024 5" --apply
      ditseed tune sync --give-back
    """
    wanted = {kind: _said(kind, given.pop(kind)) for kind in syncing.SETTINGS}
    if give_back:
        return _give_back()
    apply, as_json, suffix, wished = taken(given)
    asked = _asked(wanted, wished)
    _require_lendable(lease, why, asked, given)
    lent_by = access.connection_of(dict(given)) if apply and lease is not None else None
    with target_of(given, apply) as target:
        found = syncing.syncing(target, suffix)
        # A lease is written down before the setting is changed.
        outcome = asked and syncing.change(target, suffix, *asked, apply and lent_by is None)
    if outcome and asked and lent_by is not None and lease is not None:
        lending.lend(lent_by, *asked, lease, why or "")
        outcome = Outcome(State.CHANGED, outcome.difference, outcome.notes)
    headings = ("suffix", "nosync", "envflags", "checkpoint")
    show_settings(target, found, outcome, as_json, headings, map(_sync_row, found))
    return EXIT_OK


def _said(kind: str, value: str | tuple[str, ...] | None) -> str | None:
    """As the configuration has it; `none` of flags, or of a checkpoint."""
    if not isinstance(value, tuple):
        return value
    return ("," if kind == syncing.ENV_FLAGS else " ").join(value) or syncing.NONE


def _asked(wanted: dict[str, str | None], wished: bool) -> tuple[str, str] | None:
    """Which of them, and what it is to be."""
    asked = [(kind, value) for kind, value in wanted.items() if value is not None]
    if len(asked) > 1:
        raise UsageProblem(reason="one of --nosync, --envflags and --checkpoint at a time")
    if wished and not asked:
        raise UsageProblem(reason="say what to change: --nosync, --envflags, or --checkpoint")
    return asked[0] if asked else None


def _require_lendable(
    lease: float | None, why: str | None, asked: tuple[str, str] | None, given: dict[str, Any]
) -> None:
    if why is not None and lease is None:
        raise UsageProblem(reason="--why is for --lease")
    if lease is not None and (
        asked in (None, (syncing.NOSYNC, syncing.OFF)) or given["config_path"] is not None
    ):
        raise UsageProblem(
            reason="--lease is for a setting of a running server (-H), and for --nosync on"
        )


def _give_back() -> int:
    """1 where something is still left."""
    told = leases.give_back_local()
    none = (
        "no lease of nosync, envflags or checkpoint that has ended is left at servers of this host"
    )
    show(*(told or [none]))
    return EXIT_OK if all(one.endswith("put back") for one in told) else EXIT_DIFFERENT


def _sync_row(one: syncing.SyncSettings) -> tuple[str, str, str, str]:
    flags, nosync = " ".join(one.env_flags) or "none", "on" if one.nosync else "off"
    return one.suffix, nosync, flags, one.checkpoint or "none"
