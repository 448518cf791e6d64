"""The options of a connection, with the same meaning as for ldapsearch; the parameters of a search; and shell commands
for an operator on the server's host, which assume nothing about the server's cn=config."""

from __future__ import annotations

import base64
import logging
import os
import re
import shlex
import stat
from functools import cache
from pathlib import Path

from msgspec import Struct

from loader.storage import files, held


class Connection(Struct, frozen=True):
    """The options of a connection. If an option is None, the files and variables of libldap decide (ldap.conf,
    ~/.ldaprc, LDAPURI, LDAPBASE ...). The password comes from a file or a prompt, never from the command line."""

    uri: str | None = None
    bind_dn: str | None = None
    password_file: str | None = None
    password: str | None = None
    mechanism: str | None = None  # SASL; "EXTERNAL" for ldapi
    authcid: str | None = None  # this field and the next four are parameters of SASL: ldapsearch's -U -X -R -O -N
    authzid: str | None = None
    realm: str | None = None
    secprops: str | None = None  # "minssf=56,..." (ldap.conf(5), SASL_SECPROPS)
    as_written: bool = False  # take the server's name from the URI, not from DNS
    start_tls: int = 0  # 1: try StartTLS (-Z), 2: require it (-ZZ)
    base: str | None = None

    def __repr__(self) -> str:
        return f"Connection({self.uri}, as {self.who})"

    @property
    def who(self) -> str:
        if self.mechanism:
            named = f" as {self.authcid}" if self.authcid else ""
            return f"SASL {self.mechanism}{named}"
        return self.bind_dn or "anonymous"

    def identity(self) -> dict[str, object]:
        """Returns the options that identify the connection, without secrets, for manifests and the log of a run."""
        always = {name: getattr(self, name) for name in ("uri", "bind_dn", "mechanism", "base")}
        return always | {name: value for name in ("authcid", "authzid") if (value := getattr(self, name))}

    def options(self, uri: str | None = None) -> tuple[str, ...]:
        """Returns the options for another command line. If the password was typed, that command prompts for it (-W)."""
        with_value = {
            "-H": uri or self.uri,
            "-Y": self.mechanism,
            "-D": self.bind_dn,
            "-U": self.authcid,
            "-X": self.authzid,
            "-R": self.realm,
            "-O": self.secprops,
            "-y": self.password_file,
        }
        words = [word for letter, value in with_value.items() if value for word in (letter, value)]
        words += ["-" + "Z" * self.start_tls] if self.start_tls else []
        words += ["-N"] if self.as_written else []
        words += ["-W"] if self.password is not None and not self.password_file else []
        return tuple(words)

    def read_secret(self) -> bytes | None:
        """Returns the password. As with ldapsearch -y, the password is the whole file, including a final newline."""
        if self.password is not None:
            return self.password.encode()
        if self.password_file is None:
            return None
        path = Path(self.password_file)
        with files.explained(path):
            descriptor, status = held.secret(path, others_may_read=True)
            with os.fdopen(descriptor, "rb") as file:
                _warn_if_readable(self.password_file, status.st_mode)
                return file.read()


@cache  # one warning per run, although each connection reads the file
def _warn_if_readable(path: str, mode: int) -> None:
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        who = "every user of this host" if mode & stat.S_IROTH else "its group"
        logging.getLogger(__name__).warning(
            "%s: %s can read the password; correct this with: chmod 600 %s", path, who, shlex.quote(path)
        )


EVERYTHING = ("*", "+")
SUBENTRIES = "1.3.6.1.4.1.4203.1.10.1"  # the subentries control (RFC 3672)


class Search(Struct, frozen=True):
    """One search. It returns referral objects as entries (ldapsearch -M, RFC 3296) and does not follow aliases."""

    base: str
    where: str = "(objectClass=*)"
    scope: str = "sub"
    attributes: tuple[str, ...] = EVERYTHING
    page: int = 0  # entries per page; 0: no paged results
    # True returns only subentries (RFC 3672), if the server supports the control SUBENTRIES. A search without that
    # control omits subentries, except with the scope "base".
    subentries: bool = False


_SAFE = re.compile(rb"(?![ :<])[\x20-\x7e]*(?<! )\Z")  # RFC 2849 SAFE-STRING, without a trailing space


def external(uri: str) -> str:
    """Returns the options with which root reaches cn=config on the server's host."""
    return f"-Q -Y EXTERNAL -H {shlex.quote(uri) if uri.startswith('ldapi:') else 'ldapi:///'}"


def ldapsearch(uri: str) -> str:
    return f"ldapsearch {external(uri)} -LLL -o ldif-wrap=no -b"


def find_database(uri: str, suffix: str) -> str:
    """Returns a shell command that sets DB to the DN of the database's entry in cn=config."""
    value = re.sub(r"[*()\\\0]", lambda match: f"\\{ord(match[0]):02x}", suffix)  # escaped as in RFC 4515
    where = shlex.quote(f"(olcSuffix={value})")
    return f"DB=$({ldapsearch(uri)} cn=config {where} 1.1 | sed -n 's/^dn: //p')"


def line(name: str, value: bytes) -> str:
    """Returns a line of an LDIF record, in base64 if necessary."""
    if _SAFE.match(value):
        return f"{name}: {value.decode('ascii')}"
    return f"{name}:: {base64.b64encode(value).decode('ascii')}"
