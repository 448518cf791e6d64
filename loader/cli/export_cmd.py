"""`ditseed export`: writes a server or database as LDIF shards with a manifest, or a database as LDIF to stdout."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import structs

from loader import defaults, standard
from loader.cli import access
from loader.cli.access import ServersOptions
from loader.cli.options import RecordedRun, is_given, note, refuse_given
from loader.cli.report import show_report, tell_report
from loader.declared import Argument, Compress, ExportLimits, compression, declare
from loader.errors import UsageProblem

if TYPE_CHECKING:
    from loader.operations.shards import Finished


@dataclass(frozen=True, kw_only=True)
class _Output:
    output: Annotated[
        Path, "-o --output", "Directory for shards and manifest; for a database also -, plain LDIF to stdout."
    ]
    compress: Compress = None

    @property
    def directory(self) -> Path | None:
        """The output directory; None for stdout."""
        return None if str(self.output) == defaults.STDIN else self.output.absolute()

    @property
    def compression(self) -> str:
        return compression(self.compress, self.directory is None)


@declare("export")
def command(
    source: Annotated[str | None, Argument("[DIR]")],
    servers: ServersOptions,
    to: _Output,
    limits: ExportLimits,
    run: RecordedRun,
) -> None:
    """Export a running server, by several parallel searches, or the database in DIR: all user and operational
    attributes, as LDIF that loads in the order of the manifest (parents first).

    From a server: the suffix entry gets the contextCSN that the server had when the export began, so that
    syncrepl can continue from there. After an interruption, the same command resumes with the missing parts.

    DIR is a directory with a data.mdb (or mdb:DIR), of a slapd, running or not, or a copy. No configuration
    and no server are needed: --jobs workers read the pages of one snapshot. The suffix entry has the stored
    contextCSN.

    From a database, -o - writes LDIF to stdout, for slapadd or another `ditseed build`; the report goes to stderr.

    \b
    Examples:
      ditseed export -H ldap://provider -D cn=replicator,dc=example,dc=com -y /root/replicator.pw \\
          -b dc=example,dc=com -o /srv/export
      ditseed export -H ldapi:/// -Y EXTERNAL -b dc=example,dc=com -o /srv/export --compress none
      ditseed export /var/lib/ldap -o /srv/export
      ditseed export /var/lib/ldap -o - | ssh ldap2 slapadd -q -b dc=example,dc=com
    """
    if to.directory is None:
        standard.reserve_output()
    if source is None:
        done, reason = _of_server(servers, to, limits, run), "the server has no syncprov"
    else:
        done, reason = _of_database(source, servers, to, limits, run), "none is stored"
    if done is None:
        return
    facts = {"output": to.output, **done.report}
    note(facts)
    if not (run.as_json or done.manifest.context_csns):
        facts["context_csns"] = f"none ({reason})"
    show_report(facts, run.as_json)


def _of_server(servers: ServersOptions, to: _Output, limits: ExportLimits, run: RecordedRun) -> Finished | None:
    """Exports a server. With --dry-run, prints the plan and returns None."""
    from loader.operations.export import STEPS, ExportOptions, export, plan

    if to.directory is None:
        raise UsageProblem(
            reason="-o - works for a database directory only; a server is read in pieces, which must be sorted to "
            "put parents first: give a directory (`ditseed build` and `add` accept it)"
        )
    connection, replicas = access.providers_of(servers)
    options = ExportOptions(
        connection,
        to.directory,
        to.compression,
        replicas=replicas,
        **{**vars(limits), "jobs": limits.jobs or defaults.connections()},
    )
    if run.dry_run:
        show_report(plan(options, run.progress), run.as_json)
        return None
    return export(options, run.progress, run.timeouts_of(STEPS), run.restart)


def _of_database(
    source: str, servers: ServersOptions, to: _Output, limits: ExportLimits, run: RecordedRun
) -> Finished | None:
    """Exports a database. With --dry-run or to stdout, prints the report and returns None."""
    from loader.operations import export_mdb
    from loader.sources.location import Kind, locate
    from loader.sources.mdb import LdifFormat, Part

    base = servers.base if is_given("base") else None
    names = {field.name for field in (*fields(ServersOptions), *fields(ExportLimits))} - {"base", "jobs"}
    refuse_given(sorted(names), "a server, not for a database")
    part = Part(locate(source, Kind.DATABASE).path, base)
    jobs = limits.jobs or defaults.processors()
    ldif_format = LdifFormat(to.compression != "none")
    if run.dry_run:
        show_report(export_mdb.plan(part, to.directory), run.as_json)
        return None
    if to.directory is None:
        refuse_given(("restart", "timeouts"), "an export into a directory")
        sent = export_mdb.stream_database(part, jobs, ldif_format, run.progress)
        note(structs.asdict(sent))
        tell_report(sent, run.as_json)
        return None
    options = export_mdb.DumpOptions(part, to.directory, jobs, ldif_format)
    timeouts = run.timeouts_of(export_mdb.STEPS)
    return export_mdb.export_database(options, run.progress, timeouts, run.restart)
