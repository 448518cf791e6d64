"""`ditseed shims`: makes the links slapadd, slapcat and slapindex."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from loader import defaults
from loader.cli.report import show
from loader.declared import Argument, declare


@declare("shims")
def command(directory: Annotated[Path, Argument("DIR")]) -> None:
    """Make links slapadd, slapcat and slapindex in DIR, which scripts call instead of slapd's own tools.

    With DIR first in PATH, a call of these tools uses ditseed if ditseed is proven to give the same result, else the
    tool of slapd: docs/drop-in.md. DIR must belong to root or to this account, and no other account may write to it. To
    remove the links, remove DIR.

    \b
    Example:
      ditseed shims /usr/lib/ditseed/bin
    """
    from loader.operations.shims import make_links

    make_links(directory.absolute())
    show(f"{directory.absolute()}: slapadd, slapcat, slapindex")
    behind = [path for path in map(defaults.find_tool, ("slapadd", "slapcat", "slapindex")) if path]
    show(f"behind them: {', '.join(behind) or 'none, because slapd is not installed'}")
    show("To use them, put this line into the profile of the shell, or into the unit or script that calls the tools:")
    show(f"  PATH={directory.absolute()}{os.pathsep}$PATH")
