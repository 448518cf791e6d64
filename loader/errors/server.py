"""Of a server that is reached over LDAP."""

from __future__ import annotations

from loader.errors.base import LoaderError


class ServerDown(LoaderError):
    code, exit_status = "server.down", 30
    message = "{uri}: cannot reach the server: {reason}"
    hint = (
        "Check that slapd is running there and that this host can reach its port. Without -H, ditseed uses the server "
        "that ldap.conf names."
    )
    retryable = True


class BadCredentials(LoaderError):
    code, exit_status = "server.bad_credentials", 31
    message = "{uri}: the server refused the bind as {who}: {reason}"
    hint = "{advice}"


class AccountClosed(LoaderError):
    """reason: what the password policy of the server says of the account. commands: that open it again."""

    code, exit_status = "server.account_closed", 103
    message = "{uri}: the account {who} cannot be used: {reason}"
    hint = "{advice}{commands}"


class Referred(LoaderError):
    code, exit_status = "server.referral", 104
    message = "{uri}: {operation}: the server does not do this itself, and refers to {provider}"
    hint = (
        "It is a replica, or does not hold that entry. Give the same command with -H and the URI to which it refers, "
        "which is that of the provider."
    )


class KerberosFailed(LoaderError):
    code, exit_status = "server.kerberos", 77
    message = "{uri}: Kerberos: {reason}"
    hint = "{advice}"


class NoMechanism(LoaderError):
    code, exit_status = "server.no_mechanism", 78
    message = "{uri}: cannot bind with SASL mechanism {mechanism}: {reason}"
    hint = (
        "Give -Y with a mechanism that the server offers ({offered}). For each, this host needs a plugin of Cyrus "
        "SASL (Debian: libsasl2-modules for SCRAM and others, libsasl2-modules-gssapi-mit for GSSAPI)."
    )


class TooWeak(LoaderError):
    code, exit_status = "server.too_weak", 79
    message = "{uri}: the bind as {who} is too weak: {reason}"
    hint = "Encrypt the connection (-ZZ, ldaps://), or bind with a security layer (-Y GSSAPI, -O minssf=56)."


class NoSuchBase(LoaderError):
    code, exit_status = "server.no_such_base", 32
    message = "{uri}: there is no entry {base}, or access control hides it from {who}"
    hint = "Check -b (the server's suffixes are: {known}), and whether that account may read the entry (olcAccess)."


class LimitTooLow(LoaderError):
    code, exit_status = "server.limit_too_low", 33
    message = "{uri}: {limit} of {who} is too low to read all entries ({reason})"
    hint = (
        "Raise the limit for this identity only. On OpenDJ, in the account's entry: ds-rlim-size-limit, "
        "ds-rlim-lookthrough-limit and ds-rlim-time-limit 0, ds-privilege-name unindexed-search; on 389 Directory "
        "Server: nsSizeLimit, nsLookThroughLimit and nsTimeLimit -1. On OpenLDAP, paste this into a shell of root on "
        "the server's host, then give the same command again: {commands}"
    )


class ServerRefused(LoaderError):
    code, exit_status = "server.refused", 34
    message = "{uri}: {operation}: {reason}"
    hint = "The server sent this message; its log has more (for slapd, set loglevel stats)."


class NoWriteAccess(LoaderError):
    """rule: the value of olcAccess that allows it."""

    code, exit_status = "server.no_write_access", 76
    message = "{uri}: {who} may not add entries below {where}: {reason}"
    hint = (
        "Bind as the root DN of that database (-D, -y), or allow this account to write to it, by the first rule of the "
        "database: olcAccess: {rule}"
    )


class TlsFailed(LoaderError):
    code, exit_status = "server.tls", 35
    message = "{uri}: TLS failed: {reason}"
    hint = "{advice}"


class ConnectionLost(LoaderError):
    code, exit_status = "server.connection_lost", 36
    message = "{uri}: the connection broke: {reason}"
    hint = "The same command resumes and reads only the missing parts."
    hint_without_run = "Check the server's log; the same command starts over."
    retryable = True


class ServerSilent(ConnectionLost):
    """It has had its time: another server may be asked; this one is not asked again."""

    code, exit_status = "server.silent", 99
    hint = "Check whether the server is running or overloaded; the same command resumes."
    hint_without_run = "Check whether the server is running or overloaded, then run the same command again."


class NotLdap(LoaderError):
    code, exit_status = "server.not_ldap", 93
    message = "{uri} does not answer in LDAP: {reason}"
    hint = "Check the host and the port in -H: a directory server has to listen there (389, or 636 with ldaps://)."


class SchemaUnreadable(LoaderError):
    code, exit_status = "server.schema", 94
    message = "{uri}: cannot parse an attribute type in the server's schema ({place}): {definition}"
    hint = "Correct that definition on the server; ditseed needs it to know which attributes to export or add."


class NoContextCSN(LoaderError):
    code, exit_status = "server.no_context_csn", 37
    message = "{where}: no contextCSN for {suffix}"
    hint = "{advice}{commands}"


class NotInSync(LoaderError):
    """state: what it is doing. advice: what to do."""

    code, exit_status = "server.not_in_sync", 38
    message = "{consumer} has not caught up with {provider} within {waited}: {state}"
    hint = "{advice}"
