"""How to reach a server: ldapsearch's options, with ldapsearch's meaning."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from loader.errors import NoSuchPath, NotPermitted


@dataclass(frozen=True)
class Connection:
    """Where None stands, libldap's own files and variables decide (ldap.conf, ~/.ldaprc, LDAPURI, LDAPBASE ...).

    The password is a file or, when it was typed at a prompt, text kept in memory; it never stands in an argument list.
    """

    uri: str | None = None
    bind_dn: str | None = None
    password_file: str | None = None
    password: str | None = None
    mechanism: str | None = None  # SASL; "EXTERNAL" for ldapi
    start_tls: int = 0  # 1 try (-Z), 2 demand (-ZZ)
    base: str | None = None

    def __repr__(self) -> str:
        return f"Connection({self.uri}, as {self.who})"

    @property
    def who(self) -> str:
        if self.mechanism:
            return f"SASL {self.mechanism}"
        return self.bind_dn or "anonymous"

    def identity(self) -> dict[str, object]:
        """What tells one connection from another, without secrets: for the catalogue and manifests."""
        return {
            "uri": self.uri,
            "bind_dn": self.bind_dn,
            "mechanism": self.mechanism,
            "base": self.base,
        }

    def secret(self) -> bytes | None:
        """The password. As in ldapsearch -y the whole file is the password, a newline at its end included."""
        if self.password is not None:
            return self.password.encode()
        if self.password_file is None:
            return None
        try:
            with open(self.password_file, "rb") as file:
                return file.read()
        except FileNotFoundError:
            raise NoSuchPath(path=self.password_file) from None
        except PermissionError:
            raise NotPermitted(action="read", path=self.password_file, owner="its owner") from None

    @contextmanager
    def client_arguments(self) -> Iterator[tuple[list[str], tuple[int, ...]]]:
        """ldapsearch's arguments for this connection, and the descriptors it must inherit.

        The password goes through a memory file, so that neither argv nor a disk ever holds it.
        """
        arguments = [] if self.uri is None else ["-H", self.uri]
        arguments += ["-" + "Z" * self.start_tls] if self.start_tls else []
        arguments += ["-Y", self.mechanism, "-Q"] if self.mechanism else ["-x"]
        arguments += ["-D", self.bind_dn] if self.bind_dn else []
        secret = self.secret()
        if secret is None:
            yield arguments, ()
            return
        descriptor = os.memfd_create("ditseed-password")
        try:
            os.fchmod(descriptor, 0o600)
            os.write(descriptor, secret)
            os.lseek(descriptor, 0, os.SEEK_SET)
            yield [*arguments, "-y", f"/proc/self/fd/{descriptor}"], (descriptor,)
        finally:
            os.close(descriptor)
