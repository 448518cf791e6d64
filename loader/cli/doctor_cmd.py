"""`ditseed doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from loader import units
from loader.cli.access import Account, connection_of
from loader.cli.options import Json, refuse_given
from loader.cli.report import findings, show, show_error, show_json
from loader.common_options import OptionalConfig, Suffix
from loader.declared import command as declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK, LoaderError
from loader.operations import doctor
from loader.operations.doctor import Report, Request


@declare("doctor")
def command(
    config_path: OptionalConfig,
    suffix: Suffix,
    repo: Annotated[Path | None, "-R --repo", "Directory that holds the backups."],
    is_check: Annotated[bool, "--check", "Report as a monitoring plugin."],
    is_fix: Annotated[bool, "--fix", "Clear dead readers, and put back what killed runs have left set."],
    uri: Annotated[str | None, "-H --uri URI", "The provider to ask for its contextCSN (default: that of syncrepl)."],
    account: Account,
    as_json: Json,
) -> int:
    """Examine the databases of this host's slapd: what is wrong, and the command that mends it.

    Looks at the release of slapd, the format of the files, the room in the map (maxsize, free pages, readers), nosync
    and leases, indexes (a sample), storage, backups, replication, certificates and limits, of all mdb databases of the
    configuration or that of -b. Without --config, the usual places are tried. What could not be looked at is named.
    A provider is asked as the account of olcSyncrepl, or as that of -D. The exit status is 0 if everything was looked
    at and nothing is worse than a note, and 1 otherwise.

    With --check it is a monitoring plugin: exit status 0, 1, 2 or 3, and performance data. It warns before slapd
    refuses writes (MDB_MAP_FULL), and leaves the indexes out.

    \b
      ditseed doctor
      ditseed doctor --config /etc/ldap/slapd.d -R /srv/backup --json
      ditseed doctor --check -R /srv/backup
      ditseed doctor --fix
    """
    request = Request(suffix, repo, connection_of(account, uri), is_check)
    if is_check:
        refuse_given(["is_fix"], "a run without --check")
        return _checked(config_path, request, as_json)
    report = doctor.examine(config_path, request)
    if is_fix:
        report = doctor.fixed(report, request)
    if as_json:
        show_json(_facts(report))
    else:
        show(*_lines(report))
    return EXIT_OK if report.is_well else EXIT_DIFFERENT


def _checked(config: Path | None, request: Request, as_json: bool) -> int:
    try:
        check = doctor.check(doctor.examine(config, request))
    except LoaderError as error:
        show_error(error)
        check = doctor.failed(error)
    if as_json:
        show_json({**msgspec.to_builtins(check), "status": check.status.name})
    else:
        show(*check.text())
    return int(check.status)


def _facts(report: Report) -> Mapping[str, object]:
    members = msgspec.to_builtins(report)
    facts = members["facts"]
    return {
        "well": report.is_well,
        "findings": members["findings"],
        "fixed": members["fixed"],
        "not_looked_at": facts.pop("unseen"),
        **facts,
    }


def _lines(report: Report) -> Iterator[str]:
    yield report.facts.config
    for database in report.facts.databases:
        used = f"  {units.size(database.room.used)} in use" if database.room else ""
        yield f"└─ {database.suffix}  {database.directory}{used}, maxsize {units.size(database.maxsize)}"
    yield ""
    yield from (f"fixed: {done}" for done in report.fixed)
    yield from findings(report.findings, report.facts.unseen)
    yield from (f"left out: {part.what} ({part.why})" for part in report.facts.left_out)
