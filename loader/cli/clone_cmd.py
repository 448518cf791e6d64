"""`ditseed clone`: a hot copy of a data.mdb directory."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from loader import log, standard, units
from loader.cli.options import DryRun, Shown
from loader.cli.report import show_facts, show_json, tell, tell_json
from loader.declared import command as declare
from loader.errors import UsageProblem
from loader.operations import clone as clone_pipe
from loader.operations.clone import CloneOptions, ClonePlan, CloneReport, clone, plan, warnings

_PIPE = Path("-")


@declare("clone")
def command(options: CloneOptions, shown: Shown, dry_run: DryRun = False) -> None:
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
    sends, receives = options.target == _PIPE, options.source == _PIPE
    if sends:
        standard.reserve_output()
    _require_fitting(options, dry_run)
    if sends:
        _tell_sent(clone_pipe.send(options, shown.progress), shown.as_json)
    elif receives:
        found = clone_pipe.plan_pipe(options) if dry_run else clone_pipe.receive(options, shown.progress)
        _show(found, shown.as_json)
    else:
        _show(plan(options) if dry_run else clone(options, shown.progress), shown.as_json)


def _require_fitting(options: CloneOptions, dry_run: bool) -> None:
    sends, receives = options.target == _PIPE, options.source == _PIPE
    if sends and receives:
        raise UsageProblem(reason="one of SOURCE and TARGET has to be a directory")
    if (sends or receives) and options.reflink == "always":
        raise UsageProblem(reason="--reflink always is for a clone from directory to directory")
    if options.compact and receives:
        raise UsageProblem(reason="--compact belongs to the sending side: give it there")
    if sends and dry_run:
        raise UsageProblem(reason="--dry-run works on the receiving side, or for a clone into a directory")
    if options.scratch is not None and not (options.compact and sends):
        raise UsageProblem(reason="--tmp is for --compact with TARGET -")
    if options.token is not None and not sends:
        raise UsageProblem(reason="--skip is for a copy that is sent to stdout (TARGET -)")


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
