"""--prepare-provider: a session log that lasts, and a write with which it begins, before the seeding asks for the
contextCSN. The provider itself shows that it was enough.

What the session log was before is written down in a lease. It cannot be given back at the end of the seeding, for the
consumer's first refresh is what needs it: `ditseed replica release` does so, after that.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import partial

from loader.errors import ConfigHidden, LeaseStands, LoaderError, ProviderNotPrepared
from loader.operations import leases
from loader.run import lease
from loader.run.lease import Lease
from loader.run.log import killpoint
from loader.server import configuration, questions, sync
from loader.server.options import Connection
from loader.server.session import Session, session
from loader.server.sync import SyncAnswer
from seeders.replica import catchup
from seeders.replica import provider as providers
from seeders.replica.provider import Syncprov

KIND = "sessionlog"
# The provider's server ID into the contextCSN, the first of the log, one that shows it; one more for other writers.
_WRITES = 4


@dataclass(frozen=True)
class Admin:
    """The provider, as an account that may change its cn=config, and as one that may write to the tree."""

    config: Connection
    data: Connection


def prepare(admin: Admin, base: str, log_base: str | None = None) -> list[str]:
    """For the database that holds `base`: what was done. `log_base`: the accesslog that the consumer's syncrepl reads.

    Raises ConfigHidden, ConfigRefused, ServerRefused, ProviderNotPrepared.
    """
    done = []
    with session(admin.config) as server:
        suffix = server.context_of(base)
        found = catchup.expected_answer(server, suffix, server.context_csns(suffix), log_base)
        if found.fits and found.sure:
            return [f"{server.uri} is ready"]
        if not found.known or not found.known.logs:
            done.append(_set_log(admin.config, server, suffix))
    with session(admin.data) as writer, session(admin.config) as server:
        return [*done, _begin(writer, server, suffix, log_base)]


def _set_log(admin: Connection, server: Session, suffix: str) -> str:
    known = providers.read(server, suffix)
    if known is None:
        who = server.connection.who
        raise ConfigHidden(uri=server.uri, who=who, reason=f"no syncprov of {suffix} is shown")
    size = providers.log_size(questions.entries(server, suffix, sampled=True))
    _write_down(admin, server, suffix, known)
    killpoint(f"{KIND}.written-down")
    configuration.modify(server, known.entry_dn, [providers.change_command(known, size)])
    killpoint(f"{KIND}.taken")
    return f"{providers.SESSION_LOG} of {suffix} set to {size:,} at {server.uri}"


def _write_down(admin: Connection, server: Session, suffix: str, known: Syncprov) -> None:
    """Once: what stands there already tells what was before all seedings."""
    config = configuration.read_online(server)
    if any(one.database == suffix for one in lease.left(leases.identity(config), KIND)):
        return
    mark = leases.mark(config, config.database(suffix))
    undo = ["ditseed", "replica", "release", *admin.options(), "-b", suffix]
    before = str(known.session_log or "")
    one = Lease(KIND, server.uri, suffix, shlex.join(undo), before=before, mark=mark)
    lease.note(one)


def _begin(writer: Session, server: Session, suffix: str, log_base: str | None) -> str:
    """Write until the provider answers the contextCSN of before the last write with changes alone."""
    for count in range(1, _WRITES + 1):
        claimed = writer.context_csns(suffix)
        sync.touch(writer, suffix)
        found = catchup.expected_answer(server, suffix, claimed, log_base)
        if found.fits and found.answer is SyncAnswer.CHANGES:
            return f"writes to {suffix} that change nothing: {count}"
    facts = {"answer": found.answer.value, "why": found.why}
    raise ProviderNotPrepared(uri=server.uri, suffix=suffix, **facts)


def release(connection: Connection, suffix: str | None) -> list[str]:
    """Put back what session logs were before --prepare-provider; which, and what. Raises LeaseStands."""
    with session(connection) as server:
        standing = lease.left(leases.of_server(server), KIND)
        found = [one for one in standing if suffix in (None, one.database)]
        for one in found:
            lease.end(one, partial(_put_back, server, one))
    return [f"{one.database}: {one.before or 'no session log'}" for one in found]


def forget(uri: str, suffix: str | None) -> list[str]:
    """Forget what runs have left at a server that cannot be reached any more; what. Nothing is asked or put back."""
    found = [one for one in lease.left() if one.target == uri and suffix in (None, one.database)]
    for one in found:
        lease.end(one)
    return [f"{one.kind} of {one.database}: forgotten, not put back" for one in found]


def _put_back(server: Session, one: Lease) -> None:
    try:
        known = providers.read(server, one.database)
        if known is None:
            raise ConfigHidden(uri=server.uri, who=server.connection.who, reason="nothing is shown")
        change = providers.change_command(known, int(one.before or 0))
        if change.before != change.after:
            configuration.modify(server, known.entry_dn, [change])
    except LoaderError as error:
        what, undo = providers.SESSION_LOG, one.undo
        raise LeaseStands(what=what, suffix=one.database, reason=error, undo=undo) from error


def standing(uri: str) -> list[str]:
    """What is to be said of session logs that were set for a seeding and not given back: of any server, since that of
    `uri` may have been given by another one."""
    return [
        f"the session log of {one.database} was set by --prepare-provider at {one.taken}{_at(one, uri)}; keep it, as "
        f"any restart of a consumer needs it, or put back what was before: {one.undo} (with "
        "--forget if that server is gone for good)"
        for one in lease.left()
        if one.kind == KIND
    ]


def _at(one: Lease, uri: str) -> str:
    return "" if one.target == uri else f" at {one.target}"
