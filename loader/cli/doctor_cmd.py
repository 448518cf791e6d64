"""`ditseed doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import msgspec

from loader import units
from loader.cli import findings, options
from loader.cli.report import show, show_error, show_json
from loader.errors import EXIT_DIFFERENT, EXIT_OK, LoaderError
from loader.operations import doctor
from loader.operations.doctor import Report, plugin
from loader.operations.doctor.plugin import Check


@click.command("doctor")
@options.optional_config_option
@options.suffix_option
@click.option("--check", "is_check", is_flag=True, help="Report as a monitoring plugin.")
@click.option(
    "--fix",
    "is_fix",
    is_flag=True,
    help="Clear dead readers, and put back what killed runs left set.",
)
@options.json_option
def command(
    config_path: Path | None, suffix: str | None, is_check: bool, is_fix: bool, as_json: bool
) -> int:
    """Examine the databases of this host's slapd: what is wrong, and the command that mends it."""
    if is_check:
        options.refuse_given(["is_fix"], "a run without --check")
        return _checked(config_path, suffix, as_json)
    report = doctor.examine(config_path, suffix)
    if is_fix:
        report = doctor.fixed(report)
    if as_json:
        show_json(_facts(report))
    else:
        show(*_lines(report))
    return EXIT_OK if report.is_well else EXIT_DIFFERENT


def _checked(config: Path | None, suffix: str | None, as_json: bool) -> int:
    found = _check(config, suffix)
    if as_json:
        show_json({**msgspec.to_builtins(found), "status": found.status.name})
    else:
        show(*found.text())
    return int(found.status)


def _check(config: Path | None, suffix: str | None) -> Check:
    try:
        return plugin.check(doctor.examine(config, suffix))
    except LoaderError as error:
        show_error(error)
        return plugin.unknown(str(error))


def _facts(report: Report) -> Mapping[str, object]:
    found = msgspec.to_builtins(report)
    unseen = found["facts"].pop("unseen")
    return {
        "well": report.is_well,
        "findings": found["findings"],
        "fixed": found["fixed"],
        "not_looked_at": unseen,
        **found["facts"],
    }


def _lines(report: Report) -> Iterator[str]:
    yield report.facts.config
    for one in report.facts.databases:
        used = f"  {units.size(one.room.used)} in use" if one.room else ""
        yield f"└─ {one.suffix}  {one.directory}{used}, maxsize {units.size(one.maxsize)}"
    yield ""
    yield from (f"fixed: {done}" for done in report.fixed)
    yield from findings.lines(report.findings, report.facts.unseen)
