"""SASL through python-ldap, for the small questions; the native core answers mechanisms itself, with the same words."""

from __future__ import annotations

from typing import Any

import ldap
import ldap.sasl

from loader.errors import UsageProblem
from loader.server.options import Connection


def bind(handle: Any, connection: Connection) -> None:
    """Raises UsageProblem, and python-ldap's own errors."""
    assert connection.mechanism is not None
    _set_options(handle, connection)
    asked = ldap.sasl.sasl(_answers(handle, connection), connection.mechanism)
    handle.sasl_interactive_bind_s("", asked)


def _set_options(handle: Any, connection: Connection) -> None:
    """Where nothing is said, ldap.conf decides."""
    if connection.sasl.as_written:
        handle.set_option(ldap.OPT_X_SASL_NOCANON, 1)
    if connection.sasl.properties is None:
        return
    try:
        handle.set_option(ldap.OPT_X_SASL_SECPROPS, connection.sasl.properties)
    except (ldap.LDAPError, ValueError):
        reason = f"-O {connection.sasl.properties}: libldap knows no such security properties"
        raise UsageProblem(reason=reason) from None


def _answers(handle: Any, connection: Connection) -> dict[int, str]:
    """What mechanisms ask for. libldap keeps what ldap.conf says of it, and leaves it to us to tell."""
    given = connection.sasl
    return {
        ldap.sasl.CB_AUTHNAME: connection.authcid or _default(handle, ldap.OPT_X_SASL_AUTHCID),
        ldap.sasl.CB_USER: given.authzid or _default(handle, ldap.OPT_X_SASL_AUTHZID),
        ldap.sasl.CB_GETREALM: given.realm or _default(handle, ldap.OPT_X_SASL_REALM),
        ldap.sasl.CB_PASS: _password(connection),
    }


def _default(handle: Any, option: int) -> str:
    return str(handle.get_option(option) or "")


def _password(connection: Connection) -> str:
    try:
        return (connection.secret() or b"").decode()
    except UnicodeDecodeError:
        raise UsageProblem(reason="the password is not UTF-8, which SASL wants") from None
