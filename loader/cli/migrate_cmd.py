"""ditseed migrate: a database of one OpenLDAP made again for another, without LDIF in between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loader import units
from loader.cli.options import Run
from loader.cli.report import show, show_facts, show_json
from loader.declared import command as declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK
from loader.operations import migrate as operation
from loader.operations.build.steps import INVALID
from loader.operations.migrate import AGAIN, MigrateOptions

_RELEASES = {1: "OpenLDAP 2.4 to 2.6", 3: "OpenLDAP 2.7"}


@declare("migrate")
def command(options: MigrateOptions, run: Run) -> int:
    """Make the database in directory SOURCE again in directory TARGET, for the slapd of another OpenLDAP.

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
    if run.dry_run:
        return _show_plan(operation.plan(options, run.progress), run.as_json)
    timeouts = run.timeouts_of(operation.STEPS)
    found = operation.migrate(options, run.progress, timeouts, run.restart)
    if run.as_json:
        show_json(found)
    else:
        show_facts(_lines(found))
    return EXIT_OK


def _lines(found: Mapping[str, Any]) -> dict[str, object]:
    seconds, rate = units.duration(found["seconds"]), units.number(found["rate"])
    return {
        "migrated": f"{found['source']} to {found['directory']}",
        "suffix": found["suffix"] or "the empty one",
        "data format": _formats(found),
        "entries": f"{units.number(found['entries'])}, equal in both",
        "contextCSN": " ".join(found["context_csns"]) or "none stored",
        "size / maxsize": f"{units.size(found['bytes'])} / {units.size(found['maxsize'])}",
        "took": f"{seconds} ({rate} entries/s)",
        **_remarks(found),
    }


def _formats(found: Mapping[str, Any]) -> str:
    before, after = found["format_before"], found["format"]
    return f"{before} ({_RELEASES[before]}) to {after} (slapd {found['slapd']})"


def _remarks(found: Mapping[str, Any]) -> dict[str, object]:
    told: dict[str, object] = {}
    if found.get(INVALID):
        told[INVALID] = ", ".join(found[INVALID])
    if found.get(AGAIN):
        told["entries made again"] = found[AGAIN]
    if found.get("done_before"):
        told["done before"] = found["done_before"]
    return told


def _show_plan(found: Mapping[str, Any], as_json: bool) -> int:
    """The exit status says whether anything stands against the migration."""
    if as_json:
        show_json(found)
    else:
        show_facts(_plan_lines(found))
        show(*(f"  {line}" for line in found["slaptest"]))
    return EXIT_OK if found["accepted"] and not found["problems"] else EXIT_DIFFERENT


def _plan_lines(found: Mapping[str, Any]) -> dict[str, object]:
    told: dict[str, object] = {
        "migrate": f"{found['source']} to {found['directory']}",
        "suffix": found["suffix"] or "the empty one",
        "data format": _formats(found),
        "entries": units.number(found["entries"]),
    }
    if found.get("needed") is not None:
        told["needed / free"] = f"{units.size(found['needed'])} / {units.size(found['free'])}"
        told["maxsize"] = units.size(found["maxsize"])
    if found.get("seconds") is not None:
        told["will take"] = f"about {units.duration(found['seconds'])}"
    if found.get("lacking"):
        told["not in the schema"] = ", ".join(found["lacking"])
    for problem in found["problems"]:
        told["refused"] = problem
    said = "accepts the configuration" if found["accepted"] else "does not accept the configuration"
    told["slaptest -u"] = said + (":" if found["slaptest"] else "")
    return told
