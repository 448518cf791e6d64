"""ditseed replica release: put back what --prepare-provider has set at a provider."""

from __future__ import annotations

from typing import Any

import click

from loader.cli import access, options
from loader.cli.report import show, show_json
from seeders.replica import preparing


@click.command("release")
@access.connection_options
@options.json_option
def command(as_json: bool, **connecting: Any) -> None:
    """Restore the provider's session log to what it was before `replica seed --prepare-provider`.

    Only once the replica has caught up (ditseed replica verify). It is better to keep the session log: without one,
    every consumer that reconnects is sent the entryUUIDs of all entries. -H is the provider, by any of its URIs, on
    the host where the seeding ran.

    \b
    Example:
      ditseed replica release -H ldap://provider -D cn=admin,cn=config -y /root/config.pw -b dc=example,dc=com
    """
    connection = access.connection_of(connecting)
    done = preparing.release(connection, connection.base)
    if as_json:
        show_json({"released": done})
        return
    show(*(done or ["nothing was set by --prepare-provider"]))
