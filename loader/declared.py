"""Makes command-line options from the fields of a dataclass, so that each option is declared only once.

A field is an option of the command line if its type is `Annotated`. These items may follow the type:

    "-j --jobs N"        names of the option (default: the field's name), and perhaps its metavar; only the first text
    IntRange(1)          click type of the value (default: from the type of the field)
    {"show_default": 0}  more arguments of click.Option
    "Number of ..."      help text: any other text
    Argument("DIR")      makes an argument instead of an option

A later item overrides an earlier item of the same kind, so that a verb can reword a shared option. The default of the
field is the default of the option; --help shows the default unless "show_default" is False. The end of this module has
the options that several verbs share.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from inspect import Parameter, get_annotations, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

import click
from click import Choice, IntRange
from msgspec import Struct

from loader import units
from loader.defaults import COMPRESS, ENGINES, LEVELS, PROBLEMS
from loader.errors import LoaderError, UsageProblem
from loader.storage import files


class Argument(Struct, frozen=True):
    metavar: str | None = None


_NAMES = re.compile(r"--?[\w-]+( --?[\w-]+)*( [^-\s]\S*)?")


def declare(name: str, group: click.Group | None = None) -> Callable[[Callable[..., int | None]], click.Command]:
    """Makes a click command from a function, and adds it to `group`. Each parameter of the function is an `Annotated`
    option or a dataclass of such options. If a dataclass has a method `begin`, it is called before the function."""

    def decorate(function: Callable[..., int | None]) -> click.Command:
        hints = _hints(function)
        defaults = {key: parameter.default for key, parameter in signature(function).parameters.items()}
        groups = {key: _option_fields(hints[key]) for key in defaults if is_dataclass(hints[key])}

        def run(**values: object) -> int | None:
            # Parameters and fields without a value get their defaults.
            present = {key: value for key, value in values.items() if value is not None}
            arguments = {
                key: present.get(key)
                for key, default in defaults.items()
                if key in present or default is Parameter.empty
            }
            for key, declared in groups.items():
                names = [field.name for field, _ in declared if field.name in present]
                arguments[key] = group = hints[key](**{name: present[name] for name in names})
                getattr(group, "begin", lambda: None)()
            return function(**arguments)

        parameters: list[click.Parameter] = []
        for key, default in defaults.items():
            if key in groups:
                parameters += [_parameter(field.name, hint, field.default) for field, hint in groups[key]]
            else:
                parameters.append(_parameter(key, hints[key], default))
        # Drops a hidden option if a visible option of the verb has the same name.
        hidden = [option for option in parameters if getattr(option, "hidden", False)]
        visible = {word for option in parameters if option not in hidden for word in option.opts}
        parameters = [option for option in parameters if option not in hidden or visible.isdisjoint(option.opts)]
        built = click.Command(name, callback=run, params=parameters, help=function.__doc__)
        if group is not None:
            group.add_command(built)
        return built

    return decorate


def _hints(declaring: type[Any] | Callable[..., object]) -> dict[str, Any]:
    """Maps the names of fields or parameters to their types. Omits those whose types only type checkers import."""
    hints: dict[str, Any] = {}
    for owner in reversed(declaring.__mro__) if isinstance(declaring, type) else [declaring]:
        for name, kind in get_annotations(owner).items():
            with suppress(NameError):
                hints[name] = eval(kind, vars(sys.modules[owner.__module__])) if isinstance(kind, str) else kind
    return hints


def _option_fields(group: type[Any]) -> list[tuple[Field[Any], object]]:
    """Returns the fields that are options, with their types: first the fields of the class, then those of its bases."""
    hints = _hints(group)
    names = dict.fromkeys(name for kind in group.__mro__ for name in vars(kind).get("__annotations__", ()))
    by_name = {field.name: field for field in fields(group)}
    return [
        (by_name[name], hints[name]) for name in names if name in by_name and get_origin(hints.get(name)) is Annotated
    ]


def _parameter(name: str, hint: object, default: object) -> click.Parameter:
    declared, *metadata = get_args(hint)
    kind, is_several = _plain(declared)
    is_optional = is_several or kind is bool or NoneType in get_args(declared)
    names, more = _option_arguments(metadata)
    click_type: click.ParamType[Any] | None = click.types.convert_type(kind) if kind in (int, float, str) else None
    if kind is Path:
        click_type = click.Path(path_type=Path, readable=False)
    elif get_origin(kind) is Literal:
        click_type = click.Choice(get_args(kind))
    more = {"type": click_type, "required": default in (MISSING, Parameter.empty) and not is_optional, **more}
    if any(isinstance(item, Argument) for item in metadata):
        return click.Argument([name], nargs=-1 if is_several else 1, **more)
    if kind is bool or more.get("count"):
        del more["type"]
    if kind is bool:
        # If a field is True by default, its flag --no-SOMETHING sets it to False.
        more |= {"is_flag": True, "callback": (lambda *words: not words[-1]) if default is True else None}
    elif is_several:
        more["multiple"] = True
    elif isinstance(default, int | float | str) and more.get("show_default", True):
        more = {"default": default, "show_default": True, **more}
    return click.Option([name, *(names or [f"--{name.replace('_', '-')}"])], **more)


def _option_arguments(metadata: list[object]) -> tuple[list[str], dict[str, Any]]:
    """Returns the option names, and the arguments of click.Option, in the `Annotated` type of a field."""
    first = next((item for item in metadata if isinstance(item, str)), "")
    words = first.split() if _NAMES.fullmatch(first) else []
    more: dict[str, Any] = {"metavar": words[-1]} if words and not words[-1].startswith("-") else {}
    for item in metadata:
        if words and item is first:
            continue
        if isinstance(item, dict):
            more |= item
        elif isinstance(item, Argument):
            more["metavar"] = item.metavar
        else:
            more["help" if isinstance(item, str) else "type"] = item
    return [word for word in words if word.startswith("-")], more


def _plain(kind: object) -> tuple[object, bool]:
    """Returns (int, False) for `int | None`, and (Path, True) for `tuple[Path, ...]`, a repeatable option."""
    if get_origin(kind) is UnionType:
        return get_args(kind)[0], False
    if get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
        return get_args(kind)[0], True
    return kind, False


class ParsedType(click.ParamType[Any]):
    """Base class of option types. `kind`: type of the values. `parse` returns the value of a text, or raises
    LoaderError if the text is invalid."""

    kind: type
    parse: Callable[[str], object]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, self.kind):
            return value
        try:
            return self.parse(value)
        except LoaderError as error:
            self.fail(str(error), param, ctx)


class Size(ParsedType):
    """Bytes, written 250G or 64M. `auto`: accepts the word "auto", too."""

    name, kind = "size", int

    def __init__(self, auto: bool = False) -> None:
        self._auto = auto

    def parse(self, text: str) -> int | str:
        return text if self._auto and text == "auto" else units.parse_size(text)


class Share(ParsedType):
    """A share up to `most`, written 5% or 0.05. `zero`: accepts 0, too."""

    name, kind = "share", float

    def __init__(self, most: float = 1.0, zero: bool = False) -> None:
        self._most, self._zero = most, zero

    def parse(self, text: str) -> float:
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = math.nan
        if not 0 <= share <= self._most or (share == 0 and not self._zero):
            raise UsageProblem(reason=f"{text} is not a share: write 5% or 0.05, up to {self._most:.0%}")
        return share


class Milliseconds(click.ParamType[float]):
    """Seconds above 0, written in milliseconds."""

    name = "ms"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return click.FloatRange(0, min_open=True).convert(value, param, ctx) / 1000


class Duration(ParsedType):
    """Seconds, written 90, 30s, 15m or 4h."""

    name, kind, parse = "duration", float, staticmethod(units.parse_duration)


def _require_safe(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Raises DirectoryUnsafe if another account could replace files in the directory; accepts a missing directory."""
    with suppress(OSError):
        if path is not None and path.is_dir():
            files.require_safe(path)
    return path


Config = Annotated[Path, "--config", "The server's slapd.d directory or slapd.conf."]
OptionalConfig = Annotated[Path | None, "--config", "The server's slapd.d directory or slapd.conf."]
Suffix = Annotated[str | None, "-b --suffix SUFFIX", "Suffix of the database (default: the only one)."]
ConsumerSuffix = Annotated[
    str | None, "--suffix SUFFIX", "Suffix of the consumer's database (default: -b, else its only database)."
]
Target = Annotated[
    Path | None, "--target DIR", "Write into DIR instead of the configured directory; the configuration is not changed."
]
SpaceCheck = Annotated[bool, "--no-space-check", "Continue even if the file system seems too full for the database."]
Engine = Annotated[str, Choice(ENGINES), "Program that writes the database: native is ditseed itself."]
VerifyNew = Annotated[str, Choice(LEVELS), "How thoroughly to check the new database, as `ditseed verify`."]
VerifyCopy = Annotated[
    str | None,
    Choice(LEVELS),
    "How thoroughly to check the copy before it is put into place, as `ditseed verify` (default: pages up to 16 GiB, "
    "else quick).",
]
Jobs = Annotated[int | None, "-j --jobs", IntRange(1), "Number of threads (default: one per processor)."]
Memory = Annotated[int | None, Size(), "Memory for sorting (default: a quarter of the available memory)."]
Scratch = Annotated[
    Path | None, "--tmp DIR", {"callback": _require_safe}, "Temporary directory (default: beside the database)."
]
TemporaryDirectory = Annotated[Scratch, "Temporary directory (default: $TMPDIR or /tmp)."]
Limit = Annotated[int, IntRange(0)]  # maximum number of differences or problems to report
MaxRejects = Annotated[int, IntRange(0), "Maximum number of rejected entries before the build fails."]
MaxRate = Annotated[int, "--max-rate N", IntRange(0), {"show_default": False}]
Pieces = Annotated[
    int,
    IntRange(0),
    {"show_default": False},
    "Number of searches into which the tree is divided; 0: as many as jobs. If a connection breaks, only its current "
    "search is repeated.",
]
Page = Annotated[int, IntRange(0), {"show_default": False}, "Entries per page; 0: only if a limit requires paging."]
RunDir = Annotated[Path | None, "--run-dir DIR", "Directory for the run's state (default: in the database directory)."]
Compress = Annotated[
    str | None, Choice(("zstd", "none")), "How to compress shards (default: zstd for a directory, none for stdout)."
]
AllowHidden = Annotated[bool, "Continue even if the account cannot read all values, or not in their stored form."]
WriteContextCsn = Annotated[bool, "-w --write-context-csn"]
Metrics = Annotated[Path | None, "--metrics FILE"]


def compression(compress: str | None, streamed: bool) -> str:
    """Returns "zstd" or "none": the value of --compress, or its default for stdout or for a directory."""
    return compress or ("none" if streamed else COMPRESS)


@dataclass(frozen=True, kw_only=True)
class Placing:
    """How a new database is put into place. `maxsize`: bytes, "auto", or None for the configured maxsize."""

    replace: Annotated[bool, "Replace an existing database once the new one is checked."] = False
    maxsize: Annotated[
        int | str | None,
        Size(auto=True),
        "Set maxsize, in a slapd.d too; for a slapd.conf the line to change is printed. `auto` computes it.",
    ] = None


@dataclass(frozen=True, kw_only=True)
class Sorting:
    """Resources of the core. Defaults: a quarter of the memory, the run directory, one thread per processor."""

    memory: Memory = None  # bytes
    scratch: Scratch = None
    jobs: Jobs = None


@dataclass(frozen=True, kw_only=True)
class Rejecting:
    """Options for rejected entries. `rejects`: the LDIF file for them; None: a file in the run directory."""

    max_rejects: MaxRejects = 0
    rejects: Annotated[Path | None, "--rejects FILE", "LDIF of the rejects (default: in the run directory)."] = None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a server is read. `jobs`: connections per provider; None: one per processor, at most 4."""

    jobs: Jobs = None
    pieces: Pieces = 0
    page: Page = 0


@dataclass(frozen=True, kw_only=True)
class ExportLimits(Reading):
    """How fast a server is read. `max_rate`: entries per second; 0: no limit."""

    jobs: Annotated[
        Jobs,
        "Number of parallel connections to each server (default: one per processor, at most 4), or of workers for DIR "
        "(default: one per processor).",
    ] = None
    max_rate: Annotated[MaxRate, "At most N entries per second, over all connections; 0: no limit."] = 0


@dataclass(frozen=True, kw_only=True)
class AuditResources(Sorting):
    """Resources of an audit."""

    limit: Annotated[Limit, IntRange(1), "Number of problems of each kind to show; all are counted."] = PROBLEMS
    scratch: TemporaryDirectory = None
