"""A migration in commands: what a run does, as an operator would type it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shlex import join, quote

import msgspec

from loader import units
from loader.operations.storage.migrate import fstab
from loader.operations.storage.migrate.plan import Plan
from loader.operations.storage.migrate.volume import unmounting


class Told(msgspec.Struct, frozen=True):
    """A step. `by`: what ditseed does itself, "" for nothing."""

    step: str
    commands: tuple[str, ...]
    by: str = ""


def forward(plan: Plan) -> Iterator[Told]:
    wishes = plan.wishes
    source, target = wishes.source, wishes.target
    amount = f"{units.size(plan.allocated)} in {units.number(plan.files)} files"
    took = units.duration(max(1.0, plan.seconds))
    yield Told("stop", (join(wishes.stop),), f"waits until no process uses {source}")
    copying = f"rsync -aHAXS --numeric-ids {quote(source)}/ {quote(target)}/"
    yield Told("copy", (), f"copies {amount} as `{copying}` would")
    yield Told(
        "verify",
        (),
        f"compares checksums, owners, modes (copy and verify: about {took} at 150 MiB/s)",
    )
    old = (join(unmounting(source)),) if plan.old else ()
    yield Told("unmount", (join(unmounting(target)), *old))
    yield Told("mount", (join(plan.new.mounting(source)),))
    yield Told(
        "fstab", tuple(fstab.difference(plan.edits)), f"changes these lines of {wishes.fstab}"
    )
    checks = tuple(f"ditseed verify {quote(str(Path(source, name)))}" for name in plan.databases)
    yield Told("check", checks, f"compares owner and mode of {source}")
    yield Told("start", (join(wishes.start),))
    yield _watching(plan)


def back(plan: Plan) -> Iterator[Told]:
    wishes = plan.wishes
    yield Told("stop", (join(wishes.stop),), f"waits until no process uses {wishes.source}")
    turned = tuple(
        f"{'+' if line.startswith('-') else '-'}{line[1:]}" for line in fstab.difference(plan.edits)
    )
    yield Told("fstab", turned, f"puts back these lines of {wishes.fstab}")
    yield Told("unmount", (join(unmounting(wishes.source)),))
    old = (join(plan.old.mounting(wishes.source)),) if plan.old else ()
    yield Told("mount", (*old, join(plan.there.mounting(wishes.target))))
    yield Told("start", (join(wishes.start),))
    yield _watching(plan)


def _watching(plan: Plan) -> Told:
    asked = f" and that {plan.wishes.uri} answers" if plan.wishes.uri else ""
    seconds = units.duration(plan.wishes.seconds)
    return Told(
        "watch", (), f"waits until it is up, then sees for {seconds} that it stays up{asked}"
    )
