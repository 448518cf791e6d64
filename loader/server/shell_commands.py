"""Commands for an operator's shell on the host of a server: who gives them may not know its cn=config."""

from __future__ import annotations

import base64
import re
import shlex

_SAFE = re.compile(
    rb"(?![ :<])[\x20-\x7e]*(?<! )\Z"
)  # RFC 2849 SAFE-STRING, without a space at its end


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
