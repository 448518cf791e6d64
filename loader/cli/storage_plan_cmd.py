"""`ditseed storage plan`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec

from loader import units
from loader.cli.options import Json
from loader.cli.report import show, show_json
from loader.declared import Argument
from loader.declared import command as declare
from loader.errors import EXIT_OK, UsageProblem
from loader.operations.storage import plan
from loader.operations.storage.plan import Disk, Plan, Wishes
from loader.storage import devices as looking

_WIDTH = 98


@declare("plan")
def plan_command(
    disks: Annotated[tuple[str, ...], Argument("DISK..."), {"required": True}], wishes: Wishes, as_json: Json
) -> int:
    """Print the commands that make a volume for a database, with the reason of every number.

    DISK is a block device (/dev/sdb), which must hold nothing, or a size (300G) for a plan on paper. What is printed
    is a script for sh: read it, then run it as root. ditseed itself runs none of it. Real disks are only looked at,
    which needs root.

    Without --redundant one failed disk loses the whole file system.

    \b
      ditseed storage plan /dev/sdb /dev/sdc /dev/sdd --database-size 350G >plan.sh
      ditseed storage plan 300G 300G 300G --database-size 350G --fs ext4
    """
    if not wishes.database:
        raise UsageProblem(reason="--database-size: a size above 0 is needed")
    made = plan.plan([_disk(word, number) for number, word in enumerate(disks, 1)], wishes)
    if as_json:
        show_json(msgspec.to_builtins(made))
    else:
        show(*_script(made))
    return EXIT_OK


def _disk(word: str, number: int) -> Disk:
    if not word.startswith("/"):
        return Disk(f"/dev/DISK{number}", units.parse_size(word))
    if not word.isprintable():
        raise UsageProblem(reason=f"not the name of a disk: {word!r}")
    found = looking.unused(word)
    return Disk(word, found[0].size, found)


def _script(made: Plan) -> Iterator[str]:
    extent, database = units.size(made.wishes.extent_size), made.wishes.database
    yield (
        f"# {units.size(made.size)}, {made.size / database:.1f} times the database of {units.size(database)}, on "
        f"{sum(leg.used > 0 for leg in made.legs)} of {len(made.legs)} disks"
        f"{', each extent on two of them' if made.wishes.redundant else ''}"
    )
    for leg in made.legs:
        yield f"#   {leg.disk}: {leg.extents} extents of {extent}, {leg.used} used, {leg.left} left"
    for note in made.notes:
        yield from _comment(f"Note: {note}")
    for step in made.steps:
        yield ""
        for reason in step.why:
            yield from _comment(reason)
        yield step.command


def _comment(text: str) -> Iterator[str]:
    import textwrap  # here, for few runs need it

    yield from textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False)
