"""A limit that a search met, and the commands that lift it for the identity that met it, as an operator types them on
the server's host."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loader import values
from loader.errors import LimitTooLow, LoaderError
from loader.server.options import Connection

if TYPE_CHECKING:
    from loader.server.session import Session

# Result codes of a search that ended before its time, and the limit behind each (slapd.conf(5), limits).
LIMITS = {3: "the time limit", 4: "the size limit", 11: "a limit on paged or unindexed searches"}
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
    return LimitTooLow(uri=server.uri, limit=LIMITS[status], who=identity, reason=reason, commands=lines)


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
    where = f"(olcSuffix={asserted(suffix)})"
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
        yield f"ldapmodify {external(uri)} <<'EOF'"
        yield line("dn", known.entry_dn.encode())
        yield "changetype: modify"
        yield f"{'replace' if known.limits else 'add'}: {_SETTING}"  # others may be hidden
        yield from _first_of(value, [one for one in known.limits if not _is_same(one, subject)])
        yield "EOF"
    if known is None or not known.kept:
        yield "# Where it runs on a slapd.conf: there, before all other `limits` of that database, and restart it:"
        yield f"# limits {values.as_line(subject.replace(chr(34), ''))} {_LIFTED}"


def _is_same(limits: bytes, subject: str) -> bool:
    """slapd takes no second rule for anonymous."""
    return subject == _ANONYMOUS and values.unordered(limits.decode()).startswith(f"{subject} ")


def _first_of(value: bytes, others: Sequence[bytes]) -> Iterator[str]:
    """The first limits that fit an account count. slapd puts an added value behind all others until it is restarted
    (bconfig.c, CFG_LIMITS), so all are written anew."""
    yield line(_SETTING, value)
    for place, other in enumerate(others, 1):
        rest = values.unordered(other.decode("utf-8", "surrogateescape"))
        yield line(_SETTING, f"{{{place}}}{rest}".encode("utf-8", "surrogateescape"))


def _found_there(uri: str, suffix: str, value: bytes) -> Iterator[str]:
    """Where the account is not shown cn=config."""
    shown = f'{searching(uri)} "$DB" -s base {_SETTING}'
    taken = ""
    yield find_database(uri, suffix)
    if value.startswith(b"{0}anonymous "):
        yield f"OLD=$({shown} | sed -n 's/^{_SETTING}: \\({{[0-9]*}}anonymous .*\\)/\\1/p')"
        taken = f"""[ -z "$OLD" ] || printf 'delete: {_SETTING}\\n{_SETTING}: %s\\n-\\n' "$OLD"; """
    head = "printf 'dn: %s\\nchangetype: modify\\n' \"$DB\"; " + taken
    yield f"{{ {head}cat <<'EOF'; }} | ldapmodify {external(uri)}"
    yield f"add: {_SETTING}"
    yield line(_SETTING, value)
    yield "EOF"
    yield shown
    yield "# Where that shows other limits too, restart slapd: until then it minds the new one last."


# --- shell commands --------------------------------------------------------------------------------------------------
#
# Commands for an operator's shell on the host of a server: who gives them may not know its cn=config.


_SAFE = re.compile(rb"(?![ :<])[\x20-\x7e]*(?<! )\Z")  # RFC 2849 SAFE-STRING, without a space at its end


def external(uri: str) -> str:
    """How root comes to cn=config there."""
    return f"-Q -Y EXTERNAL -H {shlex.quote(uri) if uri.startswith('ldapi:') else 'ldapi:///'}"


def searching(uri: str) -> str:
    """The beginning of a search; the base follows."""
    return f"ldapsearch {external(uri)} -LLL -o ldif-wrap=no -b"


def find_database(uri: str, suffix: str) -> str:
    """Puts the DN of a database's entry in cn=config into DB."""
    where = shlex.quote(f"(olcSuffix={asserted(suffix)})")
    return f"DB=$({searching(uri)} cn=config {where} 1.1 | sed -n 's/^dn: //p')"


def asserted(text: str) -> str:
    """As a value in a filter (RFC 4515)."""
    return re.sub(r"[*()\\\0]", lambda found: f"\\{ord(found[0]):02x}", text)


def line(name: str, value: bytes) -> str:
    """Of an LDIF record."""
    if _SAFE.match(value):
        return f"{name}: {value.decode('ascii')}"
    return f"{name}:: {base64.b64encode(value).decode('ascii')}"
