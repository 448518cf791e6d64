"""`ditseed migrate`: rebuilds a database for another release of OpenLDAP, without LDIF in between."""

from __future__ import annotations

from loader import units
from loader.cli.options import Run
from loader.cli.report import show, show_facts, show_json
from loader.declared import command as declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK
from loader.operations import migrate as operation
from loader.operations.build.steps import INVALID
from loader.operations.migrate import AGAIN, MigrateOptions
from loader.run.log import Facts

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
        plan = operation.plan(options, run.progress)
        _show(plan, _plan_lines(plan), run.as_json)
        return EXIT_OK if plan["accepted"] and not plan["problems"] else EXIT_DIFFERENT
    report = operation.migrate(options, run.progress, run.timeouts_of(operation.STEPS), run.restart)
    _show(report, _report_lines(report), run.as_json)
    return EXIT_OK


def _show(facts: Facts, lines: dict[str, object], as_json: bool) -> None:
    if as_json:
        show_json(facts)
        return
    show_facts(lines)
    show(*(f"  {line}" for line in facts.get("slaptest", ())))


def _first_lines(facts: Facts, verb: str, remark: str = "") -> dict[str, object]:
    before, after = facts["format_before"], facts["format"]
    return {
        verb: f"{facts['source']} to {facts['directory']}",
        "suffix": facts["suffix"] or "the empty one",
        "data format": f"{before} ({_RELEASES[before]}) to {after} (slapd {facts['slapd']})",
        "entries": units.number(facts["entries"]) + remark,
    }


def _report_lines(facts: Facts) -> dict[str, object]:
    lines = {
        **_first_lines(facts, "migrated", ", equal in both"),
        "contextCSN": " ".join(facts["context_csns"]) or "none stored",
        "size / maxsize": f"{units.size(facts['bytes'])} / {units.size(facts['maxsize'])}",
        "took": f"{units.duration(facts['seconds'])} ({units.number(facts['rate'])} entries/s)",
    }
    if facts.get(INVALID):
        lines[INVALID] = ", ".join(facts[INVALID])
    if facts.get(AGAIN):
        lines["entries made again"] = facts[AGAIN]
    if facts.get("done_before"):
        lines["done before"] = facts["done_before"]
    return lines


def _plan_lines(facts: Facts) -> dict[str, object]:
    lines = _first_lines(facts, "migrate")
    if facts.get("needed") is not None:
        lines["needed / free"] = f"{units.size(facts['needed'])} / {units.size(facts['free'])}"
        lines["maxsize"] = units.size(facts["maxsize"])
    if facts.get("seconds") is not None:
        lines["will take"] = f"about {units.duration(facts['seconds'])}"
    if facts.get("lacking"):
        lines["not in the schema"] = ", ".join(facts["lacking"])
    for problem in facts["problems"]:
        lines["refused"] = problem
    verdict = "accepts the configuration" if facts["accepted"] else "does not accept the configuration"
    lines["slaptest -u"] = verdict + (":" if facts["slaptest"] else "")
    return lines
