"""The connection options, with the letters of ldapsearch, and their conversion to Connection objects."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import click
from msgspec.structs import replace

from loader.cli.options import keep_strongest, refuse_given
from loader.errors import NO_SECRETS, UsageProblem
from loader.server.options import Connection

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_URI = "The server: ldap://, ldaps:// or ldapi:// (ldap.conf is honoured)."


def _no_secret(context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise UsageProblem(reason=f"-w is not accepted. {NO_SECRETS}")


@dataclass(frozen=True, kw_only=True)
class Account:
    """The bind options, without -b and -R, which some verbs use for a suffix and a repository."""

    simple: Annotated[bool, "-x --simple", "Simple bind; the default without -Y."] = False
    bind_dn: Annotated[str | None, "-D --bind-dn DN", "Bind as this DN."] = None
    password_file: Annotated[
        str | None,
        "-y --password-file FILE",
        "Read the password from FILE; the whole content counts, including a newline at the end.",
    ] = None
    ask: Annotated[bool, "-W --ask-password", "Prompt for the password."] = False
    mechanism: Annotated[
        str | None, "-Y --mechanism MECH", "SASL mechanism: EXTERNAL with ldapi:///, GSSAPI, SCRAM-SHA-256 ..."
    ] = None
    authcid: Annotated[str | None, "-U --authcid NAME", "SASL: authentication identity (default: -D)."] = None
    authzid: Annotated[str | None, "-X --authzid ID", "SASL: authorization identity, dn:DN or u:NAME."] = None
    start_tls: Annotated[
        int, "-Z --start-tls", {"count": True, "show_default": False}, "Try StartTLS; with -ZZ it must succeed."
    ] = 0
    # For operators who know -w from ldapsearch: hidden, and raises an error that names the alternatives.
    refused_password: Annotated[
        None,
        "-w",
        {"metavar": "PASSWORD", "hidden": True, "is_eager": True, "expose_value": False, "callback": _no_secret},
        "Not accepted; use -y or -W.",
    ] = None


@dataclass(frozen=True, kw_only=True)
class BindOptions(Account):
    """Options of the bind and the base DN, including ldapsearch's -R, -O, -N and -b."""

    realm: Annotated[str | None, "-R --realm REALM", "SASL: realm."] = None
    secprops: Annotated[str | None, "-O --secprops PROPS", "SASL: security properties, such as minssf=56."] = None
    as_written: Annotated[bool, "-N --nocanon", "SASL: use the host name as given with -H, without asking DNS."] = False
    base: Annotated[str | None, "-b --base BASE", "Base DN (default: ldap.conf, else the only suffix)."] = None


@dataclass(frozen=True, kw_only=True)
class ServerOptions(BindOptions):
    uri: Annotated[str | None, "-H --uri URI", _URI] = None


@dataclass(frozen=True, kw_only=True)
class ServersOptions(BindOptions):
    uris: Annotated[
        tuple[str, ...], "-H --uri URI", f"{_URI} Repeat it to read several replicas of the same tree in parallel."
    ] = ()


@dataclass(frozen=True, kw_only=True)
class ConsumerAccount:
    """Options of the bind at the second server."""

    consumer_bind_dn: Annotated[str | None, "--consumer-bind-dn DN", "Bind DN at that server (default: -D)."] = None
    consumer_password_file: Annotated[
        str | None, "--consumer-password-file FILE", "Password file at that server (default: -y)."
    ] = None
    consumer_mechanism: Annotated[
        str | None,
        "--consumer-mechanism MECH",
        "SASL mechanism at that server (default: -Y, unless --consumer-bind-dn is given).",
    ] = None


ConsumerUri = Annotated[str | None, "--consumer URI", "URI of the replica: ldap://, ldaps:// or ldapi://."]


@dataclass(frozen=True, kw_only=True)
class Consumer(ConsumerAccount):
    """Options of the running replica."""

    consumer_uri: ConsumerUri = None


_SASL_OPTIONS = ("authcid", "authzid", "realm", "secprops", "as_written")


def connection_of(account: Account, uri: str | None = None) -> Connection:
    """Returns the connection that the options describe. Raises UsageProblem if options contradict each other."""
    # The account and its password must come from the same source.
    account = keep_strongest(account, ("mechanism", "simple"), _SASL_OPTIONS)
    account = keep_strongest(account, ("bind_dn", "mechanism"), (*_SASL_OPTIONS, "password_file", "ask"))
    account = keep_strongest(account, ("password_file", "ask"))
    if account.mechanism is None:  # a simple bind would ignore SASL options without a message
        refuse_given(_SASL_OPTIONS, "SASL: give -Y MECH too")
    if account.simple and account.mechanism:
        raise UsageProblem(reason="-x requests a simple bind and -Y a SASL bind: give one of them")
    password = None
    if account.ask:
        if not sys.stdin.isatty():
            raise UsageProblem(reason="-W prompts on a terminal, and there is none; use -y FILE")
        password = click.prompt("Password", hide_input=True, err=True)
    # For a bind DN without a password, some servers bind anonymously, and others refuse (RFC 4513, 5.1.2).
    if account.bind_dn and not (account.mechanism or password or account.password_file):
        raise UsageProblem(reason=f"-D {account.bind_dn} needs a password: -y FILE, or -W for a prompt")
    options = {name: getattr(account, name) for name in Connection.__struct_fields__ if hasattr(account, name)}
    return Connection(**{"uri": uri, **options, "password": password})


def providers_of(servers: ServersOptions) -> tuple[Connection, tuple[Connection, ...]]:
    """Returns the connection to the first provider, and those to the other providers, which differ only in the URI."""
    first = connection_of(servers, next(iter(servers.uris), None))
    if len(set(servers.uris)) < len(servers.uris):
        raise UsageProblem(reason="-H names the same server twice")
    return first, tuple(replace(first, uri=uri) for uri in servers.uris[1:])


def second_of(first: Connection, account: DataclassInstance, prefix: str = "consumer") -> Connection:
    """Returns `first` with the account of --PREFIX-bind-dn, --PREFIX-mechanism and --PREFIX-password-file, if given."""
    names = [f"{prefix}_{name}" for name in ("bind_dn", "mechanism", "password_file")]
    account = keep_strongest(account, names[:2], names[2:])
    bind_dn, mechanism, password_file = (getattr(account, name, None) for name in names)
    return replace(
        first,
        bind_dn=bind_dn or first.bind_dn,
        password_file=password_file or first.password_file,
        mechanism=mechanism or (None if bind_dn else first.mechanism),
        authcid=None if bind_dn else first.authcid,
    )


def consumer_of(provider: Connection, consumer: Consumer) -> Connection | None:
    if consumer.consumer_uri is None:
        return None
    return replace(second_of(provider, consumer), uri=consumer.consumer_uri)
