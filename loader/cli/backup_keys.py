"""Options of `ditseed backup` for age: for whom a backup is encrypted, and what decrypts it."""

from __future__ import annotations

from pathlib import Path

import click

from loader import age
from loader.age import Recipients
from loader.cli.options import stack
from loader.errors import UsageProblem

_FILE = click.Path(path_type=Path, readable=False, dir_okay=False)

recipient_options = stack(
    click.option(
        "--recipient",
        "recipients",
        multiple=True,
        metavar="KEY",
        help="Encrypt the backup for this public key of age (age1...) or SSH; may be given several times.",
    ),
    click.option(
        "--recipients-file",
        "recipients_files",
        type=_FILE,
        multiple=True,
        metavar="FILE",
        help="The same for the keys in a file, one on each line, as age takes them; may be given several times.",
    ),
)
identity_option = click.option(
    "--identity",
    "identities",
    type=_FILE,
    multiple=True,
    metavar="FILE",
    help="File with a secret key of age or SSH that decrypts the backup, which only you can read; may be given several "
    "times.",
)


def recipients_of(words: tuple[str, ...], paths: tuple[Path, ...], incremental: bool) -> Recipients | None:
    """Of the values of `recipient_options`. Raises UsageProblem."""
    if incremental and (words or paths):
        reason = "an incremental backup reads the pages of those before it, which needs an identity on this host"
        raise UsageProblem(reason=f"--incremental cannot be encrypted: {reason}; take a full one")
    return age.recipients(words, paths)
