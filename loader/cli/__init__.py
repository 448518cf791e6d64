"""The command line: one click command per verb, found through the `ditseed.verbs` entry points of setup.cfg.

A verb's module turns the options into one options object, calls one operation, and prints its report.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from loader import defaults, standard
from loader.cli import ending, options

# A copy of the entry points in setup.cfg: importlib.metadata would read them too slowly. A test compares the two.
OWN_VERBS = {
    "replica": "seeders.replica.replica_cmd:command",
    "export": "loader.cli.export_cmd:command",
    "build": "loader.cli.build_cmd:command",
    "add": "loader.cli.add_cmd:command",
    "generate": "seeders.synthetic.generate_cmd:command",
    "clone": "loader.cli.clone_cmd:command",
    "migrate": "loader.cli.migrate_cmd:command",
    "compare": "loader.cli.compare_cmd:command",
    "verify": "loader.cli.verify_cmd:command",
    "backup": "loader.cli.backup_cmd:command",
    "tune": "loader.cli.tune_cmd:command",
    "storage": "loader.cli.storage_cmd:command",
    "shims": "loader.cli.shims_cmd:command",
    "doctor": "loader.cli.doctor_cmd:command",
    "explain": "loader.cli.explain_cmd:command",
    "completion": "loader.cli.completion_cmd:command",
}


class Verbs(click.Group):
    """Imports a verb's module only when the verb is called, so that `ditseed --help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(verbs())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == _help.name:
            return _help
        location = location_of(cmd_name)
        return options.load(location) if location else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        locations = verbs()
        width = formatter.width - 6 - max(map(len, locations))
        with formatter.section("Verbs"):
            formatter.write_dl([(name, _summary(location, width)) for name, location in locations.items()])


def location_of(name: str) -> str | None:
    """Returns MODULE:FUNCTION of a verb; None if there is no such verb. No other package can replace an OWN_VERB."""
    return OWN_VERBS.get(name) or verbs().get(name)


def verbs() -> dict[str, str]:
    """Maps all installed verbs to MODULE:FUNCTION; verbs of other packages come last."""
    from importlib.metadata import entry_points

    return OWN_VERBS | {entry.name: entry.value for entry in entry_points(group="ditseed.verbs")}


def _summary(location: str, limit: int) -> str:
    """Returns the first sentence of a verb's help, from the source file, because the import of all verbs is slow."""
    from importlib.util import find_spec

    module, _, function = location.partition(":")
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return "(missing from this installation)"
    source = Path(spec.origin).read_text(encoding="utf-8")
    text = re.search(rf'^def {function}\(.*?"""(.*?)"""', source, re.MULTILINE | re.DOTALL)
    return click.Command(None, help=text[1] if text else "").get_short_help_str(limit)


@click.command("help")
@click.argument("verb", nargs=-1)
@click.pass_context
def _help(context: click.Context, verb: tuple[str, ...]) -> None:
    """Print the help of VERB, like --help."""
    group = context.find_root()
    for word in verb:
        if not isinstance(group.command, click.Group):
            break
        command = group.command.get_command(group, word)
        if command is None:
            group.fail(f"No such command {word!r}.")
        group = click.Context(command, group, word)
    group.command.make_context(group.info_name, ["--help"], group.parent)  # prints the help, and exits


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="ditseed", prog_name="ditseed")
def ditseed() -> None:
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


ditseed.params += options.options(defaults.ENV_PROFILE)


def main() -> None:
    """Runs the command line, then ends the process."""
    standard.prepare()
    # No other account may write to files that ditseed creates, even if the inherited umask allows this.
    os.umask(os.umask(0o022) | 0o022)
    ending.leave(ending.run(ditseed, "ditseed"))
