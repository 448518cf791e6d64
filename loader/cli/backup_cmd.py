"""`ditseed backup`: its commands, each from a module of its own."""

from __future__ import annotations

import click

from loader.cli.backup_care_cmd import init_command, prune_command, show_command, verify_command
from loader.cli.backup_check_cmd import check_command
from loader.cli.backup_drill_cmd import drill_command, extract_command
from loader.cli.backup_list_cmd import list_command
from loader.cli.backup_restore_cmd import restore_command
from loader.cli.backup_run_cmd import run_command


@click.group(name="backup")
def command() -> None:
    """Back up databases while slapd is running; list, check, verify, drill, prune and restore the backups."""


for one in (
    check_command,
    drill_command,
    extract_command,
    init_command,
    list_command,
    prune_command,
    restore_command,
    run_command,
    show_command,
    verify_command,
):
    command.add_command(one)
