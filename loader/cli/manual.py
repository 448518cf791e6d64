"""Generates documents from the code: man pages, shell completions, and the list of errors.

    bin/make-docs [--check]

No verb uses this module; it needs click-man, from the `test` extra.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click
from click_man.man import ManPage

from loader import errors
from loader.cli import ditseed
from loader.cli.completion_cmd import script

DOCS = Path(__file__).parents[2] / "docs"
# Shell -> name of its completion script for `ditseed`.
SHELLS = {"bash": "ditseed.bash", "zsh": "_ditseed", "fish": "ditseed.fish"}
GENERATED = ("errors.md", "man/*", "completion/*")
_ERRORS_HEAD = """\
# Errors

ditseed prints an error to stderr as `ditseed: MESSAGE [CODE]`, followed by a `hint:` that says what to do. Codes and
exit statuses keep their meaning from version to version, so scripts may rely on them. `bin/make-docs` writes this page
from `loader/errors.py`.

`ditseed explain CODE` prints the row of a code or of an exit status.

| exit status | meaning |
|---|---|
{statuses}

{plugins}

| exit status | code | message | hint |
|---|---|---|---|
"""


def documents() -> dict[str, str]:
    """Maps the path of each document, relative to docs/, to its content."""
    return {
        "errors.md": error_list(),
        **{f"man/{name}.1": text for name, text in man_pages(click.Context(ditseed, info_name="ditseed"))},
        **{f"completion/{name}": script(shell) for shell, name in SHELLS.items()},
    }


def error_list() -> str:
    rows = []
    for kind in errors.classes():
        cells = (str(kind.exit_status), f"`{kind.code}`", _cell(kind.message), _cell(kind.general_hint()))
        rows.append(f"| {' | '.join(cells)} |\n")
    statuses = "\n".join(f"| {status} | {meaning} |" for status, meaning in errors.STATUSES.items())
    return _ERRORS_HEAD.format(statuses=statuses, plugins=errors.PLUGINS) + "".join(rows)


def _cell(text: str) -> str:
    """Returns a message as Markdown, with its placeholders in italics."""
    return re.sub(r"\{(\w+)\}", r"*\1*", text.replace("|", "\\|").replace("*", "\\*"))


def man_pages(context: click.Context) -> Iterator[tuple[str, str]]:
    """Yields (name, troff text) for a command and all its subcommands."""
    yield context.command_path.replace(" ", "-"), _man_page(context)
    for below in subcommands(context):
        yield from man_pages(below)


def subcommands(context: click.Context) -> list[click.Context]:
    """Returns the contexts of a group's commands, without hidden ones."""
    group = context.command
    if not isinstance(group, click.Group):
        return []
    commands = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    return [
        click.Context(command, info_name=name, parent=context)
        for name, command in commands
        if command is not None and not command.hidden
    ]


def _man_page(context: click.Context) -> str:
    command = context.command
    page = ManPage(context.command_path)
    page.version = version("ditseed")
    page.date = ""  # so that the same commands always make the same page
    page.short_help = _escaped(command.get_short_help_str(200))
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    text = inspect.cleandoc(command.help or "") + (f"\n\n{command.epilog}" if command.epilog else "")
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        first, *rest = paragraph.split("\n")
        # Neither click nor troff may rewrap a paragraph that begins with \b.
        filled = [".nf", *map(_escaped, rest), ".fi"] if first.strip() == "\b" else map(_escaped, [first, *rest])
        lines += [".PP", *filled]
    page.description = "\n".join(lines[1:])
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    page.options = [(record[0], _escaped(record[1])) for record in records if record is not None]
    page.commands = [
        (below.info_name, _escaped(below.command.get_short_help_str(200))) for below in subcommands(context)
    ]
    return str(page)


def _escaped(line: str) -> str:
    """Escapes a line for troff: it is not taken for a control line, and its hyphens are copied as ASCII hyphens."""
    guard = "\\&" if line.startswith((".", "'")) else ""
    return guard + line.replace("\\", "\\e").replace("-", "\\-")


def stale() -> dict[str, str | None]:
    """Maps the names of stale documents to their new texts; to None if the file must be removed."""
    expected = documents()
    present = {str(path.relative_to(DOCS)): path.read_text() for pattern in GENERATED for path in DOCS.glob(pattern)}
    names = sorted(expected.keys() | present.keys())
    return {name: expected.get(name) for name in names if expected.get(name) != present.get(name)}


def write() -> None:
    """Writes or removes stale documents, and prints their names."""
    for name, text in stale().items():
        if text is None:
            (DOCS / name).unlink()
        else:
            (DOCS / name).parent.mkdir(exist_ok=True)
            (DOCS / name).write_text(text)
        print(name)


def main() -> None:
    if "--check" not in sys.argv[1:]:
        write()
    elif names := stale():
        sys.exit("stale, run bin/make-docs: " + ", ".join(names))


if __name__ == "__main__":
    main()
