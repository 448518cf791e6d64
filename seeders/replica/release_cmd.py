"""ditseed replica release: put back what --prepare-provider has set at a provider."""

from __future__ import annotations

from typing import Annotated

from loader.cli import access
from loader.cli.options import Json
from loader.cli.report import show, show_json
from loader.declared import command as declare
from loader.errors import UsageProblem
from seeders.replica import preparing


@declare("release")
def command(
    server: access.Server,
    forget: Annotated[bool, "Ask no server: forget what was left at one that is gone for good."],
    as_json: Json,
) -> None:
    """Restore the provider's session log to what it was before `replica seed --prepare-provider`.

    Only once the replica has caught up (ditseed replica verify). It is better to keep the session log: without one,
    every consumer that reconnects is sent the entryUUIDs of all entries. -H is the provider, by any of its URIs, on
    the host where the seeding ran.

    Every verb reminds of what a run has left set on a server. If that server is gone for good, --forget with the -H of
    the reminder ends that; nothing is put back anywhere.

    \b
    Examples:
      ditseed replica release -H ldap://provider -D cn=admin,cn=config -y /root/config.pw -b dc=example,dc=com
      ditseed replica release -H ldap://removed -b dc=example,dc=com --forget
    """
    connection = access.connection_of(server)
    if forget:
        if connection.uri is None:
            raise UsageProblem(reason="--forget needs -H, the URI that the reminder names")
        done = preparing.forget(connection.uri, connection.base)
        if as_json:
            show_json({"forgotten": done})
            return
        show(*(done or [f"nothing stands of {connection.uri}"]))
        return
    done = preparing.release(connection, connection.base)
    if as_json:
        show_json({"released": done})
        return
    show(*(done or ["nothing was set by --prepare-provider"]))
