"""The options that several or all verbs share, the files of --report and --metrics, and the profiles."""

from __future__ import annotations

import fcntl
import logging
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import click
from click import Choice
from click.core import ParameterSource
from msgspec import Struct
from msgspec import field as struct_field

from loader import defaults, log, units
from loader.cli import ending
from loader.declared import Metrics
from loader.errors import NoSuchPath, UsageProblem
from loader.progress import Progress, Recorder
from loader.storage import files, held

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Options = TypeVar("Options", bound=DataclassInstance)

_RECORDING = "ditseed.recording"  # key of the _Recording in a click context's meta
Json = Annotated[bool, "--json", "Print the report as JSON."]
DryRun = Annotated[bool, "Run all checks and show the plan; change nothing."]
Restart = Annotated[bool, "Discard an earlier run, finished or not, and start over."]
ProgressMode = Annotated[
    str,
    "--progress",
    Choice(("auto", "terminal", "plain", "json", "none")),
    {"show_default": False},
    "How to show progress on stderr.",
]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Options of a verb's output."""

    as_json: Json = False
    progress_mode: ProgressMode = "auto"

    @property
    def progress(self) -> Progress:
        return progress_of(self.progress_mode)


@dataclass(frozen=True, kw_only=True)
class Run(Shown):
    """Options of a resumable run with named steps."""

    dry_run: DryRun = False
    timeouts: Annotated[
        tuple[str, ...],
        "--timeout [STEP=]SECONDS",
        "Time after which a step without progress fails (default: derived from its measured rate).",
    ] = ()
    restart: Restart = False

    def timeouts_of(self, steps: Sequence[str]) -> dict[str, float]:
        """Maps steps to timeouts in seconds: ("read=600", "90") yields {"read": 600.0, "*": 90.0}. Raises UsageProblem
        for a step that is not in `steps`, the steps of the verb, and for a time that is not positive."""
        seconds_of: dict[str, float] = {}
        for text in self.timeouts:
            step, equals, value = text.rpartition("=")
            if equals and step not in steps:
                raise UsageProblem(reason=f"--timeout {text}: the steps are {', '.join(steps)}")
            seconds = units.parse_duration(value)
            if seconds <= 0:
                raise UsageProblem(reason=f"--timeout {text}: must be more than 0 seconds")
            seconds_of[step if equals else "*"] = seconds
        return seconds_of


@dataclass(frozen=True, kw_only=True)
class RecordedRun(Run):
    """Options of a run that can write a report and metrics to files when it ends."""

    report_path: Annotated[
        Path | None,
        "--report FILE",
        "Write an HTML page into FILE when the run has ended: its steps, rates, sizes and rejects.",
    ] = None
    metrics_path: Annotated[
        Metrics, "Write the outcome of the run, even if it fails, into FILE for Prometheus' node_exporter."
    ] = None

    def begin(self) -> None:
        """Starts the recording. Raises NoSuchPath, NotPermitted, ReadOnly, UsageProblem, PackageMissing. The metrics
        are written at the end even if the path of --report is rejected here."""
        if self.dry_run:
            refuse_given(("report_path", "metrics_path"), "a run, not for --dry-run")
        elif self.report_path or self.metrics_path:
            context = click.get_current_context()
            recording = context.meta[_RECORDING] = _Recording(context.command_path.partition(" ")[2])
            ending.at_end.append(recording.write)
            if self.metrics_path is not None:
                recording.metrics = _require_file(self.metrics_path, "--metrics")
            if self.report_path is not None:
                from loader.operations import reports

                reports.require()
                path = _require_file(self.report_path, "--report")
                if path == recording.metrics:
                    raise UsageProblem(reason="--report and --metrics name the same file")
                recording.report = path


class _Recording(Struct):
    """Collects the contents of the files `metrics` and `report` during a run."""

    verb: str
    metrics: Path | None = None
    report: Path | None = None
    recorder: Recorder = struct_field(default_factory=Recorder)
    facts: Mapping[str, object] = {}

    def write(self, end: ending.Ending) -> None:
        """Writes the files, first the metrics, because the HTML page is more likely to fail."""
        from loader.operations import monitoring, reports  # imported here, because few runs are recorded

        seconds = self.recorder.seconds
        report = reports.RunReport(self.verb, self.recorder, seconds, end.status, end.error, self.facts)
        if self.metrics is not None:
            with files.explained(self.metrics):
                monitoring.write(reports.families(report), self.metrics)
        if self.report is not None:
            with files.explained(self.report):
                reports.write_page(report, shlex.join(["ditseed", *sys.argv[1:]]), self.report)


def _require_file(path: Path, option: str) -> Path:
    """Returns the absolute path. Raises a LoaderError if no file can be created or replaced there."""
    path = path.absolute()
    if not path.parent.is_dir():
        raise NoSuchPath(path=path.parent)
    if path.exists() and not path.is_file():
        raise UsageProblem(reason=f"{option} {path}: exists, but is not a regular file")
    files.require_writable(path.parent)
    return path


def note(facts: Mapping[str, object]) -> None:
    """Records the facts of the report for the files of --report and --metrics."""
    recording = click.get_current_context().meta.get(_RECORDING)
    if recording is not None:
        recording.facts = facts or recording.facts


def progress_of(mode: str) -> Progress:
    recording = click.get_current_context().meta.get(_RECORDING)
    recorder = recording.recorder if recording else None
    return Progress("none" if mode == "auto" and log.verbosity() < 0 else mode, recorder=recorder)


# --- which options were given -----------------------------------------------------------------------


def refuse_given(names: Iterable[str], only: str) -> None:
    """Raises UsageProblem if one of these parameters is on the command line. `only`: what the parameters are for."""
    spellings = {option.name: option.opts[0] for option in click.get_current_context().command.params}
    for name in names:
        if is_given(name):
            raise UsageProblem(reason=f"{spellings[name]} is only for {only}")


def is_given(name: str) -> bool:
    """Returns whether a parameter is on the command line; values from variables and profiles do not count."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def keep_strongest(options: Options, deciding: Sequence[str], following: Sequence[str] = ()) -> Options:
    """Finds the strongest source of a `deciding` option (command line, then variables, then the profile). Returns
    `options`, where `deciding` and `following` options from weaker sources have their defaults instead."""
    context = click.get_current_context()
    defaults = {option.name: option.default for option in fields(options)}
    names = [name for name in (*deciding, *following) if getattr(options, name, None)]
    sources = {name: context.get_parameter_source(name) or ParameterSource.DEFAULT for name in names}
    strongest = min((sources[name] for name in deciding if name in sources), default=ParameterSource.DEFAULT)
    return replace(options, **{name: defaults[name] for name, source in sources.items() if source > strongest})


# Options that choose the action or its target. Accepted only on the command line, where the operator sees them.
TYPED = {
    name
    for words in (
        "init from target output range skip strategy prepare-provider set add for stats-log filters",
        "costs give-back check fix layer probe as-of remove apply replace dry-run restart forget service",
        "rollback json report quiet verbose until release",
    )
    for name in words.split()
}

COMMON = "default"  # the table of config.toml that applies with every profile
_CHOSEN = "ditseed.profile"  # key of the chosen profile's name in a click context's meta
_SECRETS = ("passw", "passphrase", "bindpw", "rootpw", "credential", "secret")
_ACCOUNT = (
    *("bind-dn", "mechanism", "simple", "password-file", "ask-password"),
    *("authcid", "authzid", "realm", "secprops", "nocanon"),
)
_OTHERS_WRITE = 0o022
_log = logging.getLogger(__name__)


def name_of(option: click.Parameter) -> str | None:
    """Returns an option's long name without dashes; None for an argument and for -w, which has only a letter."""
    return next((word[2:] for word in option.opts if word.startswith("--")), None)


@cache
def names_of_all_verbs() -> Mapping[str, str]:
    """Maps the option names of all verbs of ditseed itself to their letters or "". The import of these verbs takes
    40 ms. So this is called only if a variable or profile sets an option that the running verb does not have."""
    from loader import cli  # imported here, because loader.cli imports this module

    commands = (command for location in cli.OWN_VERBS.values() for command in _leaves(load(location)))
    letters: dict[str, str] = {}
    for option in (option for command in commands for option in command.params):
        if name := name_of(option):
            letters[name] = letters.get(name) or "".join(word[1:] for word in option.opts if len(word) == 2)
    return letters


def variable(name: str) -> str:
    return f"DITSEED_{name.upper().replace('-', '_')}"


def origin(context: click.Context, parameter: click.Parameter) -> str:
    """Returns the source of an option's value for a message; "" for the command line."""
    source = context.get_parameter_source(parameter.name or "")
    if source is ParameterSource.ENVIRONMENT:
        return f" (from the variable {parameter.envvar})"
    return f" (from {defaults.config_file()})" if source is ParameterSource.DEFAULT_MAP else ""


def _apply(context: click.Context, option: click.Parameter, name: str | None) -> None:
    if context.resilient_parsing:
        return
    if name is not None:
        context.meta[_CHOSEN] = name
    if not isinstance(context.command, click.Group):
        _check_variables(context.command)
        context.default_map = settings(context, context.meta.get(_CHOSEN))


def _check_variables(command: click.Command) -> None:
    own = {value for name, value in vars(defaults).items() if name.startswith("ENV_")}
    own |= {variable(name) for name in map(name_of, command.params) if name}
    if others := {name for name in os.environ if name.startswith("DITSEED_")} - own:
        variables = {variable(name) for name in names_of_all_verbs()}
        for other in others - variables:
            if near := _suggestion(other, variables, 0.9):
                _log.warning("the variable %s belongs to no option%s", other, near)
    for name in map(name_of, command.params):
        if name in TYPED and os.environ.get(variable(name)):
            raise UsageProblem(
                reason=f"the variable {variable(name)} is set, but --{name} is taken from the command line only"
            )


def settings(context: click.Context, name: str | None) -> dict[str, object]:
    """Returns the parameters of the verb that [default] or the profile `name` sets. Raises UsageProblem, FileUnsafe."""
    from loader import cli  # imported here, because loader.cli imports this module

    path = defaults.config_file()
    document = _read(path)
    if name is not None and name not in document:
        raise UsageProblem(reason=f"{path} has no profile {name}{_suggestion(name, document)}")
    for key, value in document.items():
        if not isinstance(value, dict):
            raise UsageProblem(reason=f"{path}: {key} is in no profile; put it below [{COMMON}]")
        if key in cli.OWN_VERBS:
            raise UsageProblem(reason=f"{path}: [{key}] is a verb; write [{COMMON}.{key}]")
    by_name = {name_of(parameter): parameter for parameter in context.command.params}
    verbs = context.command_path.split()[1:]
    values: dict[str, object] = {}
    for table in dict.fromkeys((COMMON, name or COMMON)):
        entries = _entries(document.get(table, {}), f"{path}, [{table}]", verbs, context)
        specific = {key: _click_value(by_name[key], value, where) for where, key, value in entries if key in by_name}
        # An account in the profile replaces the whole account in [default].
        replaced = {
            f"{prefix}{key}"
            for prefix in ("", "consumer-")
            if {f"{prefix}bind-dn", f"{prefix}mechanism"} & specific.keys()
            for key in _ACCOUNT
        }
        values = {key: value for key, value in values.items() if key not in replaced} | specific
    if values:
        _log.info("options from %s: %s", path, ", ".join(values))
    return {by_name[key].name or key: value for key, value in values.items()}


def _read(path: Path) -> Mapping[str, dict[str, object]]:
    """Returns the tables of config.toml; none if the file does not exist, or if this account may not enter its
    directory (`sudo -u` with root's HOME). Raises FileUnsafe, UsageProblem."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    with files.explained(path), files.reading(path) as file:
        if os.geteuid() == 0:
            # Other accounts may read the file, which has no secrets, but not write to it, because root obeys it.
            with held.opened(path.parent) as directory:
                held.require_private(directory.status, path.parent)
            status = os.fstat(file.fileno())
            if status.st_uid != 0 or status.st_mode & _OTHERS_WRITE:
                reason = f"another account can write to {path}, so root does not read it: chown root, and chmod go-w"
                raise UsageProblem(reason=reason)
        content = file.read()
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        document: Mapping[str, dict[str, object]] = tomllib.loads(content.decode())
    except ValueError as error:
        raise UsageProblem(reason=f"{path} is not TOML: {error}") from error
    return document


def _entries(
    table: Mapping[str, object], where: str, verbs: list[str], context: click.Context, depth: int = 0
) -> Iterator[tuple[str, str, object]]:
    """Yields position, key and value of each option: first the options for all verbs, then those for the running verb.
    Raises UsageProblem for an unknown option or verb."""
    from loader import cli

    own = {name for name in map(name_of, context.command.params) if name}
    is_for_this_verb = depth > 0 and not verbs  # otherwise, the table is for several verbs
    group = context.parent.command if context.parent is not None else None
    below = group.list_commands(context) if isinstance(group, click.Group) and depth else []
    for key, value in table.items():
        if isinstance(value, dict):
            if not verbs or not (key in below or (not depth and cli.location_of(key))):
                raise UsageProblem(reason=f"{where}: there is no verb {key}{_suggestion(key, below or cli.OWN_VERBS)}")
        elif key in TYPED or key == "profile":
            raise UsageProblem(reason=f"{where}: {key} is taken from the command line only")
        elif key in own or (not is_for_this_verb and key in names_of_all_verbs()):
            yield f"{where}: {key}", key, value
        elif key not in names_of_all_verbs() and any(word in key.lower() for word in _SECRETS):
            reason = "a password, which a profile never holds; put it into a file and name that: password-file"
            raise UsageProblem(reason=f"{where}: {key} looks like {reason}")
        else:
            letters = names_of_all_verbs()
            names = own if is_for_this_verb else letters
            by_letter = [name for name in names if key and key in letters.get(name, "")]
            near = f"; write {by_letter[0]}" if by_letter else _suggestion(key, names)
            raise UsageProblem(reason=f"{where}: there is no option {key}{near}")
    for key, value in table.items():
        if isinstance(value, dict) and key == verbs[0]:
            yield from _entries(value, f"{where.removesuffix(']')}.{key}]", verbs[1:], context, depth + 1)


def _click_value(parameter: click.Parameter, value: object, where: str) -> object:
    """Returns a value as click expects it: text, a list of texts, or a bool for a flag. Raises UsageProblem."""
    if isinstance(parameter, click.Option) and parameter.is_flag and not parameter.count:
        if not isinstance(value, bool):
            raise UsageProblem(reason=f"{where} takes true or false")
        return value
    values = value if parameter.multiple and isinstance(value, list) else [value]
    for item in values:
        if isinstance(item, bool) or not isinstance(item, str | int | float):
            raise UsageProblem(reason=f"{where} takes {'text' if parameter.multiple else 'text or a number'}")
    return [*map(str, values)] if parameter.multiple else str(value)


def _suggestion(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    import difflib  # imported here because only errors need it

    near = difflib.get_close_matches(name, list(names), 1, cutoff)
    return f"; did you mean {near[0]}?" if near else ""


# --- the options of every verb -----------------------------------------------------------------------


def load(location: str) -> click.Command:
    """Imports the command at `MODULE:NAME`, adds the options that every verb has, and names the options' variables."""
    module, _, attribute = location.partition(":")
    command: click.Command = getattr(import_module(module), attribute)
    for leaf in _leaves(command):
        names = {word for option in leaf.params for word in option.opts}
        leaf.params += [option for option in options() if not names.intersection(option.opts)]
        for parameter in leaf.params:
            name = name_of(parameter)
            if name is not None and name not in TYPED and name != "profile":
                parameter.envvar = variable(name)
        leaf.epilog = (
            "Options that are not given here are taken from variables (DITSEED_OPTION, such as DITSEED_JOBS for "
            f"--jobs) and from {defaults.CONFIG_FILE}: docs/profiles.md."
        )
    return command


def _leaves(command: click.Command) -> Iterator[click.Command]:
    """Yields the command, or all commands of a group."""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            yield from _leaves(below)
    else:
        yield command


def options(profile_variable: str | None = None) -> list[click.Option]:
    """Returns the options that every verb has; --log-file is last, because a profile may set it. `profile_variable`:
    variable for the --profile before the verb. After the verb, the variable would override that --profile."""
    option = partial(click.Option, is_eager=True, expose_value=False)
    path = click.Path(path_type=Path, readable=False)
    quiet, verbose = "Print nothing to stderr but errors.", "Report servers, files, tools and steps on stderr"
    chosen = f"Profile in {defaults.CONFIG_FILE} with further options, in addition to [{COMMON}]."
    log_file = "Append to FILE what -v reports, with the time of each line (UTC)."
    return [
        option(["-q", "--quiet"], is_flag=True, callback=_set_verbosity, help=quiet),
        option(["-v", "--verbose"], count=True, callback=_set_verbosity, help=f"{verbose}; -vv: everything."),
        option(["--profile"], metavar="NAME", envvar=profile_variable, callback=_apply, help=chosen),
        option(["--log-file"], type=path, metavar="FILE", callback=_open_log, help=log_file),
    ]


def _set_verbosity(context: click.Context, option: click.Parameter, value: int) -> None:
    """Adds the number of -v to the verbosity; -q makes it -1. Both options may come before or after the verb."""
    if not value:
        return
    step = -1 if option.name == "quiet" else value
    if log.verbosity() * step < 0:
        raise UsageProblem(reason="-q and -v contradict each other: give one of them")
    log.setup(max(-1, log.verbosity() + step))


def _open_log(context: click.Context, option: click.Parameter, path: Path | None) -> None:
    """Opens the log file. A --log-file before the verb wins over a log file from a variable or profile."""
    explicit = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
    if path is None or context.resilient_parsing or (log.has_file() and not explicit):
        return
    with files.explained(path), held.opened(path.absolute().parent) as directory:
        descriptor = directory.open_or_create(path.name, 0o600)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
    log.add_file(os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace"))
    _log.info("%s begins", context.command_path, extra=log.SHOWN)
