"""What an operator may have to look up can be looked up: errors, verbs, options, variables, pages."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from loader.cli import ditseed, manual
from loader.errors import LoaderError

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def contexts(above: click.Context) -> list[click.Context]:
    below = manual.subcommands(above)
    return [above, *(one for context in below for one in contexts(context))]


COMMANDS = contexts(click.Context(ditseed, info_name="ditseed"))


def by_hand() -> list[Path]:
    """Pages that somebody wrote."""
    generated = {DOCS / name for name in manual.documents()}
    return [*ROOT.glob("*.md"), *(path for path in DOCS.glob("*.md") if path not in generated)]


def test_generated_pages_are_up_to_date() -> None:
    assert manual.stale() == [], "run bin/make-docs"


def test_a_stale_page_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manual, "DOCS", tmp_path)
    manual.write()
    assert manual.stale() == []
    (tmp_path / "errors.md").write_text("old")
    (tmp_path / "man" / "ditseed-gone.1").write_text("of a verb that is gone")
    (tmp_path / "completion" / "_ditseed").unlink()
    assert manual.stale() == ["completion/_ditseed", "errors.md", "man/ditseed-gone.1"]
    manual.write()
    assert manual.stale() == []


def test_check_fails_without_writing(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from loader.cli import manual;"
        f"manual.DOCS = Path({str(tmp_path)!r}); sys.argv = ['x', '--check']; manual.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "run bin/make-docs: completion/_ditseed, completion/ditseed.bash" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_every_error_is_in_the_list() -> None:
    """`test_errors.py` holds that codes and statuses do not clash."""
    text = (DOCS / "errors.md").read_text()
    kinds: list[type[LoaderError]] = manual.error_classes()
    assert len(kinds) > 40
    rows = re.findall(r"^\| (\d+) \| `([a-z_.]+)` \| ", text, re.MULTILINE)
    assert rows == [(str(kind.exit_status), kind.code) for kind in kinds]


@pytest.mark.parametrize("context", COMMANDS, ids=lambda context: context.command_path)
def test_every_command_has_a_man_page_with_all_its_options(context: click.Context) -> None:
    page = (DOCS / "man" / f"{context.command_path.replace(' ', '-')}.1").read_text()
    shown = page.replace("\\-", "-")
    for option in context.command.get_params(context):
        if isinstance(option, click.Option) and not option.hidden:
            assert all(name in shown for name in option.opts), option.opts
    for one in manual.subcommands(context):
        assert f"\\fB{one.info_name}\\fP" in page


def test_man_pages_are_sound() -> None:
    """No control character of click's, no line that troff would take for a request of its own."""
    for path in (DOCS / "man").glob("*.1"):
        text = path.read_text()
        assert "\b" not in text, path.name
        requests = set(re.findall(r"^[.'](\S*)", text, re.MULTILINE))
        assert requests <= {"TH", "SH", "PP", "TP", "B", "nf", "fi"}, path.name


@pytest.mark.parametrize("context", COMMANDS[1:], ids=lambda context: context.command_path)
def test_every_verb_is_in_a_page_that_somebody_wrote(context: click.Context) -> None:
    assert context.parent is not None
    verb = context if context.parent.parent is None else context.parent
    assert any(verb.command_path in path.read_text() for path in by_hand())


def test_every_variable_is_explained() -> None:
    explained = (DOCS / "index.md").read_text().partition("## Environment")[2]
    places = ("bin/*", "loader/**/*.py", "seeders/**/*.py", "fixtures/**/*.py", "tests/**/*.py")
    used = {
        name
        for place in places
        for path in ROOT.glob(place)
        if path.is_file()
        for name in re.findall(r"\b_?DITSEED_[A-Z_]*[A-Z]\b", path.read_text())
    }
    assert {"DITSEED_STATE_DIR", "DITSEED_TOOLS"} <= used
    assert sorted(used - set(re.findall(r"`(\w+)`", explained))) == []


def test_every_page_is_in_the_index() -> None:
    linked = re.findall(r"\]\(([\w/.-]+)\)", (DOCS / "index.md").read_text())
    assert {path.name for path in DOCS.iterdir()} - {"index.md"} == {
        name for name in linked if not name.startswith("..")
    }


@pytest.mark.parametrize("page", by_hand(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text()):
        assert (page.parent / target).exists(), target


def commands_in(text: str) -> list[str]:
    """`ditseed VERB ...` at the beginning of a line of code, continued lines joined."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [re.split(r" [#|] ", line)[0] for line in lines if line.startswith("ditseed ")]


@pytest.mark.parametrize("page", by_hand(), ids=lambda page: str(page.relative_to(ROOT)))
def test_options_in_examples_exist(page: Path) -> None:
    """An example with an option that has been renamed helps nobody."""
    for line in commands_in(page.read_text()):
        words = line.split()
        context = max(
            (one for one in COMMANDS if f"{line} ".startswith(f"{one.command_path} ")),
            key=lambda one: len(one.command_path),
        )
        known = {
            name
            for one in contexts(context)
            for option in one.command.get_params(one)
            for name in option.opts
        }
        unknown = {word for word in words if re.match(r"--?[a-zA-Z]", word)} - known
        assert not unknown, line


def test_the_readers_entrance_names_what_is_there() -> None:
    paragraph = (ROOT / "README.md").read_text().partition("## Reader's entrance")[2]
    paragraph = paragraph.partition("\n## ")[0]
    paths = re.findall(r"`((?:loader|bin)/[\w/.]+)", paragraph)
    assert len(paths) >= 5
    assert [path for path in paths if not (ROOT / path).exists()] == []
