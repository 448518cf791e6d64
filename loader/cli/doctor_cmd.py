"""`ditseed doctor`: examines the databases of this host's slapd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from loader import units
from loader.cli.access import Account, connection_of
from loader.cli.options import Json, refuse_given
from loader.cli.report import findings, show_check, show_error, show_report
from loader.declared import OptionalConfig, Suffix, declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK, LoaderError

if TYPE_CHECKING:
    from loader.operations.doctor import Report


@declare("doctor")
def command(
    config_path: OptionalConfig,
    suffix: Suffix,
    repo: Annotated[Path | None, "-R --repo", "Directory that holds the backups."],
    is_check: Annotated[bool, "--check", "Report as a monitoring plugin."],
    is_fix: Annotated[bool, "--fix", "Clear dead readers, and restore settings that killed runs have left changed."],
    uri: Annotated[str | None, "-H --uri URI", "The provider to ask for its contextCSN (default: as in olcSyncrepl)."],
    account: Account,
    as_json: Json,
) -> int:
    """Examine the databases of this host's slapd: what is wrong, and the commands that fix it.

    Looks at the release of slapd, the format of the files, the room in the map (maxsize, free pages, readers), nosync
    and leases, indexes (a sample), storage, backups, replication, certificates and limits, of all mdb databases of the
    configuration or of -b. Without --config, the usual paths are tried. Facts that could not be read are listed. The
    contextCSN of a provider is read with the account of olcSyncrepl, or of -D. The exit status is 0 if everything could
    be read and nothing is worse than a note, and 1 otherwise.

    With --check it is a monitoring plugin: exit status 0, 1, 2 or 3, and performance data. It warns before slapd
    refuses writes (MDB_MAP_FULL), and leaves the indexes out.

    \b
      ditseed doctor
      ditseed doctor --config /etc/ldap/slapd.d -R /srv/backup --json
      ditseed doctor --check -R /srv/backup
      ditseed doctor --fix
    """
    from loader.operations import doctor

    request = doctor.Request(suffix, repo, connection_of(account, uri), is_check)
    if is_check:
        refuse_given(["is_fix"], "a run without --check")
        try:
            check = doctor.check(doctor.examine(config_path, request))
        except LoaderError as error:
            show_error(error)
            check = doctor.failed(error)
        return show_check(check, as_json)
    report = doctor.examine(config_path, request)
    if is_fix:
        report = doctor.fixed(report)
    show_report(_facts(report), as_json, _lines(report))
    return EXIT_OK if report.is_well else EXIT_DIFFERENT


def _facts(report: Report) -> dict[str, object]:
    server = report.server
    names = ("name", "suffix", "directory", "format", "damage", "slots", "room", "readers", "replication")
    return {
        "well": report.is_well,
        "findings": report.findings,
        "fixed": report.fixed,
        "not_looked_at": server.unseen,
        "left_out": server.left_out,
        "config": server.path,
        **{name: getattr(server, name) for name in ("release", "leases", "slapd")},
        "databases": [
            {"maxsize": database.configured.maxsize, **{name: getattr(database, name) for name in names}}
            for database in server.databases
        ],
    }


def _lines(report: Report) -> Iterator[str]:
    server = report.server
    yield server.path
    for database in server.databases:
        used = f"  {units.size(database.room.used)} in use" if database.room else ""
        used += f", maxsize {units.size(database.configured.maxsize)}"
        yield f"└─ {database.suffix}  {database.directory}{used}"
    yield ""
    yield from (f"fixed: {done}" for done in report.fixed)
    yield from findings(report.findings, server.unseen)
    yield from (f"left out: {fact.what} ({fact.why})" for fact in server.left_out)
