"""Writes the documents that follow from the code: man pages and completions from the commands, the list of errors.

    bin/make-docs [--check]

Not part of a run of ditseed: needs click-man, of the `test` extra.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click
from click.shell_completion import get_completion_class
from click_man.man import ManPage

from loader import errors
from loader.cli import ditseed
from loader.errors import LoaderError

DOCS = Path(__file__).parents[2] / "docs"
# Shell -> the file where it looks for the completion of `ditseed`.
SHELLS = {"bash": "ditseed.bash", "zsh": "_ditseed", "fish": "ditseed.fish"}
GENERATED = ("errors.md", "man/*", "completion/*")
_ERRORS_HEAD = """\
# Errors

ditseed prints an error to stderr as `ditseed: MESSAGE [CODE]`, followed by a `hint:` that says what to do. Codes and
exit statuses keep their meaning from version to version, so scripts may rely on them. `bin/make-docs` writes this page
from `loader/errors.py`.

| exit status | meaning |
|---|---|
| 0 | success |
| 1 | done, but something was rejected or differs (`compare`, `replica verify`), or is not sound (`verify`) |
| 2 | an error that is not in the table below |
| 3 to 125 | an error of the table below; 3: the command line is wrong |
| 128 + n | ended by signal n: 129 SIGHUP, 130 Ctrl-C, 141 the reader of the output has ended (SIGPIPE), 143 SIGTERM |

`backup check` is a monitoring plugin, and has the exit statuses of one: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.

| exit status | code | message | hint |
|---|---|---|---|
"""


def documents() -> dict[str, str]:
    """Path below docs/ -> content."""
    return {
        "errors.md": error_list(),
        **{f"man/{name}.1": text for name, text in man_pages(click.Context(ditseed, info_name="ditseed"))},
        **{f"completion/{name}": completion(shell) for shell, name in SHELLS.items()},
    }


def error_classes() -> list[type[LoaderError]]:
    """All but the base, in the order of their exit statuses."""
    found = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    ours = [kind for kind in found if issubclass(kind, LoaderError) and kind is not LoaderError]
    return sorted(ours, key=lambda kind: kind.exit_status)


def error_list() -> str:
    rows = [
        f"| {kind.exit_status} | `{kind.code}` | {_cell(kind.message)} | {_cell(_hint(kind))} |"
        for kind in error_classes()
    ]
    return _ERRORS_HEAD + "\n".join(rows) + "\n"


def _hint(kind: type[LoaderError]) -> str:
    other = kind.hint_without_run
    return (kind.hint or "") + (f" Verbs that keep no run: {other}" if other else "")


def _cell(text: str) -> str:
    """Markdown of a message: its facts in italics."""
    return re.sub(r"\{(\w+)\}", r"*\1*", text.replace("|", "\\|").replace("*", "\\*"))


def completion(shell: str) -> str:
    kind = get_completion_class(shell)
    assert kind is not None
    return kind(ditseed, {}, "ditseed", "_DITSEED_COMPLETE").source()


def man_pages(context: click.Context) -> Iterator[tuple[str, str]]:
    """(name, troff) of a command and of all below it."""
    below = subcommands(context)
    yield context.command_path.replace(" ", "-"), _man_page(context, below)
    for one in below:
        yield from man_pages(one)


def subcommands(context: click.Context) -> list[click.Context]:
    """What stands below a group, hidden ones left out."""
    group = context.command
    if not isinstance(group, click.Group):
        return []
    found = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    return [
        click.Context(command, info_name=name, parent=context)
        for name, command in found
        if command is not None and not command.hidden
    ]


def _man_page(context: click.Context, below: list[click.Context]) -> str:
    command = context.command
    page = ManPage(context.command_path)
    page.version = version("ditseed")
    page.date = ""  # of the version, and so that the same commands make the same page
    page.short_help = _escaped(command.get_short_help_str(200))
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    told = inspect.cleandoc(command.help or "") + (f"\n\n{command.epilog}" if command.epilog else "")
    page.description = "\n".join(_troff(told))
    records = [one.get_help_record(context) for one in command.get_params(context)]
    page.options = [(one[0], _escaped(one[1])) for one in records if one is not None]
    page.commands = [(one.info_name, _escaped(one.command.get_short_help_str(200))) for one in below]
    return str(page)


def _troff(text: str) -> Iterator[str]:
    """Paragraphs are filled, those that click leaves as they are (after a \\b) are not."""
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield ".PP"
        lines = paragraph.split("\n")
        verbatim = lines[0].strip() == "\b"
        yield from [".nf"] * verbatim
        yield from (_escaped(line) for line in lines[verbatim:])
        yield from [".fi"] * verbatim


def _escaped(line: str) -> str:
    """A line that troff takes as text: no control line, and a hyphen that can be copied as an option."""
    guard = "\\&" if line.startswith((".", "'")) else ""
    return guard + line.replace("\\", "\\e").replace("-", "\\-")


def stale() -> list[str]:
    """Documents that are not as the code would write them; also those that nothing writes any more."""
    wanted = documents()
    there = {str(path.relative_to(DOCS)) for one in GENERATED for path in DOCS.glob(one)}
    changed = {name for name in wanted.keys() & there if (DOCS / name).read_text() != wanted[name]}
    return sorted(changed | (wanted.keys() ^ there))


def write() -> None:
    wanted = documents()
    for name in stale():
        path = DOCS / name
        if name not in wanted:
            path.unlink()
            continue
        path.parent.mkdir(exist_ok=True)
        path.write_text(wanted[name])


def main() -> None:
    found = stale()
    if "--check" not in sys.argv[1:]:
        write()
        print("\n".join(found))
    elif found:
        sys.exit("stale, run bin/make-docs: " + ", ".join(found))


if __name__ == "__main__":
    main()
