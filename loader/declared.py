"""Options that are stated once: as the fields of the dataclass that an operation takes.

A field is an option of the command line if its type is `Annotated`. Beside the type stand, in any order:

    "-j --jobs N"        a text that begins with a dash: its names (else that of the field), and what stands for the
                         value in --help
    "Number of ..."      any other text: what --help says
    IntRange(1)          how click reads the value, if the type alone does not say it
    {"show_default": 0}  more arguments of click.Option
    Argument("DIR")      an argument in the place of an option

The later one of two wins, so that a verb can reword an option that several verbs share. The default of the field is
that of the option, and shown by --help unless "show_default" is False.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from inspect import Parameter, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import click

from loader import units
from loader.errors import LoaderError, UsageProblem

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Argument:
    metavar: str | None = None


def command(name: str) -> Callable[[Callable[..., int | None]], click.Command]:
    """The command of a function, each of whose parameters is an `Annotated` option or a dataclass of such.

    A dataclass that has a method `begin` gets it called before the function.
    """

    def declare(function: Callable[..., int | None]) -> click.Command:
        hints = get_type_hints(function, include_extras=True)
        hints.pop("return", None)
        defaults = {one.name: one.default for one in signature(function).parameters.values()}
        groups = {one: hint for one, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}

        names = {one: [field.name for field, _ in _declared(groups[one])] for one in groups}

        def run(**values: object) -> int | None:
            given = {
                one: _built(groups[one], names[one], values) if one in groups else _or(values[one], defaults[one])
                for one in hints
            }
            for one in groups:
                getattr(given[one], "begin", lambda: None)()
            return function(**given)

        parameters = [
            parameter
            for one, hint in hints.items()
            for parameter in (_of_group(hint) if one in groups else [_parameter(one, hint, defaults[one])])
        ]
        return click.Command(name, callback=run, params=_visible_first(parameters), help=function.__doc__)

    return declare


def decorator(name: str, hint: object, default: object = None) -> Callable[[Function], Function]:
    """One option for a function that click.command makes a command of."""

    def apply(function: Function) -> Function:
        parameter = _parameter(name, hint, default)
        click.decorators._param_memo(function, parameter)
        return function

    return apply


def _or(value: object, default: object) -> object:
    return default if value is None and default is not Parameter.empty else value


def _visible_first(parameters: list[click.Parameter]) -> list[click.Parameter]:
    """Without hidden options whose letter the verb uses for something else."""
    hidden = [one for one in parameters if getattr(one, "hidden", False)]
    taken = {word for one in parameters if one not in hidden for word in one.opts}
    return [one for one in parameters if one not in hidden or not taken.intersection(one.opts)]


def _declared(group: type[Any]) -> list[tuple[Field[Any], object]]:
    """The fields that are options, with their types: those of the class itself, then those of its bases."""
    hints = get_type_hints(group, include_extras=True)
    names = dict.fromkeys(name for kind in group.__mro__ for name in vars(kind).get("__annotations__", ()))
    of_name = {one.name: one for one in fields(group)}
    return [(of_name[name], hints[name]) for name in names if name in of_name and get_origin(hints[name]) is Annotated]


def _of_group(group: type[Any]) -> list[click.Parameter]:
    return [_parameter(one.name, hint, one.default) for one, hint in _declared(group)]


def _built(group: type[Any], names: Iterable[str], values: Mapping[str, object]) -> object:
    """What was not given has the default of its field."""
    given = {name: values.get(name) for name in names}
    return group(**{name: value for name, value in given.items() if value is not None})


def _parameter(name: str, hint: object, default: object) -> click.Parameter:
    declared, *beside = get_args(hint)
    kind, is_several = _plain(declared)
    is_optional = is_several or kind is bool or NoneType in get_args(declared)
    names, more = _stated(beside)
    more = {"type": _type_of(kind), "required": default in (MISSING, Parameter.empty) and not is_optional, **more}
    if any(isinstance(one, Argument) for one in beside):
        return click.Argument([name], nargs=-1 if is_several else 1, **more)
    if kind is bool or more.get("count"):
        del more["type"]
    if kind is bool:
        more |= {"is_flag": True, "callback": _negated if default is True else None}
    elif is_several:
        more["multiple"] = True
    elif isinstance(default, int | float | str) and more.get("show_default", True):
        more = {"default": default, "show_default": True, **more}
    return click.Option([name, *(names or [f"--{name.replace('_', '-')}"])], **more)


def _stated(beside: Iterable[object]) -> tuple[list[str], dict[str, Any]]:
    """Names, and arguments of click.Option, that stand beside the type of a field."""
    names: list[str] = []
    more: dict[str, Any] = {}
    for one in beside:
        if isinstance(one, dict):
            more |= one
        elif isinstance(one, Argument):
            more["metavar"] = one.metavar
        elif not isinstance(one, str):
            more["type"] = one
        elif one.startswith("-"):
            words = one.split()
            names += [word for word in words if word.startswith("-")]
            more |= {"metavar": words[-1]} if not words[-1].startswith("-") else {}
        else:
            more["help"] = one
    return names, more


def _plain(kind: object) -> tuple[object, bool]:
    """`int | None` -> int; `tuple[Path, ...]` -> Path, of which there may be several."""
    if get_origin(kind) is UnionType:
        return get_args(kind)[0], False
    if get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
        return get_args(kind)[0], True
    return kind, False


def _type_of(kind: object) -> click.ParamType[Any] | None:
    if kind is Path:
        return click.Path(path_type=Path, readable=False)
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    return click.types.convert_type(kind) if kind in (int, float, str) else None


def _negated(context: click.Context, option: click.Parameter, value: bool) -> bool:
    """Of a flag --no-SOMETHING whose field is True by default."""
    return not value


class Written(click.ParamType[Any]):
    """What a subclass reads as an operator writes it; `kind` is what it reads it as."""

    kind: type

    def parse(self, text: str) -> Any:
        """Raises LoaderError."""
        raise NotImplementedError

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, self.kind):
            return value
        try:
            return self.parse(value)
        except LoaderError as error:
            self.fail(str(error), param, ctx)


class Size(Written):
    """Bytes, written 250G or 64M; `auto` where the verb can work it out."""

    name, kind = "size", int

    def __init__(self, auto: bool = False) -> None:
        self._auto = auto

    def parse(self, text: str) -> int | str:
        return text if self._auto and text == "auto" else units.parse_size(text)


class Share(Written):
    """A part of one, written 5% or 0.05; up to `most`."""

    name, kind = "share", float

    def __init__(self, most: float = 1.0, zero: bool = False) -> None:
        self._most, self._zero = most, zero

    def parse(self, text: str) -> float:
        try:
            found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            found = math.nan
        if not 0 <= found <= self._most or (found == 0 and not self._zero):
            raise UsageProblem(reason=f"{text} is no share: write 5% or 0.05, up to {self._most:.0%}")
        return found


class Milliseconds(click.ParamType[float]):
    """A time above 0; in seconds from here on."""

    name = "ms"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return click.FloatRange(0, min_open=True).convert(value, param, ctx) / 1000


class Duration(Written):
    """Seconds, written 90, 30s, 15m or 4h."""

    name, kind = "duration", float

    def parse(self, text: str) -> float:
        return units.parse_duration(text)
