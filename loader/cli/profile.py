"""Options that are not on the command line: from the variable DITSEED_<OPTION>, else from a profile, else the default.

A profile is a table of config.toml: names of options without dashes, and tables for single verbs. docs/profiles.md has
it for operators.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from loader import defaults
from loader.cli.vocabulary import OPTIONS, TYPED, name_of
from loader.errors import UsageProblem
from loader.storage import files, held

COMMON = "default"  # the table that applies whatever profile is chosen
_CHOSEN = "ditseed.profile"
_SECRETS = ("passw", "passphrase", "bindpw", "rootpw", "credential", "secret")
_ACCOUNT = (
    *("bind-dn", "mechanism", "simple", "password-file", "ask-password"),
    *("authcid", "authzid", "realm", "secprops", "nocanon"),
)
_OTHERS_WRITE = 0o022
_log = logging.getLogger(__name__)


def option(envvar: str | None = None) -> click.Option:
    """--profile. Only the one before the verb has a variable, so that the one behind the verb wins."""
    return click.Option(
        ["--profile"],
        metavar="NAME",
        is_eager=True,
        expose_value=False,
        envvar=envvar,
        callback=_apply,
        help=f"Profile of {defaults.CONFIG_FILE} to take options from, besides [{COMMON}].",
    )


def offer(command: click.Command) -> None:
    """Variables for the options of a verb, and the line of its help text that says so."""
    for one in command.params:
        name = name_of(one)
        if name is not None and name not in TYPED and name != "profile":
            one.envvar = variable(name)
    command.epilog = (
        "Options that are not given here are taken from variables (DITSEED_OPTION, such as DITSEED_JOBS for --jobs) "
        f"and from {defaults.CONFIG_FILE}: docs/profiles.md."
    )


def variable(name: str) -> str:
    return f"DITSEED_{name.upper().replace('-', '_')}"


def chosen(context: click.Context) -> str | None:
    name: str | None = context.meta.get(_CHOSEN)
    return name


def origin(context: click.Context, parameter: click.Parameter) -> str:
    """Where the value of an option comes from, for a message; nothing of one on the command line."""
    source = context.get_parameter_source(parameter.name or "")
    if source is click.core.ParameterSource.ENVIRONMENT:
        return f" (from the variable {parameter.envvar})"
    if source is click.core.ParameterSource.DEFAULT_MAP:
        return f" (from {defaults.config_file()})"
    return ""


def _apply(context: click.Context, option: click.Parameter, name: str | None) -> None:
    if context.resilient_parsing:
        return
    if name is not None:
        context.meta[_CHOSEN] = name
    if not isinstance(context.command, click.Group):
        _check_variables(context.command)
        context.default_map = settings(context, chosen(context))


def _check_variables(command: click.Command) -> None:
    known = {variable(name) for name in OPTIONS}
    others = {value for name, value in vars(defaults).items() if name.startswith("ENV_")}
    for other in {name for name in os.environ if name.startswith("DITSEED_")} - known - others:
        near = _near(other, known, 0.9)
        if near:
            _log.warning("the variable %s is not that of an option%s", other, near)
    for one in command.params:
        name = name_of(one)
        if name in TYPED and os.environ.get(variable(name)):
            raise UsageProblem(
                reason=f"the variable {variable(name)} is set, but --{name} is taken from the command line only"
            )


def settings(context: click.Context, name: str | None) -> dict[str, Any]:
    """What the profile says of the verb's options, by the names of its parameters. Raises UsageProblem, FileUnsafe."""
    path = defaults.config_file()
    document = _read(path)
    if name is not None and name not in document:
        raise UsageProblem(reason=f"{path} has no profile {name}{_near(name, document)}")
    _require_profiles(path, document)
    own = {name_of(one): one for one in context.command.params}
    verbs = context.command_path.split()[1:]
    found: dict[str, Any] = {}
    for table in dict.fromkeys((COMMON, name or COMMON)):
        entries = _entries(document.get(table, {}), f"{path}, [{table}]", verbs, context)
        nearer = {key: _fitted(own[key], value, where) for where, key, value in entries if key in own}
        found = _without_other_account(found, nearer) | nearer
    if found:
        _log.info("options from %s: %s", path, ", ".join(found))
    return {own[key].name or key: value for key, value in found.items()}


def _require_profiles(path: Path, document: Mapping[str, Any]) -> None:
    """A file of tables, none of which is a verb's."""
    from loader import cli  # which imports this module

    for key, value in document.items():
        if not isinstance(value, dict):
            raise UsageProblem(reason=f"{path}: {key} is in no profile; put it below [{COMMON}]")
        if key in cli.OWN:
            raise UsageProblem(reason=f"{path}: [{key}] is a verb; write [{COMMON}.{key}]")


def _without_other_account(found: dict[str, Any], nearer: Mapping[str, Any]) -> dict[str, Any]:
    """A profile with an account of its own takes no part of that of [default]."""
    gone = {
        f"{prefix}{key}"
        for prefix in ("", "consumer-")
        if {f"{prefix}bind-dn", f"{prefix}mechanism"} & nearer.keys()
        for key in _ACCOUNT
    }
    return {key: value for key, value in found.items() if key not in gone}


def _read(path: Path) -> Mapping[str, Any]:
    """Nothing where there is no such file, or none that may be looked for (sudo -u, with root's HOME)."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    with files.explained(path), files.reading(path) as file:
        _require_ours(path, os.fstat(file.fileno()))
        content = file.read()
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        document: Mapping[str, Any] = tomllib.loads(content.decode())
    except ValueError as error:
        raise UsageProblem(reason=f"{path} is not TOML: {error}") from error
    return document


def _require_ours(path: Path, status: os.stat_result) -> None:
    """As root. The file holds no secret, so others may read it; who may write to it could have root replace things."""
    if os.geteuid() != 0:
        return
    with held.opened(path.parent) as place:
        held.require_private(place.status, path.parent)
    if status.st_uid != 0 or status.st_mode & _OTHERS_WRITE:
        raise UsageProblem(
            reason=f"another account can write to {path}, so root does not read it: chown root, and chmod go-w"
        )


def _entries(
    table: Mapping[str, Any], place: str, verbs: list[str], context: click.Context, depth: int = 0
) -> Iterator[tuple[str, str, Any]]:
    """Place, key and value of each option: first those for all verbs, then those of the running verb's own tables."""
    own = context.command.params if depth and not verbs else []
    for key, value in table.items():
        if not isinstance(value, dict):
            _require_option(key, place, [name for one in own if (name := name_of(one))] or OPTIONS)
            yield f"{place}: {key}", key, value
    for key, value in table.items():
        if isinstance(value, dict):
            _require_verb(key, place, verbs, context, depth)
            if key == verbs[0]:
                inner = f"{place.removesuffix(']')}.{key}]"
                yield from _entries(value, inner, verbs[1:], context, depth + 1)


def _require_option(key: str, place: str, known: Iterable[str]) -> None:
    if key in TYPED or key == "profile":
        raise UsageProblem(reason=f"{place}: {key} is taken from the command line only")
    if key in known:
        return
    if key not in OPTIONS and any(word in key.lower() for word in _SECRETS):
        raise UsageProblem(
            reason=f"{place}: {key} looks like a password, which a profile never holds; put the password into a file "
            "and name that: password-file"
        )
    letter = [name for name in known if key in OPTIONS.get(name, ()) and key]
    near = f"; write {letter[0]}" if letter else _near(key, known)
    raise UsageProblem(reason=f"{place}: there is no option {key}{near}")


def _require_verb(key: str, place: str, verbs: list[str], context: click.Context, depth: int) -> None:
    from loader import cli

    group = context.parent.command if context.parent is not None else None
    below = group.list_commands(context) if isinstance(group, click.Group) and depth else []
    if not verbs or not (key in below or (not depth and cli.named(key))):
        near = _near(key, below or cli.OWN)
        raise UsageProblem(reason=f"{place}: there is no verb {key}{near}")


def _fitted(parameter: click.Parameter, value: Any, place: str) -> Any:
    """A value as the command line would have it: text, or a list of texts; of a flag true or false."""
    flag = isinstance(parameter, click.Option) and parameter.is_flag and not parameter.count
    if flag:
        return _of_kind(value, bool, place, "true or false")
    if parameter.multiple:
        listed = value if isinstance(value, list) else [value]
        return [str(_of_kind(one, (str, int, float), place, "text")) for one in listed]
    return str(_of_kind(value, (str, int, float), place, "text or a number"))


def _of_kind(value: Any, kinds: type | tuple[type, ...], place: str, what: str) -> Any:
    if not isinstance(value, kinds) or (kinds is not bool and isinstance(value, bool)):
        raise UsageProblem(reason=f"{place} takes {what}")
    return value


def _near(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    import difflib  # only when something is wrong

    found = difflib.get_close_matches(name, list(known), 1, cutoff)
    return f"; did you mean {found[0]}?" if found else ""
