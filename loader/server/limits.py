"""A limit that a search met, and the commands that lift it for the identity that met it, and for nobody else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loader import words
from loader.errors import LimitTooLow, LoaderError
from loader.server import shell_commands
from loader.server.options import Connection

if TYPE_CHECKING:
    from loader.server.session import Session

# Result codes of a search that ended before its time, and the limit behind each (slapd.conf(5), limits).
LIMITS = {
    3: "the time limit",
    4: "the size limit",
    11: "a limit on paged or unindexed searches",
}
_SETTING, _ANONYMOUS = "olcLimits", "anonymous"
_LIFTED = (
    "size.soft=unlimited size.hard=unlimited size.unchecked=unlimited size.pr=unlimited "
    "size.prtotal=unlimited time.soft=unlimited time.hard=unlimited"
)


@dataclass(frozen=True)
class _Database:
    """As cn=config shows it. limits: values of olcLimits in their order, numbered. kept: changes outlive the server."""

    entry_dn: str
    limits: tuple[bytes, ...]
    kept: bool


def error(server: Session, base: str, reason: str, status: int) -> LimitTooLow:
    """What the server knows us as, it is asked: a SASL bind tells a client nothing of its DN."""
    identity, suffix, known = _said(server.connection), base, None
    with suppress(LoaderError):  # a server of another kind
        identity = server.who_am_i() or _ANONYMOUS
    with suppress(LoaderError):  # or an account that is not shown it: what is known has to do
        suffix = server.context_of(base)
        known = _database(server, suffix)
    lines = tuple(_commands(server.uri, suffix, identity, known))
    return LimitTooLow(
        uri=server.uri, limit=LIMITS[status], who=identity, reason=reason, commands=lines
    )


def unasked(connection: Connection, uri: str, base: str, reason: str, status: int) -> LimitTooLow:
    """As `error`, where no session can be had."""
    identity = _said(connection)
    lines = tuple(_commands(uri, base, identity, None))
    return LimitTooLow(uri=uri, limit=LIMITS[status], who=identity, reason=reason, commands=lines)


def _said(connection: Connection) -> str:
    """Who we are as far as the command line tells."""
    return connection.who if connection.mechanism else connection.bind_dn or _ANONYMOUS


def _database(server: Session, suffix: str) -> _Database | None:
    """Of that suffix; None where the account is not shown it."""
    where = f"(olcSuffix={shell_commands.asserted(suffix)})"
    found = server.find("cn=config", where, [_SETTING])
    if not found:
        return None
    entry_dn, entry = found[0]
    kept = not server.matches("cn=config", "(&(olcConfigFile=*)(!(olcConfigDir=*)))")
    return _Database(entry_dn, tuple(entry.get(_SETTING.lower(), ())), kept)


def _commands(uri: str, suffix: str, identity: str, known: _Database | None) -> Iterator[str]:
    """Lines to paste into a shell on the server's host."""
    subject = f'dn.exact="{identity}"'
    if identity == _ANONYMOUS:
        yield "# This is for whoever does not bind: better bind, as an account of its own."
        subject = identity
    elif "=" not in identity or identity.startswith("SASL "):
        yield "# Put the DN that `ldapwhoami` says, with the same -H, -Y and -U, in the place of DN."
        subject = 'dn.exact="DN"'
    value = f"{{0}}{subject} {_LIFTED}".encode()
    if known is None:
        yield from _found_there(uri, suffix, value)
    else:
        yield f"ldapmodify {shell_commands.external(uri)} <<'EOF'"
        yield shell_commands.line("dn", known.entry_dn.encode())
        yield "changetype: modify"
        yield f"{'replace' if known.limits else 'add'}: {_SETTING}"  # others may be hidden
        yield from _first_of(value, [one for one in known.limits if not _is_same(one, subject)])
        yield "EOF"
    if known is None or not known.kept:
        yield "# Where it runs on a slapd.conf: there, before all other `limits` of that database, and restart it:"
        yield f"# limits {words.as_line(subject.replace(chr(34), ''))} {_LIFTED}"


def _is_same(limits: bytes, subject: str) -> bool:
    """slapd takes no second rule for anonymous."""
    return subject == _ANONYMOUS and words.unordered(limits.decode()).startswith(f"{subject} ")


def _first_of(value: bytes, others: Sequence[bytes]) -> Iterator[str]:
    """The first limits that fit an account count. slapd puts an added value behind all others until it is restarted
    (bconfig.c, CFG_LIMITS), so all are written anew."""
    yield shell_commands.line(_SETTING, value)
    for place, other in enumerate(others, 1):
        rest = words.unordered(other.decode("utf-8", "surrogateescape"))
        yield shell_commands.line(_SETTING, f"{{{place}}}{rest}".encode("utf-8", "surrogateescape"))


def _found_there(uri: str, suffix: str, value: bytes) -> Iterator[str]:
    """Where the account is not shown cn=config."""
    shown = f'{shell_commands.searching(uri)} "$DB" -s base {_SETTING}'
    taken = ""
    yield shell_commands.find_database(uri, suffix)
    if value.startswith(b"{0}anonymous "):
        yield f"OLD=$({shown} | sed -n 's/^{_SETTING}: \\({{[0-9]*}}anonymous .*\\)/\\1/p')"
        taken = f"""[ -z "$OLD" ] || printf 'delete: {_SETTING}\\n{_SETTING}: %s\\n-\\n' "$OLD"; """
    head = "printf 'dn: %s\\nchangetype: modify\\n' \"$DB\"; " + taken
    yield f"{{ {head}cat <<'EOF'; }} | ldapmodify {shell_commands.external(uri)}"
    yield f"add: {_SETTING}"
    yield shell_commands.line(_SETTING, value)
    yield "EOF"
    yield shown
    yield "# Where that shows other limits too, restart slapd: until then it minds the new one last."
