"""`ditseed migrate`: rebuilds a database for another release of OpenLDAP, without LDIF in between."""

from __future__ import annotations

from loader.cli.options import Run
from loader.cli.report import show_report
from loader.declared import declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK
from loader.operations.options import MigrateOptions


@declare("migrate")
def command(options: MigrateOptions, run: Run) -> int:
    """Rebuild the database in directory SOURCE in directory TARGET, for another release of OpenLDAP.

    The databases of OpenLDAP 2.4 to 2.6 and of 2.7 have different formats, and neither slapd opens those of the other.
    SOURCE may have either format, and slapd may be running on it. TARGET gets the format of the slapd that is installed
    here (or that DITSEED_TOOLS names), and the indexes of its configuration (--config). All entries with their
    operational attributes and the contextCSN are kept, and compared at the end. SOURCE is not changed.

    Stop the old slapd before the final migration: the new database lacks changes that are made after the reading began.
    To fill a consumer from a running provider, use `ditseed replica seed`.

    \b
    Examples:
      ditseed migrate /var/lib/ldap /srv/ldap-2.7 --config /opt/openldap/etc/slapd.d --dry-run
      ditseed migrate /var/lib/ldap /srv/ldap-2.7 --config /opt/openldap/etc/slapd.d
    If the slapd of 2.7 is not in PATH:
      DITSEED_TOOLS='env PATH=/opt/openldap/sbin:/opt/openldap/libexec:/usr/bin:/bin' \\
          ditseed migrate /var/lib/ldap /srv/ldap-2.7 --config /opt/openldap/etc/slapd.d
    """
    from loader.operations import migrate as operation

    if run.dry_run:
        report, succeeds = operation.plan(options, run.progress)
    else:
        report, succeeds = operation.migrate(options, run.progress, run.timeouts_of(operation.STEPS), run.restart), True
    show_report(report, run.as_json)
    return EXIT_OK if succeeds else EXIT_DIFFERENT
