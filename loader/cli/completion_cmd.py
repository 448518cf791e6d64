"""`ditseed completion`: prints click's completion script for a shell. bin/make-docs writes these scripts to docs/."""

from __future__ import annotations

from typing import Annotated, Literal

import click
from click.shell_completion import get_completion_class

from loader.cli.report import show
from loader.declared import Argument, declare


@declare("completion")
def command(shell: Annotated[Literal["bash", "zsh", "fish"], Argument()]) -> None:
    """Print the script with which a shell completes the verbs, options and values of ditseed.

    The Debian package installs it for all three. Elsewhere, type one of these once; the next shell completes:

    \b
    Examples:
      ditseed completion bash > /etc/bash_completion.d/ditseed     bash, for all accounts, as root
      echo 'eval "$(ditseed completion bash)"' >> ~/.bashrc        bash, for one account
      ditseed completion zsh > "${fpath[1]}/_ditseed"              zsh, where compinit runs
      ditseed completion fish > ~/.config/fish/completions/ditseed.fish
    """
    show(*script(shell).splitlines())


def script(shell: str) -> str:
    kind = get_completion_class(shell)
    assert kind is not None
    return kind(click.Command("ditseed"), {}, "ditseed", "_DITSEED_COMPLETE").source()
