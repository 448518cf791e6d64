"""`ditseed tune`: settings of a server's databases, shown and changed."""

from __future__ import annotations

import dataclasses

import click

from loader.cli import options
from loader.cli.report import show, show_json
from loader.cli.tune_indexes_cmd import indexes_command
from loader.cli.tune_maxsize_cmd import maxsize_command
from loader.cli.tune_sync_cmd import sync_command
from loader.run import lease


@click.group("tune")
def command() -> None:
    """Show and change settings of a server's databases.

    Name the server either by --config (slapd.conf, or the slapd.d of a stopped slapd) or by -H and the other
    connection options (cn=config over LDAP). Nothing changes without --apply. The previous values are recorded:
    see `ditseed tune history`.

    \b
    Examples:
      ditseed tune maxsize -H ldapi:/// -Y EXTERNAL
      ditseed tune indexes --config /etc/ldap/slapd.d --add "uid eq" --apply
      ditseed tune sync -H ldapi:/// -Y EXTERNAL --nosync off --apply
    """


@command.command("history")
@options.json_option
def history_command(as_json: bool) -> None:
    """List what `tune` (and `build --maxsize`) changed, with the command that puts the old value back.

    \b
    Example:
      ditseed tune history
    """
    found = lease.changes()
    if as_json:
        show_json({"changes": [dataclasses.asdict(one) for one in found]})
        return
    for one in found:
        show(f"{one.time}  {one.by}  {one.target}  {one.database}  ({one.outcome.value})")
        before, after = ("; ".join(values) or "(not set)" for values in (one.before, one.after))
        show(f"  {one.attribute}: {before} -> {after}")
        if one.undo and one.outcome is not lease.Outcome.FAILED:
            show(f"  put back: {one.undo}")
    if not found:
        show("no changes are recorded")


command.add_command(indexes_command)
command.add_command(maxsize_command)
command.add_command(sync_command)
