"""What makes a provider answer a seed with changes alone, as an operator types it on the provider's host."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from loader.config import Change
from loader.errors import LoaderError
from loader.server import configuration_write, shell_commands
from loader.server.session import Session
from seeders.replica.look import CatchUpForecast
from seeders.replica.provider import SESSION_LOG, Syncprov

_LEAST = 100_000  # writes
_OF_ENTRIES = 100  # one write for so many entries


def log_size(entries: int | None) -> int:
    """A good olcSpSessionlog. Some 500 bytes of the provider's memory a write, and only for writes that are made; but
    to answer from it takes time with the square of the modifications, so it is not made larger than useful."""
    return max(_LEAST, (entries or 0) // _OF_ENTRIES)


def commands(
    server: Session, suffix: str, found: CatchUpForecast, entries: int | None
) -> Iterator[str]:
    """Lines to paste into a shell on the provider's host. The write comes last: a log begins with the first write."""
    if found.known is None or not found.known.logs:
        yield from _set_log(server.uri, suffix, found.known, log_size(entries))
    yield from _write(server, suffix, found.known)


def _set_log(uri: str, suffix: str, known: Syncprov | None, size: int) -> Iterator[str]:
    if known is None:
        yield from _find_and_set(uri, suffix, size)
        return
    yield f"ldapmodify {shell_commands.external(uri)} <<'EOF'"
    yield from configuration_write.change_record(known.entry_dn, [change(known, size)]).splitlines()
    yield "EOF"
    if not known.keeps_changes:
        yield "# It runs on a slapd.conf, and forgets this when it ends: have there, too, below `overlay syncprov`,"
        yield f"# syncprov-sessionlog {size}"


def _find_and_set(uri: str, suffix: str, size: int) -> Iterator[str]:
    """Where cn=config cannot be read from here. `add` is refused where it is set already, which does no harm."""
    yield shell_commands.find_database(uri, suffix)
    overlays = "'(objectClass=olcSyncProvConfig)' 1.1"
    yield f"DN=$({shell_commands.searching(uri)} \"$DB\" -s one {overlays} | sed -n 's/^dn: //p')"
    record = f"dn: %s\\nchangetype: modify\\nadd: {SESSION_LOG}\\n{SESSION_LOG}: {size}\\n"
    yield f"printf '{record}' \"$DN\" | ldapmodify {shell_commands.external(uri)}"


def change(known: Syncprov, size: int) -> Change:
    before = (str(known.session_log),) if known.session_log else ()
    return Change(SESSION_LOG, before, (str(size),) if size else ())


def _write(server: Session, suffix: str, known: Syncprov | None) -> Iterator[str]:
    who = known.database.root_dn if known and known.database.root_dn else "DN-THAT-MAY-WRITE"
    where = shlex.quote(server.uri)
    if known and not known.writes_itself:
        where = "URI-OF-ITS-OWN-PROVIDER"
    yield f"ldapmodify -x -D {shlex.quote(who)} -W -H {where} <<'EOF'"
    line, classes = shell_commands.line, _object_classes(server, suffix)
    record = [line("dn", suffix.encode()), "changetype: modify", "replace: objectClass"]
    record += [line("objectClass", value) for value in classes]
    yield from record
    if known is None:
        # Of a log that has one write nothing can be seen from outside.
        yield from ("", *record)
    yield "EOF"


def _object_classes(server: Session, suffix: str) -> Sequence[bytes]:
    try:
        return server.read(suffix, ["objectClass"]).get("objectclass", [])
    except LoaderError:
        return []
