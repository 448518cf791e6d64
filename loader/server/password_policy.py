"""A simple bind that asks what the password policy says of the account (draft-behera-ldap-password-policy, 6).

Without that control slapd answers "Invalid credentials" for an account that is locked or has expired, too, and lets an
account bind that may do nothing but change its password. python-ldap has this control, with pyasn1, which takes longer
to import than a bind takes.
"""

from __future__ import annotations

import shlex
from typing import Any

import ldap
from ldap.controls import RequestControl, ResponseControl

from loader.errors import AccountClosed
from loader.server import shell_commands
from loader.server.options import Connection

_OID = "1.3.6.1.4.1.42.2.27.8.5.1"
_EXPIRED, _LOCKED, _RESET = 0, 1, 2
_REASONS = {
    _EXPIRED: "its password has expired",
    _LOCKED: "it is locked after too many wrong passwords, or by an administrator",
    _RESET: "it has to change its password before it may do anything else (pwdReset)",
}
_ERROR = 0x81  # [1] error ENUMERATED of PasswordPolicyResponseValue


class _Answer(ResponseControl):  # type: ignore[misc]
    error: int | None = None

    def decodeControlValue(self, encodedControlValue: bytes) -> None:  # noqa: N802, N803
        self.error = _error(encodedControlValue)


def bind(handle: Any, uri: str, connection: Connection) -> None:
    """Raises AccountClosed, and python-ldap's own errors."""
    name, secret = connection.bind_dn or "", connection.secret() or b""
    try:
        number = handle.simple_bind(name, secret, [RequestControl(_OID)] if name else None)
        controls = handle.result3(number, resp_ctrl_classes={_OID: _Answer})[3]
    except ldap.LDAPError as error:
        facts = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        for oid, _, value in facts.get("ctrls", ()):
            _require_open(uri, connection, _error(value) if oid == _OID else None)
        raise
    for one in controls:
        _require_open(uri, connection, one.error)


def _require_open(uri: str, connection: Connection, error: int | None) -> None:
    if error in _REASONS:
        raise _closed(uri, connection, error)


def _error(value: bytes | None) -> int | None:
    """Of the value of the control; all its lengths are shorter than 128."""
    value, at = value or b"", 2
    while at + 2 < len(value):
        if value[at] == _ERROR:
            return value[at + 2]
        at += 2 + value[at + 1]
    return None


def _closed(uri: str, connection: Connection, error: int) -> AccountClosed:
    who, at = connection.who, f"-x -H {shlex.quote(uri)}"
    name = shlex.quote(who)
    commands: tuple[str, ...]
    if error == _LOCKED:
        advice = "Let an account that may manage the entry, in the place of ROOTDN, unlock it."
        commands = (
            f"ldapmodify {at} -D ROOTDN -W <<'EOF'",
            shell_commands.line("dn", who.encode()),
            "changetype: modify",
            "delete: pwdAccountLockedTime",
            "EOF",
        )
    elif error == _EXPIRED:
        advice = (
            "Let an account that may manage the entry, in the place of ROOTDN, set a new password."
        )
        commands = (f"ldappasswd {at} -D ROOTDN -W -S {name}",)
    else:
        advice = "Give it a new password, then write that into the password file."
        commands = (f"ldappasswd {at} -D {name} -W -S",)
    return AccountClosed(uri=uri, who=who, reason=_REASONS[error], advice=advice, commands=commands)
