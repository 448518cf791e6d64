"""`ditseed migrate`: rebuilds a database for another release of OpenLDAP, without LDIF in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loader import units
from loader.cli.options import Run
from loader.cli.report import show, show_report
from loader.declared import command as declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK
from loader.operations.options import MigrateOptions

if TYPE_CHECKING:
    from loader.operations.migrate import Examined, Migrated, MigratePlan

_RELEASES = {1: "OpenLDAP 2.4 to 2.6", 3: "OpenLDAP 2.7"}


@declare("migrate")
def command(options: MigrateOptions, run: Run) -> int:
    """Rebuild the database in directory SOURCE in directory TARGET, for another release of OpenLDAP.

    The databases of OpenLDAP 2.4 to 2.6 and of 2.7 have different formats, and neither slapd opens the other's. SOURCE
    may be of either, and slapd may be running on it. TARGET gets the format of the slapd that is installed here (or
    that DITSEED_TOOLS names), and the indexes of its configuration (--config). All entries with their operational
    attributes and the contextCSN are kept, and compared at the end. SOURCE is not changed.

    Stop the old slapd before the migration that counts: changes that are made after the reading began are not in the
    new database. To fill a consumer from a running provider, use `ditseed replica seed`.

    \b
    Examples:
      ditseed migrate /var/lib/ldap /srv/ldap-2.7 --config /opt/openldap/etc/slapd.d --dry-run
      ditseed migrate /var/lib/ldap /srv/ldap-2.7 --config /opt/openldap/etc/slapd.d
    The slapd of 2.7 is not on the PATH:
      DITSEED_TOOLS='env PATH=/opt/openldap/sbin:/opt/openldap/libexec:/usr/bin:/bin' \\
          ditseed migrate /var/lib/ldap /srv/ldap-2.7 --config /opt/openldap/etc/slapd.d
    """
    from loader.operations import migrate as operation

    if run.dry_run:
        plan = operation.plan(options, run.progress)
        show_report(plan.report(), run.as_json, _plan_lines(plan))
        show(*(f"  {line}" for line in plan.slaptest if not run.as_json))
        return EXIT_OK if plan.foreseen and not plan.foreseen.problems else EXIT_DIFFERENT
    done = operation.migrate(options, run.progress, run.timeouts_of(operation.STEPS), run.restart)
    show_report(done.report(), run.as_json, _report_lines(done))
    return EXIT_OK


def _first_lines(verb: str, examined: Examined, directory: str, entries: str) -> dict[str, object]:
    before, after = examined.format_before, examined.format
    return {
        verb: f"{examined.source} to {directory}",
        "suffix": examined.suffix or "the empty one",
        "data format": f"{before} ({_RELEASES[before]}) to {after} (slapd {examined.slapd})",
        "entries": entries,
    }


def _report_lines(done: Migrated) -> dict[str, object]:
    loaded, published = done.loaded, done.published
    entries = f"{units.number(loaded.entries)}, equal in both"
    return {
        **_first_lines("migrated", done.examined, published.directory, entries),
        "contextCSN": " ".join(loaded.context_csns) or "none stored",
        "size / maxsize": f"{units.size(published.bytes)} / {units.size(published.maxsize)}",
        "took": f"{units.duration(done.seconds)} ({units.number(done.rate)} entries/s)",
        **({"invalid values": ", ".join(loaded.invalid)} if loaded.invalid else {}),
        **({"entries rebuilt": loaded.made_again} if loaded.made_again else {}),
        **{name.replace("_", " "): value for name, value in done.before.items()},
    }


def _plan_lines(plan: MigratePlan) -> dict[str, object]:
    lines = _first_lines("migrate", plan.examined, plan.directory, units.number(plan.entries))
    if (foreseen := plan.foreseen) is not None:
        if foreseen.needed is not None and foreseen.maxsize is not None:
            lines["needed / free"] = f"{units.size(foreseen.needed)} / {units.size(foreseen.free)}"
            lines["maxsize"] = units.size(foreseen.maxsize)
        if foreseen.seconds is not None:
            lines["will take"] = f"about {units.duration(foreseen.seconds)}"
        if foreseen.lacking:
            lines["not in the schema"] = ", ".join(foreseen.lacking)
        if foreseen.problems:
            lines["refused"] = foreseen.problems[-1]
    verdict = "accepts the configuration" if plan.accepted else "does not accept the configuration"
    lines["slaptest -u"] = verdict + (":" if plan.slaptest else "")
    return lines
