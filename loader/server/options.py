"""How to reach a server: ldapsearch's options, with ldapsearch's meaning."""

from __future__ import annotations

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
