"""The command line: one click command a verb, found through the `ditseed.verbs` entry points of setup.cfg.

A verb's module turns options into one options object, calls one operation, and prints its report.
"""

from __future__ import annotations

import ast
import sys
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

import click

from loader import log
from loader.cli import ending

# As in setup.cfg. It stands here again because setuptools sorts entry points by name; a test compares the two.
ORDER = (
    "replica",
    "export",
    "build",
    "add",
    "generate",
    "clone",
    "compare",
    "verify",
    "backup",
    "tune",
)


class Verbs(click.Group):
    """Loads a verb's module only when it is called, so that `ditseed --help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [entry.name for entry in verbs()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for entry in verbs():
            if entry.name == cmd_name:
                command: click.Command = entry.load()
                return command
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = verbs()
        room = formatter.width - 6 - max(len(entry.name) for entry in found)
        with formatter.section("Verbs"):
            formatter.write_dl([(entry.name, summary(entry, room)) for entry in found])


def verbs() -> list[EntryPoint]:
    """The verbs that are installed; those that ORDER does not name come last."""
    place = {name: number for number, name in enumerate(ORDER)}
    found = entry_points(group="ditseed.verbs")
    return sorted(found, key=lambda entry: (place.get(entry.name, len(place)), entry.name))


def summary(entry: EntryPoint, limit: int) -> str:
    """First sentence of a verb's help text, read from its source: importing all verbs takes half a second."""
    spec = find_spec(entry.module)
    if spec is None or spec.origin is None:
        return "(missing from this installation)"
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == entry.attr:
            return click.Command(None, help=ast.get_docstring(node)).get_short_help_str(limit)
    return ""


@click.group(
    cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="ditseed", prog_name="ditseed")
@click.option("-v", "--verbose", count=True, help="Say what is done (-v) and everything (-vv).")
@click.option("-q", "--quiet", is_flag=True, help="Errors only.")
def ditseed(verbose: int, quiet: bool) -> None:
    """Seed, export, build, clone and check very large OpenLDAP directories.

    \b
    Examples:
      A new replica from a running provider:
        ditseed replica seed --strategy search -H ldap://provider -D cn=replicator,dc=example,dc=com \\
            -y /root/replicator.pw -b dc=example,dc=com --config /etc/ldap/slapd.d
      Is it equal to its provider?
        ditseed replica verify -H ldap://provider -D cn=replicator,dc=example,dc=com \\
            -y /root/replicator.pw --consumer ldap://new-replica
    """
    log.setup(-1 if quiet else verbose)


def main() -> None:
    """Entry point, and the only place that exits."""
    sys.exit(ending.run(ditseed, "ditseed"))
