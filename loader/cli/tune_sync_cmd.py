"""`ditseed tune sync`."""

from __future__ import annotations

from typing import Any

import click

from loader.cli import access, leases, options
from loader.cli.report import show
from loader.cli.tune_shown import show_settings, taken, target_of, target_options
from loader.errors import EXIT_DIFFERENT, EXIT_OK, UsageProblem
from loader.operations.add import nosync as switching
from loader.operations.tune import syncing
from loader.operations.tune.plan import Outcome, State


@click.command("sync")
@click.option(
    "--nosync",
    type=click.Choice(["on", "off"]),
    help="on: slapd no longer syncs commits to disk; off: it does so again.",
)
@click.option(
    "--lease",
    type=options.Duration(),
    help="With --nosync on, over LDAP: only for so long (90m, 4h), and until the next boot at most.",
)
@click.option(
    "--give-back",
    is_flag=True,
    help="Switch off nosync that killed runs, and leases that have ended, left on at the servers of this host.",
)
@target_options
def sync_command(nosync: str | None, lease: float | None, give_back: bool, **given: Any) -> int:
    """Show whether commits are synced to disk (nosync, envflags, checkpoint); switch nosync.

    nosync makes a load faster, but while it is on, a crash of the host can lose or damage the database.

    \b
    Examples:
      ditseed tune sync --config /etc/ldap/slapd.d
      ditseed tune sync -H ldapi:/// -Y EXTERNAL --nosync off --apply
      ditseed tune sync -H ldapi:/// -Y EXTERNAL --nosync on --lease 4h --apply
      ditseed tune sync --give-back
    """
    if give_back:
        return _give_back()
    apply, as_json, suffix, wished = taken(given)
    if lease is not None and (nosync != "on" or given["config_path"] is not None):
        raise UsageProblem(reason="--lease is for --nosync on, of a running server (-H)")
    if wished and nosync is None:
        raise UsageProblem(reason="say what to change: --nosync on, or --nosync off")
    lent_by = None if lease is None else access.connection_of(dict(given))
    with target_of(given, apply) as target:
        found = syncing.syncing(target, suffix)
        outcome = None
        if nosync is not None:
            lent = apply and lease is not None
            # A lease is written down before nosync is switched on.
            outcome = syncing.change_nosync(target, suffix, nosync == "on", apply and not lent)
    if outcome is not None and lease is not None and lent_by is not None and apply:
        switching.lend(lent_by, lease)
        outcome = Outcome(State.CHANGED, outcome.difference, outcome.notes)
    headings = ("suffix", "nosync", "envflags", "checkpoint")
    show_settings(target, found, outcome, as_json, headings, map(_sync_row, found))
    return EXIT_OK


def _give_back() -> int:
    """1 where something is still left."""
    told = leases.give_back_local()
    show(*(told or ["no leases of nosync are left at servers of this host"]))
    return EXIT_OK if all(one.endswith("put back") for one in told) else EXIT_DIFFERENT


def _sync_row(one: syncing.SyncSettings) -> tuple[str, str, str, str]:
    flags, nosync = " ".join(one.env_flags) or "none", "on" if one.nosync else "off"
    return one.suffix, nosync, flags, one.checkpoint or "none"
