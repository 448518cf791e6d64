"""Options that several verbs share, with ldapsearch's letters where ldapsearch has them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from loader import log, units
from loader.cli.vocabulary import Level, Option
from loader.defaults import ENGINES, LEVELS
from loader.errors import NO_SECRETS, LoaderError, UsageProblem
from loader.progress import Progress
from loader.server.options import Connection, Sasl
from loader.sources.dit import Recipe
from loader.sources.synthetic import Synthetic, find

Function = TypeVar("Function", bound=Callable[..., Any])


def negated(context: click.Context, option: click.Parameter, value: bool) -> bool:
    """Of a flag --no-SOMETHING whose parameter is SOMETHING."""
    return not value


class Size(click.ParamType[int | str]):
    """Bytes, written 250G or 64M; `auto` where the verb can work it out."""

    name = "size"

    def __init__(self, auto: bool = False) -> None:
        self._auto = auto

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, int) or (self._auto and value == "auto"):
            return value
        try:
            return units.parse_size(value)
        except LoaderError as error:
            self.fail(str(error), param, ctx)


def stack(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Several options as one."""

    def apply(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return apply


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
_bind_options = stack(
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
    click.option("-Z", "--start-tls", count=True, help="Try StartTLS; with -ZZ it must succeed."),
    click.option(
        "-b",
        "--base",
        metavar="BASE",
        help="Base DN (default: ldap.conf, else the only suffix).",
    ),
)
bind_options = stack(_bind_options, _refused_password)
connection_options = stack(
    click.option(
        "-H",
        "--uri",
        metavar="URI",
        help="The server: ldap://, ldaps:// or ldapi:// (ldap.conf is honoured).",
    ),
    bind_options,
)
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
# For a verb whose own -w is that of slapadd.
providers_options_beside_w = _providers_options
_CONFIG: dict[str, Any] = {
    "type": click.Path(path_type=Path, readable=False),
    "help": "The server's slapd.d directory or slapd.conf.",
}
config_option = click.option("--config", "config_path", required=True, **_CONFIG)
optional_config_option = click.option("--config", "config_path", **_CONFIG)
suffix_option = click.option(
    "-b", "--suffix", metavar="SUFFIX", help="Suffix of the database (default: the only one)."
)
target_option = click.option(
    "--target",
    type=click.Path(path_type=Path, readable=False),
    metavar="DIR",
    help="Write into DIR instead of the configured directory; the configuration is not changed.",
)
placing_options = stack(
    click.option(
        "--replace", is_flag=True, help="Replace an existing database once the new one is checked."
    ),
    click.option(
        "--maxsize",
        type=Size(auto=True),
        help="Set maxsize, in the configuration too; `auto` computes it.",
    ),
)


def verify_option(
    levels: Sequence[str], default: str | None, said: str, **more: Any
) -> Callable[[Function], Function]:
    """--verify with some of the levels of loader.defaults.LADDER."""
    return click.option(
        "--verify",
        type=Level(levels),
        default=default,
        show_default=default is not None,
        help=said,
        **more,
    )


def verify_new_option(*more: str) -> Callable[[Function], Function]:
    """Of what a build makes; `more`: levels above those of a copy."""
    return verify_option(
        [*LEVELS, *more], "quick", "How thoroughly to check the new database, as `ditseed verify`."
    )


verify_copy_option = verify_option(
    LEVELS,
    None,
    "How thoroughly to check the copy before it is put into place, as `ditseed verify` (default: pages up to 16 GiB, "
    "else quick).",
)


def jobs_option(said: str, default: int | None = None) -> Callable[[Function], Function]:
    """-j, of whatever works in parallel."""
    return click.option(
        "-j",
        "--jobs",
        type=click.IntRange(1),
        default=default,
        show_default=default is not None,
        help=said,
    )


def limit_option(default: int, said: str, least: int = 0) -> Callable[[Function], Function]:
    """--limit: how much of what was found is named."""
    return click.option(
        "--limit", type=click.IntRange(least), default=default, show_default=True, help=said
    )


def max_rejects_option(what: str) -> Callable[[Function], Function]:
    """--max-rejects and --rejects; `what` stops or fails."""
    return stack(
        click.option(
            "--max-rejects",
            type=click.IntRange(0),
            default=0,
            show_default=True,
            help=f"Maximum number of rejected entries before {what}.",
        ),
        click.option(
            "--rejects",
            type=click.Path(path_type=Path, readable=False),
            metavar="FILE",
            help="File for rejected entries, as LDIF (default: in the run directory).",
        ),
    )


def max_rate_option(least: int, said: str) -> Callable[[Function], Function]:
    """--max-rate; 0 without it."""
    return click.option(
        "--max-rate",
        type=click.IntRange(least),
        callback=lambda context, option, value: value or 0,
        metavar="N",
        help=f"At most N entries per second, over all connections{said}.",
    )


def scratch_option(said: str) -> Callable[[Function], Function]:
    return click.option(
        "--tmp",
        "scratch",
        type=click.Path(path_type=Path, readable=False),
        metavar="DIR",
        help=said,
    )


def run_dir_option(where: str = "in the database directory") -> Callable[[Function], Function]:
    return click.option(
        "--run-dir",
        type=click.Path(path_type=Path, readable=False),
        metavar="DIR",
        help=f"Directory for the state of the run (default: {where}).",
    )


_AS_FIRST = "-Y, unless --consumer-bind-dn is given"


def second_options(at: str) -> Callable[[Function], Function]:
    """How to bind at the second server, `at`."""

    def one(name: str, metavar: str, what: str, otherwise: str, former: str) -> Any:
        said = f"{what} at {at} (default: {otherwise})."
        names = tuple(f"--{word}" for word in former.split())
        return click.option(
            f"--consumer-{name}", metavar=metavar, help=said, cls=Option, former=names
        )

    return stack(
        one("bind-dn", "DN", "Bind DN", "-D", "consumer-dn bind-dn-b"),
        one("password-file", "FILE", "Password file", "-y", "password-file-b"),
        one("mechanism", "MECH", "SASL mechanism", _AS_FIRST, "mechanism-b"),
    )


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


engine_option = click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default=ENGINES[0],
    show_default=True,
    help="Program that writes the database: native is ditseed itself.",
)
threads_option = jobs_option("Number of threads (default: one per processor).")
memory_option = click.option(
    "--memory",
    type=Size(),
    help="Memory for sorting (default: a quarter of the available memory).",
)
native_options = stack(
    memory_option,
    scratch_option("Directory for temporary files (default: beside the database)."),
    threads_option,
    max_rejects_option("the build fails"),
    click.option(
        "--no-value-check",
        "check_values",
        is_flag=True,
        callback=negated,
        help="Accept values that violate their syntax, as slapadd does by default.",
    ),
    click.option(
        "--allow-file-urls",
        "file_urls",
        is_flag=True,
        help="Allow `attribute:< file:///path` and `include: file:///path` to read files of this host.",
    ),
)
_TREE = (
    click.option(
        "-n",
        "--entries",
        type=click.IntRange(min=1),
        metavar="N",
        help="Number of entries of the kind whose count the template leaves open.",
    ),
    click.option(
        "--seed",
        type=int,
        default=1,
        show_default=True,
        help="Random seed; a different seed makes different entries.",
    ),
    click.option(
        "--define",
        "defines",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set a `define` of a makeldif template; may be repeated.",
    ),
    click.option(
        "--operational",
        is_flag=True,
        help="Add operational attributes (entryUUID, entryCSN, names, times), so that builds are reproducible.",
    ),
)
# What a tree follows from, wherever one is made; a verb may have a suffix of its own.
tree_options = stack(*_TREE)
tree_suffix_option = click.option(
    "--suffix",
    "tree_suffix",
    metavar="DN",
    help="Suffix of the tree (default: that of the template).",
)
from_option = click.option(
    "--from",
    "template",
    metavar="TEMPLATE",
    help="Use a template of `ditseed generate`, by name or path, instead of LDIF.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
progress_option = click.option(
    "--progress",
    "progress_mode",
    type=click.Choice(["auto", "terminal", "plain", "json", "none"]),
    default="auto",
    help="How to show progress on stderr.",
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Run all checks and show the plan; change nothing."
)
consumer_suffix_option = click.option(
    "--suffix",
    metavar="SUFFIX",
    help="Suffix of the consumer's database (default: -b, else its only database).",
)
restart_option = click.option(
    "--restart", is_flag=True, help="Discard an earlier run, finished or not, and start over."
)
timeout_option = click.option(
    "--timeout",
    "timeouts",
    multiple=True,
    metavar="[STEP=]SECONDS",
    help="Time after which a step without progress fails (default: derived from its measured rate).",
)


def connection_of(options: dict[str, Any]) -> Connection:
    """Take the connection options out of a command's arguments. An account comes from one place, with its password."""
    keep_strongest(options, ("bind_dn", "mechanism", "simple"), (*_OF_SASL, "password_file", "ask"))
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


_OF_SECOND = ("consumer_bind_dn", "consumer_mechanism")


def second_of(first: Connection, options: dict[str, Any]) -> Connection:
    """Take the second server's options out of a command's arguments; what they leave open is as for the first."""
    keep_strongest(options, _OF_SECOND, ("consumer_password_file",))
    bind_dn, password_file, mechanism = (
        options.pop(f"consumer_{name}") for name in ("bind_dn", "password_file", "mechanism")
    )
    return replace(
        first,
        bind_dn=bind_dn or first.bind_dn,
        password_file=password_file or first.password_file,
        mechanism=mechanism or (None if bind_dn else first.mechanism),
        sasl=replace(first.sasl, authcid=None) if bind_dn else first.sasl,
    )


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
    for name in (*_OF_CONNECTION, *_OF_SASL, "ask", "simple"):
        options.pop(name, None)
    if len(set(uris)) < len(uris):
        raise UsageProblem(reason="-H names the same server twice")
    return first, tuple(replace(first, uri=uri) for uri in uris[1:])


_OF_CONNECTION = ("uri", "bind_dn", "password_file", "mechanism", "start_tls", "base")
_OF_SASL = ("authcid", "authzid", "realm", "properties", "as_written")


def _require_mechanism(mechanism: str | None) -> None:
    """Without -Y the bind is simple, and what is said for SASL would be passed over in silence."""
    if mechanism is None:
        refuse_given(_OF_SASL, "SASL: give -Y MECH too")


_OF_TREE = ("entries", "seed", "defines", "operational")


def tree_of(
    options: dict[str, Any], inputs: Sequence[Path], suffix: str | None
) -> Synthetic | None:
    """Take the options of a tree out of a command's arguments; None where LDIF is given."""
    name = options.pop("template")
    if name is None:
        if not inputs:
            raise UsageProblem(reason="nothing to load: give LDIF files, or --from TEMPLATE -n N")
        no_tree(options)
        return None
    if inputs:
        reason = f"give either --from {name} or LDIF files ({inputs[0]}), not both"
        raise UsageProblem(reason=reason)
    return Synthetic(recipe_of(name, options, suffix))


def recipe_of(name: str, options: dict[str, Any], suffix: str | None) -> Recipe:
    """What the options of a tree say, taken out of a command's arguments. Raises NoSuchTemplate, UsageProblem."""
    path, lists = find(name)
    given = {one: options.pop(one) for one in _OF_TREE}
    defines = dict(map(_define, given.pop("defines")))
    return Recipe(path=path, lists=lists, suffix=suffix, defines=defines, **given)


def _define(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageProblem(reason=f"--define {text}: write NAME=VALUE")
    return name, value


def no_tree(options: dict[str, Any]) -> None:
    """Take them out where there is no template. Raises UsageProblem for any that is given."""
    refuse_given([*_OF_TREE, "tree_suffix"], "--from TEMPLATE")
    for name in _OF_TREE:
        del options[name]


def refuse_given(names: Iterable[str], only: str) -> None:
    """Raise UsageProblem for any of these that stands on the command line: they are for `only`."""
    spelled = {one.name: one.opts[0] for one in click.get_current_context().command.params}
    for name in names:
        if is_given(name):
            raise UsageProblem(reason=f"{spelled[name]} is only for {only}")


def is_given(name: str) -> bool:
    """Does that parameter of the running command stand on its command line? (A profile serves many verbs.)"""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def keep_strongest(
    given: dict[str, Any], deciding: Sequence[str], following: Sequence[str] = ()
) -> None:
    """Of options that exclude each other, keep those from one place: command line before variables before the profile.
    Those in `following` go with them."""
    context = click.get_current_context()
    names = [name for name in (*deciding, *following) if given.get(name)]
    places = {name: context.get_parameter_source(name) or ParameterSource.DEFAULT for name in names}
    first = min((places[name] for name in deciding if name in places), default=None)
    for name, place in places.items():
        if first is not None and place > first:
            given[name] = () if isinstance(given[name], tuple) else None


def progress_of(mode: str) -> Progress:
    return Progress("none" if mode == "auto" and log.verbosity() < 0 else mode)


def timeouts_of(texts: tuple[str, ...], steps: tuple[str, ...]) -> dict[str, float]:
    """("read=600", "90") -> {"read": 600.0, "*": 90.0}; `steps` are those there are."""
    found: dict[str, float] = {}
    for text in texts:
        step, equals, value = text.rpartition("=")
        if equals and step not in steps:
            raise UsageProblem(reason=f"--timeout {text}: the steps are {', '.join(steps)}")
        seconds = units.parse_duration(value)
        if seconds <= 0:
            raise UsageProblem(reason=f"--timeout {text}: must be more than 0 seconds")
        found[step if equals else "*"] = seconds
    return found
