"""Collects what a seeding lacks, so that `replica seed --dry-run` shows all of it at once, with the lines to paste."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from loader.errors import LoaderError, MaxsizeTooSmall, NoSpace, SchemaMissing
from loader.operations.storage.findings import Finding, Severity
from loader.server import options

if TYPE_CHECKING:
    from seeders.replica.strategies import Strategy


class Checks:
    """The checks of one strategy. A seeding ends with the first error; a dry run `collects` the `errors`."""

    def __init__(self, collects: bool = False) -> None:
        self.collects, self.errors = collects, list[LoaderError]()

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Collects the error of a check that later checks do not depend on."""
        try:
            yield
        except LoaderError as error:
            if not self.collects:
                raise
            self.errors.append(error)

    def require_passed(self) -> None:
        if self.errors:
            raise self.errors[0]


def of_error(error: LoaderError, strategy: Strategy) -> Finding:
    """Returns the finding of an error that refuses the strategy."""
    why, *lines = error.advice().split("\n")
    config, provider = strategy.options.config_path, strategy.options.connection
    if isinstance(error, MaxsizeTooSmall) and config and (size := error.facts.get("recommended")):
        lines.append(tune_command("maxsize", config, str(error.facts["suffix"]), "--maxsize", str(size)))
    elif isinstance(error, SchemaMissing) and config:
        lines += _schema_lines(error.names, config, (provider.uri if provider else None) or "")
    elif isinstance(error, NoSpace):
        lines.append(f"df -h {shlex.quote(str(error.facts['path']))}  # make room there")
    return Finding(Severity.CRITICAL, error.code, "", str(error), why, tuple(lines))


def of_warning(message: str) -> Finding:
    """Returns the finding of a warning: its first line, then lines to paste."""
    what, *lines = message.split("\n")
    return Finding(Severity.WARNING, "warning", "", what, mend=tuple(lines))


def merged(findings: Mapping[str, Sequence[Finding]]) -> tuple[Finding, ...]:
    """Returns each finding once, the worst first. `findings`: strategy -> its findings; the subject of each becomes the
    names of its strategies."""
    unique = dict.fromkeys(each for every in findings.values() for each in every)
    named = [
        replace(each, subject=", ".join(name for name, every in findings.items() if each in every)) for each in unique
    ]
    return tuple(sorted(named, key=lambda each: -each.severity.rank))


def tune_command(verb: str, config: Path, suffix: str, *change: str) -> str:
    """Returns the command that changes a setting of the stopped consumer."""
    apply = ["--apply"] if config.is_dir() else []
    return shlex.join(["ditseed", "tune", verb, "--config", str(config), "-b", suffix, *change, *apply])


def _schema_lines(names: list[str], config: Path, uri: str) -> list[str]:
    """Returns lines that copy the provider's schema entries with definitions of `names` into a slapd.d."""
    if not config.is_dir():
        return [f"# {config}: `include` the schema files of the provider that define them"]
    filters = (f"({kind}=*\\27{name}\\27*)" for name in names for kind in ("olcAttributeTypes", "olcObjectClasses"))
    where = shlex.quote(f"(|{''.join(filters)})")
    unnumbered = shlex.quote(r"s/^\(dn: \)\?cn\(=\|: \){[0-9]*}/\1cn\2/")
    return [
        "# on the provider's host, as root:",
        f"{options.ldapsearch(uri)} cn=schema,cn=config -s one {where} | sed {unnumbered} > schema.ldif",
        "# on this host, with that schema.ldif, as the owner of the configuration:",
        f"slapadd -n 0 -F {shlex.quote(str(config))} -l schema.ldif",
    ]
