"""How a server is reached and read: options with ldapsearch's letters, and the connection that follows from them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from loader.cli.options import Function, jobs_option, keep_strongest, refuse_given, stack
from loader.errors import NO_SECRETS, UsageProblem
from loader.server.options import Connection, Sasl


def _no_secret(context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise UsageProblem(reason=f"-w is not accepted. {NO_SECRETS}")


# ldapsearch's, which people type; hidden, since it is only there to say what to type instead.
_refused_password = click.option(
    "-w",
    metavar="PASSWORD",
    help="Not accepted; use -y or -W.",
    hidden=True,
    is_eager=True,
    expose_value=False,
    callback=_no_secret,
)
_tls_option = click.option(
    "-Z", "--start-tls", count=True, help="Try StartTLS; with -ZZ it must succeed."
)
_account_options = stack(
    click.option("-x", "--simple", is_flag=True, help="Simple bind; the default without -Y."),
    click.option("-D", "--bind-dn", metavar="DN", help="Bind as this DN."),
    click.option(
        "-y",
        "--password-file",
        metavar="FILE",
        help="Read the password from FILE; the whole content counts, including a newline at the end.",
    ),
    click.option("-W", "--ask-password", "ask", is_flag=True, help="Prompt for the password."),
    click.option(
        "-Y",
        "--mechanism",
        metavar="MECH",
        help="SASL mechanism: EXTERNAL with ldapi:///, GSSAPI, SCRAM-SHA-256 ...",
    ),
    click.option(
        "-U",
        "--authcid",
        metavar="NAME",
        help="SASL: authentication identity (default: -D).",
    ),
    click.option(
        "-X",
        "--authzid",
        metavar="ID",
        help="SASL: authorization identity, dn:DN or u:NAME.",
    ),
)
_bind_options = stack(
    _account_options,
    click.option("-R", "--realm", metavar="REALM", help="SASL: realm."),
    click.option(
        "-O",
        "--secprops",
        "properties",
        metavar="PROPS",
        help="SASL: security properties, such as minssf=56.",
    ),
    click.option(
        "-N",
        "--nocanon",
        "as_written",
        is_flag=True,
        help="SASL: use the host name as given with -H, without asking DNS.",
    ),
    _tls_option,
    click.option(
        "-b",
        "--base",
        metavar="BASE",
        help="Base DN (default: ldap.conf, else the only suffix).",
    ),
)
bind_options = stack(_bind_options, _refused_password)
_connection_options = stack(
    click.option(
        "-H",
        "--uri",
        metavar="URI",
        help="The server: ldap://, ldaps:// or ldapi:// (ldap.conf is honoured).",
    ),
    _bind_options,
)
connection_options = stack(_connection_options, _refused_password)
# For a verb whose own -b is a suffix, and whose own -R a repository.
account_options = stack(_account_options, _tls_option, _refused_password)
_providers_options = stack(
    click.option(
        "-H",
        "--uri",
        "uris",
        multiple=True,
        metavar="URI",
        help="The server: ldap://, ldaps:// or ldapi:// (ldap.conf is honoured). Repeat it to read several replicas of "
        "the same tree in parallel.",
    ),
    _bind_options,
)
providers_options = stack(_providers_options, _refused_password)
# For verbs whose own -w is that of slapadd, or that of every monitoring plugin.
providers_options_beside_w = _providers_options
connection_options_beside_w = _connection_options
_AS_FIRST = "-Y, unless --consumer-bind-dn is given"


def second_options(at: str) -> Callable[[Function], Function]:
    """How to bind at the second server, `at`."""

    def one(name: str, metavar: str, what: str, otherwise: str) -> Any:
        said = f"{what} at {at} (default: {otherwise})."
        return click.option(f"--consumer-{name}", metavar=metavar, help=said)

    return stack(
        one("bind-dn", "DN", "Bind DN", "-D"),
        one("password-file", "FILE", "Password file", "-y"),
        one("mechanism", "MECH", "SASL mechanism", _AS_FIRST),
    )


def consumer_options(required: bool) -> Callable[[Function], Function]:
    """The running replica: where it is, and how to bind there."""
    said = "URI of the replica: ldap://, ldaps:// or ldapi://."
    uri = click.option("--consumer", "consumer_uri", metavar="URI", required=required, help=said)
    return stack(uri, second_options("the replica"))


def reading_options(jobs: str, where: str = "") -> Callable[[Function], Function]:
    """How a server is read. jobs: what --jobs says; where: the strategies it is all for, `search, online: `."""

    def count(
        name: str, least: int, default: int | None, said: str
    ) -> Callable[[Function], Function]:
        told = f"{where}{said[0].lower()}{said[1:]}" if where else said
        return click.option(name, type=click.IntRange(least), default=default, help=told)

    return stack(
        jobs_option(f"{where}{jobs[0].lower()}{jobs[1:]}" if where else jobs),
        count(
            "--pieces",
            0,
            0,
            "Number of searches into which the tree is divided; 0: as many as jobs. If a connection breaks, one of "
            "them is repeated.",
        ),
        count("--page", 0, 0, "Entries per page; 0: no paging unless a limit requires it."),
    )


def connection_of(options: dict[str, Any]) -> Connection:
    """Take the connection options out of a command's arguments. An account comes from one place, with its password."""
    keep_strongest(options, ("mechanism", "simple"), _OF_SASL)
    keep_strongest(options, ("bind_dn", "mechanism"), (*_OF_SASL, "password_file", "ask"))
    keep_strongest(options, ("password_file", "ask"))
    taken = {name: options.pop(name, None) for name in _OF_CONNECTION}
    sasl = {name: options.pop(name, None) for name in _OF_SASL}
    _require_mechanism(taken["mechanism"])
    if options.pop("simple", False) and taken["mechanism"]:
        raise UsageProblem(reason="-x is a simple bind and -Y one by SASL: give one of them")
    password = None
    if options.pop("ask"):
        if not sys.stdin.isatty():
            raise UsageProblem(reason="-W prompts on a terminal, and there is none; use -y FILE")
        password = click.prompt("Password", hide_input=True, err=True)
    _require_password(taken, password)
    return Connection(**taken, password=password, sasl=Sasl(**sasl))


def second_of(first: Connection, options: dict[str, Any], name: str = "consumer") -> Connection:
    """Take the options of another account or server, --NAME-bind-dn and so on, out of a command's arguments; what they
    leave open is as for the first."""
    keep_strongest(options, (f"{name}_bind_dn", f"{name}_mechanism"), (f"{name}_password_file",))
    bind_dn, password_file, mechanism = (
        options.pop(f"{name}_{one}", None) for one in ("bind_dn", "password_file", "mechanism")
    )
    return replace(
        first,
        bind_dn=bind_dn or first.bind_dn,
        password_file=password_file or first.password_file,
        mechanism=mechanism or (None if bind_dn else first.mechanism),
        sasl=replace(first.sasl, authcid=None) if bind_dn else first.sasl,
    )


def consumer_of(provider: Connection, options: dict[str, Any]) -> Connection | None:
    """Take the consumer's options out of a command's arguments."""
    uri, bound = options.pop("consumer_uri"), second_of(provider, options)
    return None if uri is None else replace(bound, uri=uri)


def _require_password(taken: dict[str, Any], password: str | None) -> None:
    """A name without a password binds anonymously at some servers, and not at all at others (RFC 4513, 5.1.2)."""
    simple = taken["bind_dn"] and not taken["mechanism"]
    if simple and not password and not taken["password_file"]:
        raise UsageProblem(
            reason=f"-D {taken['bind_dn']} needs a password: -y FILE, or -W to be asked"
        )


def providers_of(options: dict[str, Any]) -> tuple[Connection, tuple[Connection, ...]]:
    """The first provider, and the others: reached in the same way."""
    uris = options.pop("uris")
    first = connection_of({**options, "uri": next(iter(uris), None)})
    for name in PARAMETERS:
        options.pop(name, None)
    if len(set(uris)) < len(uris):
        raise UsageProblem(reason="-H names the same server twice")
    return first, tuple(replace(first, uri=uri) for uri in uris[1:])


_OF_CONNECTION = ("uri", "bind_dn", "password_file", "mechanism", "start_tls", "base")
_OF_SASL = ("authcid", "authzid", "realm", "properties", "as_written")
PARAMETERS = (*_OF_CONNECTION, *_OF_SASL, "ask", "simple")  # of `connection_options`


def _require_mechanism(mechanism: str | None) -> None:
    """Without -Y the bind is simple, and what is said for SASL would be passed over in silence."""
    if mechanism is None:
        refuse_given(_OF_SASL, "SASL: give -Y MECH too")
