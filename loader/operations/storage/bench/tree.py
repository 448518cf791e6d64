"""The entries that are loaded, the same ones in every directory, and the searches for them."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from loader import resources
from loader.operations.storage.bench.results import Wishes
from loader.progress import Progress
from loader.server.repeated import Question
from loader.sources import dit
from loader.sources.dit import PlanOptions, TreeSpec
from loader.storage import files

_UNIFORM = 0.01  # Zipf's exponent: nearly every entry is asked for as often as the others


class Tree(msgspec.Struct, frozen=True):
    """`entries` of the LDIF `path`."""

    path: Path
    entries: int


def made(recipe: TreeSpec, entries: int, path: Path, progress: Progress) -> Tree:
    """The LDIF of `entries` people, and of the containers above them."""
    template = dataclasses.replace(recipe, entries=entries).compiled()
    jobs = resources.processors()
    with (
        progress.step(f"generate {path.name}", template.entries) as meter,
        files.explained(path),
        files.creating(path) as file,
    ):
        dit.write(template, dit.whole(template), file.fileno(), jobs, meter)
        os.fsync(file.fileno())
    return Tree(path, template.entries)


def questions(
    recipe: TreeSpec, wishes: Wishes, path: Path, progress: Progress
) -> Sequence[Question]:
    """Equality searches for an indexed attribute, each of which finds one entry, in random order."""
    template = dataclasses.replace(recipe, entries=wishes.entries).compiled()
    asked = PlanOptions(
        wishes.searches, {"search": 1}, 0.0, _UNIFORM, wishes.seed, (("uid", False, 1),)
    )
    with (
        progress.step("plan searches", wishes.searches) as meter,
        files.explained(path),
        files.creating(path) as file,
    ):
        dit.plan(template, asked, file.fileno(), 1, meter)
    return [_question(line) for line in files.read(path).splitlines()]


def _question(line: bytes) -> Question:
    told = json.loads(line)
    return Question(told["base"], told["scope"], told["filter"], told["entries"])
