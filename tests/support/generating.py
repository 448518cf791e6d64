"""Generates trees as bytes, and writes templates for a test."""

from __future__ import annotations

import os

from loader.operations.generate import GenerateOptions
from loader.progress import Meter
from loader.sources import dit
from loader.sources.dit import Range, TreeSpec
from seeders.synthetic import templates

LISTS = (templates.LISTS,)
PEOPLE = templates.find("people")


def people(entries: int, seed: int = 1, operational: bool = True, suffix: str | None = None) -> TreeSpec:
    return TreeSpec(PEOPLE, LISTS, seed, suffix, entries, operational=operational)


def text_of(recipe: TreeSpec, piece: Range | None = None, jobs: int = 1) -> bytes:
    """Returns the LDIF of a tree, or of a part of it."""
    template = recipe.compiled()
    descriptor = os.memfd_create("generated")
    try:
        dit.write(template, piece or dit.whole(template), descriptor, jobs, Meter("generate"))
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        os.close(descriptor)


def options(
    recipe: TreeSpec, piece: Range | None = None, jobs: int = 1, size: int = 1000, compress: str = "zstd"
) -> GenerateOptions:
    """Returns options that generate the tree in shards of `size` entries."""
    template = recipe.compiled()
    return GenerateOptions(recipe, template, piece or dit.whole(template), jobs, compress, size)
