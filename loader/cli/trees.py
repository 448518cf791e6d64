"""Options of verbs that generate a synthetic tree from a template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from click import IntRange

from loader import defaults, standard, units
from loader.cli.options import Restart, Shown, note, refuse_given
from loader.cli.report import show_report
from loader.declared import Compress, Jobs, compression
from loader.defaults import SHARD_ENTRIES, STDIN
from loader.errors import UsageProblem

if TYPE_CHECKING:
    from loader.sources.dit import Synthetic, TreeSpec

TreeSuffix = Annotated[str | None, "--suffix DN", "Suffix of the tree (default: that of the template)."]


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Options that determine a tree, in addition to its template."""

    entries: Annotated[
        int | None, "-n --entries N", IntRange(1), "Number of entries of the kind whose count the template leaves open."
    ] = None
    seed: Annotated[int, "Random seed; another seed makes other entries."] = 1
    defines: Annotated[
        tuple[str, ...], "--define NAME=VALUE", "Set a `define` of a makeldif template; may be repeated."
    ] = ()
    operational: Annotated[
        bool, "Add operational attributes (entryUUID, entryCSN, names, times), so that builds are reproducible."
    ] = False

    def spec(self, name: str, suffix: str | None) -> TreeSpec:
        """Returns the tree of template `name`. Raises NoSuchTemplate, TemplateError; UsageProblem for --define."""
        from loader.sources.dit import TreeSpec
        from loader.sources.location import Kind, locate

        template = locate(name, Kind.TEMPLATE)
        defines: dict[str, str] = {}
        for define in self.defines:
            name, equals, value = define.partition("=")
            if not (name and equals):
                raise UsageProblem(reason=f"--define {define}: write NAME=VALUE")
            if template.convert is None:
                raise UsageProblem(reason=f"--define {name}: only makeldif templates have defines")
            defines[name] = value
        text = template.convert(template.path, defines) if template.convert else None
        return TreeSpec(*(template.path, template.lists, self.seed, suffix, self.entries, text), self.operational)


@dataclass(frozen=True, kw_only=True)
class TreeInput(Tree):
    """Options of a generated tree that is loaded instead of LDIF."""

    template: Annotated[
        str | None, "--from TEMPLATE", "Use a template of `ditseed generate`, by name or path, instead of LDIF."
    ] = None

    def input(self, inputs: Sequence[str], suffix: str | None) -> tuple[tuple[Path, ...], Synthetic | None]:
        """Returns the LDIF files or the tree. Raises UsageProblem if both or neither are given."""
        from loader.sources.dit import Synthetic
        from loader.sources.location import ldif_inputs

        if self.template is None:
            if not inputs:
                raise UsageProblem(reason="nothing to load: give LDIF files, or --from TEMPLATE -n N")
            refuse_given((*Tree.__dataclass_fields__, "tree_suffix"), "--from TEMPLATE")
            return ldif_inputs(inputs), None
        if inputs:
            raise UsageProblem(reason=f"give either --from {self.template} or LDIF files ({inputs[0]}), not both")
        return (), Synthetic(self.spec(self.template, suffix))


@dataclass(frozen=True, kw_only=True)
class TreeOutput:
    """Options that select a range of the tree, and its destination."""

    piece: Annotated[
        str | None,
        "--range A:B",
        "Generate only entries A to B-1 of the tree, counted from 0; all ranges joined are the whole tree.",
    ] = None
    output: Annotated[
        str, "-o --output DIR|-", {"show_default": False}, "Directory for shards and a manifest; -: LDIF to stdout."
    ] = STDIN
    compress: Compress = None
    jobs: Jobs = None
    shard_entries: Annotated[int, IntRange(1), "Entries per file."] = SHARD_ENTRIES
    restart: Restart = False


def generate(recipe: TreeSpec, to: TreeOutput, shown: Shown) -> None:
    from loader.operations.generate import GenerateOptions, to_directory, to_stream
    from loader.sources import dit

    streamed = to.output == STDIN
    if streamed:
        standard.reserve_output()
    template = recipe.compiled()
    part = dit.whole(template)
    if to.piece is not None:
        first, _, end = to.piece.partition(":")
        if not (first.isdecimal() and end.isdecimal() and int(first) < int(end)):
            reason = f"--range {to.piece}: write A:B with A less than B, entries A to B-1 counted from 0"
            raise UsageProblem(reason=reason)
        if int(end) > template.entries:
            raise UsageProblem(reason=f"--range {to.piece}: ends after the {units.number(template.entries)} entries")
        part = dit.Range(int(first), int(end))
    compress = compression(to.compress, streamed)
    jobs = to.jobs or defaults.processors()
    options = GenerateOptions(recipe, template, part, jobs, compress, to.shard_entries)
    if streamed:
        is_plain = compress == "none"
        stdout = standard.output("LDIF" if is_plain else "compressed LDIF", readable=is_plain)
        to_stream(options, stdout, shown.progress)
        return
    done = to_directory(options, Path(to.output), shown.progress, to.restart)
    facts = {"output": to.output, **done.report}
    note(facts)
    show_report(done.report if shown.as_json else facts, shown.as_json)
