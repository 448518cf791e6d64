"""ditseed replica: seed a new replica, look at a seeding, compare the replica with its provider."""

from __future__ import annotations

import click

from seeders.replica import refresh_cmd, release_cmd, seed_cmd, status_cmd, verify_cmd


@click.group("replica")
def command() -> None:
    """Set up a new replica: seed it, follow the seeding, verify the result.

    \b
    The runbook:
      1. On the consumer: install slapd with its configuration (schema, syncrepl, indexes), and stop it.
      2. ditseed replica seed --dry-run ... --config /etc/ldap/slapd.d -o FILE: which strategy, and how long it takes.
      3. ditseed replica seed --plan FILE ..., or --strategy search|ldif|clone ... --config /etc/ldap/slapd.d
      4. Start slapd: syncrepl fetches what changed meanwhile.
      5. ditseed replica verify -H ldap://provider --consumer ldap://consumer ...
    """


for one in (seed_cmd, status_cmd, release_cmd, refresh_cmd, verify_cmd):
    command.add_command(one.command)
