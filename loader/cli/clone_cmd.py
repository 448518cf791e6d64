"""`ditseed clone`: a hot copy of a data.mdb directory."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from loader import log, standard, units
from loader.cli.options import (
    dry_run_option,
    json_option,
    progress_of,
    progress_option,
    scratch_option,
    verify_copy_option,
)
from loader.cli.report import show_facts, show_json, tell, tell_json
from loader.errors import UsageProblem
from loader.operations import clone_pipe
from loader.operations.clone import (
    CloneOptions,
    ClonePlan,
    CloneReport,
    Reflink,
    clone,
    plan,
    warnings,
)

_PIPE = Path("-")


@click.command(name="clone")
@click.argument("source", type=click.Path(path_type=Path, readable=False))
@click.argument("target", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--replace",
    is_flag=True,
    help="Replace the database in TARGET once the clone is checked.",
)
@click.option(
    "--compact",
    is_flag=True,
    help="Leave out free pages, and write the used pages in the order of their keys.",
)
@click.option(
    "--reflink",
    type=click.Choice(["auto", "never", "always"]),
    default="auto",
    show_default=True,
    help="Share blocks with SOURCE on xfs and btrfs instead of copying them; `auto` does so unless a process has "
    "SOURCE open.",
)
@verify_copy_option
@click.option(
    "--skip",
    "token",
    metavar="TOKEN",
    help="With TARGET -: skip what the receiver has already; the receiver prints the token.",
)
@scratch_option(
    "With --compact and TARGET -: directory for the compacted copy until it is sent (default: $TMPDIR or /tmp)."
)
@dry_run_option
@json_option
@progress_option
def command(
    source: Path,
    target: Path,
    replace: bool,
    compact: bool,
    reflink: Reflink,
    verify: str | None,
    token: str | None,
    scratch: Path | None,
    dry_run: bool,
    as_json: bool,
    progress_mode: str,
) -> None:
    """Copy the database in directory SOURCE into directory TARGET, while slapd is running or not.

    The copy is a consistent snapshot and takes only the space that is in use, however large the file
    looks. TARGET must not be in use. If the command is interrupted, TARGET holds what it held before;
    give the same command again.

    TARGET - sends the copy to stdout, SOURCE - receives it from stdin: through ssh, for instance. Each block
    has a checksum, and after a broken stream only the rest needs to be sent.

    \b
    A running server's database to a directory on a spare disk:
      ditseed clone /var/lib/ldap /srv/spare/ldap
    What it would take, and what it would cost the running server:
      ditseed clone /var/lib/ldap /srv/spare/ldap --dry-run
    Replacing an older one, without the free pages:
      ditseed clone /var/lib/ldap /srv/spare/ldap --compact --replace --verify pages
    To another host, and resuming after a broken stream (the receiver prints the token):
      ditseed clone /var/lib/ldap - | ssh ldap2 ditseed clone - /var/lib/ldap
      ditseed clone /var/lib/ldap - --skip TOKEN | ssh ldap2 ditseed clone - /var/lib/ldap
    The same without the free pages:
      ditseed clone /var/lib/ldap - --compact --tmp /srv/tmp | ssh ldap2 ditseed clone - /var/lib/ldap
    """
    if target == _PIPE:
        standard.reserve_output()
    progress = progress_of(progress_mode)
    if _PIPE in (source, target):
        _require_fitting(source, target, compact, reflink, dry_run)
    if scratch is not None and not (compact and target == _PIPE):
        raise UsageProblem(reason="--tmp is for --compact with TARGET -")
    if target != _PIPE and token is not None:
        raise UsageProblem(reason="--skip is for a copy that is sent to stdout (TARGET -)")
    if target == _PIPE:
        sending = clone_pipe.SendOptions(source, token, compact, scratch)
        _tell_sent(clone_pipe.send(sending, progress), as_json)
        return
    if source == _PIPE:
        taken = clone_pipe.ReceiveOptions(target, replace, verify)
        _show(clone_pipe.plan(taken) if dry_run else clone_pipe.receive(taken, progress), as_json)
        return
    options = CloneOptions(source, target, replace, verify, compact, reflink)
    _show(plan(options) if dry_run else clone(options, progress), as_json)


def _require_fitting(
    source: Path, target: Path, compact: bool, reflink: str, dry_run: bool
) -> None:
    if source == target:
        raise UsageProblem(reason="one of SOURCE and TARGET has to be a directory")
    if reflink == "always":
        raise UsageProblem(reason="--reflink always is for a clone from directory to directory")
    if compact and source == _PIPE:
        raise UsageProblem(reason="--compact belongs to the sending side: give it there")
    if target == _PIPE and dry_run:
        raise UsageProblem(
            reason="--dry-run works on the receiving side, or for a clone into a directory"
        )


_Found = ClonePlan | CloneReport | clone_pipe.ReceivePlan | clone_pipe.ReceiveReport


def _show(found: _Found, as_json: bool) -> None:
    if as_json:
        show_json(dataclasses.asdict(found))
    else:
        show_facts(_lines(found))


def _lines(found: _Found) -> dict[str, object]:
    if isinstance(found, ClonePlan):
        return _plan_lines(found)
    if isinstance(found, CloneReport):
        return _report_lines(found)
    if isinstance(found, clone_pipe.ReceivePlan):
        return _waiting_lines(found)
    return _received_lines(found)


def _tell_sent(report: clone_pipe.SendReport, as_json: bool) -> None:
    """On stderr: stdout is the copy's."""
    if as_json:
        tell_json(dataclasses.asdict(report))
        return
    if log.verbosity() < 0:
        return
    skipped = f", {units.size(report.skipped)} left out" if report.skipped else ""
    took = units.duration(report.seconds)
    tell(f"sent: {units.size(report.length)}{skipped} in {took}, transaction {report.txnid}")


def _waiting_lines(found: clone_pipe.ReceivePlan) -> dict[str, object]:
    return {
        "target": found.target + (" (its database is replaced)" if found.replaces else ""),
        "there / free": f"{units.size(found.have)} / {units.size(found.free)}",
        "go on with": f"--skip {found.token}" if found.token else "-",
    }


def _received_lines(found: clone_pipe.ReceiveReport) -> dict[str, object]:
    return {
        "clone": found.target,
        "suffix": " ".join(found.suffixes) or "-",
        "entries": units.number(found.entries),
        "contextCSN": " ".join(found.context_csns) or "none stored",
        "clone shown / on disk": _sizes(found.target_apparent, found.target_allocated),
        "received in": units.duration(found.seconds),
        "transaction": found.txnid,
        "data format": found.format,
        "verified": found.verified,
    }


def _plan_lines(found: ClonePlan) -> dict[str, object]:
    return {
        "source": found.source,
        "shown / on disk": _sizes(found.source_apparent, found.source_allocated),
        "target": found.target + (" (its database is replaced)" if found.replaces else ""),
        "needed / free": f"{units.size(found.needed)} / {units.size(found.free)}",
        "data format": found.format,
        "verify": found.verify,
        **_growth_lines(found),
    }


def _growth_lines(found: ClonePlan) -> dict[str, object]:
    """Of a source in use."""
    if found.growth is None:
        return {}
    grows = f"{found.growth.transactions:,.0f} transactions/s, {units.size(found.growth.rate)}/s while it is copied"
    fills = "-" if found.fills_in is None else units.duration(found.fills_in)
    return {
        "source grows by": grows,
        "its map or disk is full in": fills,
        "oldest reader behind by": f"{units.number(found.reader_lag)} transactions",
        "warning": "; ".join(warnings(found)) or "none",
    }


def _report_lines(found: CloneReport) -> dict[str, object]:
    speed = found.target_apparent / found.seconds if found.seconds else 0
    return {
        "clone": found.target,
        "suffix": " ".join(found.suffixes) or "-",
        "entries": units.number(found.entries),
        "contextCSN": " ".join(found.context_csns) or "none stored",
        "source shown / on disk": _sizes(found.source_apparent, found.source_allocated),
        "clone shown / on disk": _sizes(found.target_apparent, found.target_allocated),
        "copied in": f"{units.duration(found.seconds)}, {units.size(speed)}/s"
        + (" (blocks shared)" if found.shared else ""),
        "transaction": found.txnid,
        "source went on by": f"{units.number(found.transactions)} transactions, {units.size(found.grown)}",
        "data format": found.format,
        "verified": found.verified,
    }


def _sizes(apparent: int, allocated: int) -> str:
    return f"{units.size(apparent)} / {units.size(allocated)}"
