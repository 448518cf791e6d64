"""`ditseed generate learn`: derives a template from a real tree in LDIF, which is read once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from loader import defaults, exports, ldif, standard, units
from loader.cli.options import Shown
from loader.cli.report import show_facts, show_json
from loader.declared import Argument, Jobs
from loader.declared import command as declare
from loader.errors import UsageProblem
from loader.sources.location import STDIN, Kind, locate
from loader.storage import files


@declare("learn")
def command(
    sources: Annotated[tuple[str, ...], Argument("SOURCE..."), {"required": True}],
    output: Annotated[str, "-o --output TEMPLATE|-", "The template file to write; -: standard output."],
    jobs: Jobs,
    replace: Annotated[bool, "Overwrite an existing template."],
    shown: Shown,
) -> None:
    """Learn a template from a real tree; it generates similar trees of any size.

    SOURCE is LDIF: files, directories of them such as an export, - for standard input. No value, nor
    part of a value, gets into the template: words are made up.

    \b
    Examples:
      ditseed generate learn /srv/export -o ours.toml               from LDIF
      ditseed export /var/lib/ldap -o - | ditseed generate learn - -o ours.toml
      ditseed generate ./ours.toml -n 30000000 -o /srv/tree         a tree like it, of any size
    """
    template = None if output == STDIN else Path(output)
    if template is None:
        standard.reserve_output()
    elif template.exists() and not replace:
        raise UsageProblem(reason=f"{template} exists already; --replace overwrites it")
    else:
        files.require_writable(template.parent)
    paths = [path for source in sources for path in locate(source, Kind.LDIF, Kind.STREAM).paths if source != STDIN]
    descriptor = 0 if STDIN in sources else None
    with shown.progress.step("learn") as meter, exports.held(paths, meter) as opened:
        learned = ldif.learn(opened, descriptor, jobs or defaults.processors(), meter)
    if descriptor is None:
        exports.require_entries(paths, learned.entries)
    if template is None:
        sys.stdout.write(learned.template)
        return
    with files.explained(template):
        files.write_durably(template, learned.template.encode())
    facts = {
        "entries": learned.entries,
        "kinds": learned.kinds,
        "entries of the main kind": learned.main,
        "entries left out": learned.left_out,
    }
    if shown.as_json:
        show_json({**facts, "template": template})
        return
    # With a slash, so that `generate` takes it as a path and not as the name of a shipped template.
    path = str(template) if "/" in str(template) else f"./{template}"
    numbers = {name: units.number(count) for name, count in facts.items()}
    show_facts({**numbers, "template": template, "try": f"ditseed generate {path} -n 1000"})
