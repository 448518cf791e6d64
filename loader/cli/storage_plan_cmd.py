"""`ditseed storage plan`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from loader import resources, units
from loader.cli import options
from loader.cli.report import show, show_json
from loader.declared import Size
from loader.errors import EXIT_OK, UsageProblem
from loader.operations.storage import layout, making, plan
from loader.operations.storage.plan import Disk, Plan, Wishes
from loader.storage import disks as looking

_WIDTH = 98


@click.command("plan")
@click.argument("disks", nargs=-1, required=True, metavar="DISK...")
@click.option(
    "--database-size", "database", type=Size(), required=True, help="Size of the database."
)
@click.option(
    "--fs",
    "kind",
    type=click.Choice(making.KINDS),
    default="xfs",
    show_default=True,
    help="File system.",
)
@click.option(
    "--stripes",
    type=click.IntRange(1),
    help="Number of stripes (default: one on each disk, or on each two with --redundant).",
)
@click.option(
    "--stripe-size", type=Size(), default=layout.STRIPE, help="Stripe size (default: 64K)."
)
@click.option("--extent-size", type=Size(), default=plan.EXTENT, help="Extent size (default: 4M).")
@click.option(
    "--volume-size",
    "size",
    type=Size(),
    help="Size of the volume (default: all of the disks).",
)
@click.option("--memory", type=Size(), help="Memory of the server (default: of this host).")
@click.option("--vg", "group", default="ldap", show_default=True, help="Name of the volume group.")
@click.option(
    "--lv", "volume", default="data", show_default=True, help="Name of the logical volume."
)
@click.option("--mount", default="/srv/ldap", show_default=True, help="Mount point.")
@click.option(
    "--unequal", is_flag=True, help="Do without what larger disks have more than the smallest."
)
@click.option(
    "--redundant",
    is_flag=True,
    help="Keep everything on two disks: raid10 on 4 disks or more, a mirror (raid1) on 2.",
)
@options.json_option
def plan_command(disks: tuple[str, ...], memory: int | None, as_json: bool, **wished: Any) -> int:
    """Print the commands that make a volume for a database, with the reason of every number.

    DISK is a block device (/dev/sdb), which must hold nothing, or a size (300G) for a plan on paper. What is printed
    is a script for sh: read it, then run it as root. ditseed itself runs none of it. Real disks are only looked at,
    which needs root.

    Without --redundant one failed disk loses the whole file system.

    \b
      ditseed storage plan /dev/sdb /dev/sdc /dev/sdd --database-size 350G >plan.sh
      ditseed storage plan 300G 300G 300G --database-size 350G --fs ext4
    """
    wishes = Wishes(memory=memory or resources.memory(), **wished)
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

    yield from textwrap.wrap(
        text, _WIDTH, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False
    )
