"""ditseed replica refresh: a stopped consumer's database brought up to date before it starts."""

from __future__ import annotations

import dataclasses

from loader.cli import access
from loader.cli.options import Run
from loader.cli.report import for_people, show_facts, show_json
from loader.declared import command as declare
from loader.errors import UsageProblem
from seeders.replica import refresh as refreshing
from seeders.replica.refresh import RefreshOptions


@declare("refresh")
def command(server: access.Server, options: RefreshOptions, run: Run) -> None:
    """Bring the database of a stopped consumer up to date, before its slapd starts.

    For a seed that has been waiting. The provider (-H -D -y) is asked for everything changed or deleted since the
    database's contextCSN, and all of it goes into the database in one transaction, with the new contextCSN. syncrepl
    then only has to fetch the last minutes. After an interruption the same command resumes; the database is either what
    it was or up to date.

    \b
    Example:
      ditseed replica refresh -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --config /etc/ldap/slapd.d
    """
    connection = access.connection_of(server)
    if not connection.uri:
        raise UsageProblem(reason="give the provider: -H URI")
    suffix = connection.base if options.suffix is None else options.suffix
    options = dataclasses.replace(options, connection=connection, suffix=suffix)
    if run.dry_run:
        facts = refreshing.plan(options)
    else:
        timeouts = run.timeouts_of(refreshing.STEPS)
        facts = refreshing.refresh(options, run.progress, timeouts, run.restart)
    if run.as_json:
        show_json(facts)
    else:
        show_facts(for_people(facts))
