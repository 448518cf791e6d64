"""The command line: one click command a verb, found through the `ditseed.verbs` entry points of setup.cfg.

A verb's module turns options into one options object, calls one operation, and prints its report.
"""

from __future__ import annotations

import signal
import sys
from importlib.metadata import EntryPoint, entry_points
from types import FrameType
from typing import Any

import click

from loader import errors, log
from loader.cli.report import show_error
from loader.errors import Cancelled, LoaderError


class Verbs(click.Group):
    """Loads a verb's module only when it is called, so that `ditseed --help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [entry.name for entry in _verbs()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for entry in _verbs():
            if entry.name == cmd_name:
                command: click.Command = entry.load()
                return command
        return None


def _verbs() -> list[EntryPoint]:
    return list(entry_points(group="ditseed.verbs"))


@click.group(
    cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="ditseed", prog_name="ditseed")
@click.option("-v", "--verbose", count=True, help="Say what is done (-v) and everything (-vv).")
@click.option("-q", "--quiet", is_flag=True, help="Errors only.")
def ditseed(verbose: int, quiet: bool) -> None:
    """Seed, export, build, clone and check very large OpenLDAP directories.

    \b
    A new replica from a running provider:
      ditseed replica seed --strategy search -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw -b dc=example,dc=com --config /etc/ldap/slapd.d
    """
    log.setup(-1 if quiet else verbose)


def main() -> None:
    """Entry point. The only place that exits; every LoaderError becomes a message, a hint and its exit status."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        status = ditseed.main(prog_name="ditseed", standalone_mode=False)
    except LoaderError as error:
        show_error(error)
        sys.exit(error.exit_status)
    except click.exceptions.Abort:
        sys.exit(_stopped("Ctrl-C"))
    except KeyboardInterrupt as error:
        sys.exit(_stopped(str(error) or "Ctrl-C"))
    except click.ClickException as error:
        error.show()
        sys.exit(errors.UsageProblem.exit_status)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(128 + signal.SIGPIPE)
    sys.exit(status if isinstance(status, int) else errors.EXIT_OK)


def _terminated(number: int, frame: FrameType | None) -> Any:
    """SIGTERM unwinds like Ctrl-C: children end, leases are given back, the catalogue stays true."""
    raise KeyboardInterrupt("SIGTERM")


def _stopped(by: str) -> int:
    show_error(Cancelled(signal=by))
    return 143 if by == "SIGTERM" else Cancelled.exit_status
