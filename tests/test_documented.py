"""What an operator may have to look up can be looked up: errors, verbs, options, variables, pages."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click
import pytest

from fixtures.bench.__main__ import bench
from loader import errors
from loader.cli import manual, options
from loader.cli.options import names_of_all_verbs
from tests.support.verbs import COMMANDS, LEAVES, contexts
from tests.support.verbs import options as options_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BENCHES = contexts(click.Context(bench, info_name="bin/bench"))
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
CRATES = {path.parent.name for path in ROOT.glob("loader/native/*/Cargo.toml")}


def by_hand() -> list[Path]:
    generated = {DOCS / name for name in manual.documents()}
    pages = [*ROOT.glob("*.md"), ROOT / "schemas/README.md", *DOCS.glob("*.md")]
    return [path for path in pages if path not in generated]


def of_today() -> list[Path]:
    """The changelog may name what is gone."""
    return [path for path in by_hand() if path.name != "CHANGELOG.md"]


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def sections(text: str) -> list[tuple[str, str]]:
    """Each heading with what follows it, up to the next heading of any level."""
    plain = re.sub(r"^```.*?^```", lambda block: re.sub("^#", "", block[0], flags=re.M), text, flags=re.M | re.S)
    parts = re.split(r"^#+ (.*)$", plain, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def test_generated_pages_are_up_to_date_and_a_stale_one_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not manual.stale(), "run bin/make-docs"
    monkeypatch.setattr(manual, "DOCS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["make-docs", "--check"])
    with pytest.raises(SystemExit, match=r"run bin/make-docs: completion/_ditseed, completion/ditseed\.bash"):
        manual.main()
    assert list(tmp_path.iterdir()) == []
    manual.write()
    assert not manual.stale()
    (tmp_path / "errors.md").write_text("old")
    (tmp_path / "man" / "ditseed-gone.1").write_text("of a verb that is gone")
    (tmp_path / "completion" / "_ditseed").unlink()
    assert list(manual.stale()) == ["completion/_ditseed", "errors.md", "man/ditseed-gone.1"]
    manual.write()
    assert not manual.stale()


def test_every_error_is_in_the_list() -> None:
    """`test_errors.py` holds that codes and statuses do not clash."""
    text = (DOCS / "errors.md").read_text()
    kinds = errors.classes()
    assert len(kinds) > 40
    rows = re.findall(r"^\| (\d+) \| `([a-z_.]+)` \| ", text, re.MULTILINE)
    assert rows == [(str(kind.exit_status), kind.code) for kind in kinds]


@pytest.mark.parametrize("context", COMMANDS, ids=lambda context: context.command_path)
def test_every_command_has_a_sound_man_page_with_all_its_options(context: click.Context) -> None:
    """No control character of click's, no line that troff would take for a request of its own."""
    page = (DOCS / "man" / f"{context.command_path.replace(' ', '-')}.1").read_text()
    shown = page.replace("\\-", "-")
    for option in options_of(context):
        assert all(name in shown for name in option.opts), option.opts
    for one in manual.subcommands(context):
        assert f"\\fB{one.info_name}\\fP" in page
    assert "\b" not in page
    assert set(re.findall(r"^[.'](\S*)", page, re.MULTILINE)) <= {"TH", "SH", "PP", "TP", "B", "nf", "fi"}


@pytest.mark.parametrize("context", COMMANDS[1:], ids=lambda context: context.command_path)
def test_every_verb_is_in_a_page_that_somebody_wrote(context: click.Context) -> None:
    assert context.parent is not None
    verb = context if context.parent.parent is None else context.parent
    assert any(verb.command_path in path.read_text() for path in by_hand())


def test_every_variable_is_explained() -> None:
    explained = (DOCS / "index.md").read_text().partition("## Environment")[2]
    places = ("bin/*", "loader/**/*.py", "seeders/**/*.py", "fixtures/**/*.py", "tests/**/*.py")
    texts = [path.read_text() for place in places for path in ROOT.glob(place) if path.is_file()]
    used = {name for text in texts for name in re.findall(r"\b_?DITSEED_[A-Z_]*[A-Z]\b", text)}
    assert {"DITSEED_STATE_DIR", "DITSEED_TOOLS"} <= used
    of_options = {options.variable(name) for name in names_of_all_verbs()}  # by the rule that is explained
    assert sorted(used - of_options - set(re.findall(r"`(\w+)`", explained))) == []


def test_every_page_is_in_the_index() -> None:
    linked = set(re.findall(r"\]\((?!\.\.)([\w/.-]+)\)", (DOCS / "index.md").read_text()))
    assert {path.name for path in DOCS.iterdir()} - {"index.md"} == linked


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    titles = [re.sub(r"\]\([^)]*\)", "", title) for title, _ in sections(page.read_text())]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", by_hand(), ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text()):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), f"{target}#{anchor}"


def commands_in(text: str, name: str) -> list[str]:
    """`NAME VERB ...` in blocks of code and in the middle of sentences, continued lines joined."""
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines += [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
    parts = [part.strip(" $") for line in lines for part in re.split(r" [#|>] |  +|; |\"", line)]
    return [part for part in parts if part.startswith(f"{name} ")]


def lacking(line: str, commands: list[click.Context]) -> set[str]:
    """Verbs and options of the line that do not exist."""
    words = line.split()
    context = max(
        (one for one in commands if f"{line} ".startswith(f"{one.command_path} ")),
        key=lambda one: len(one.command_path),
    )
    known = {
        name
        for one in contexts(context)
        for option in one.command.get_params(one)
        for name in (*option.opts, *option.secondary_opts)
    }
    unknown = {word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)} - known
    if context.parent is None and re.match(r"[a-z]", words[-1 if len(words) == 1 else 1]):
        unknown.add(words[1])
    return unknown


@pytest.mark.parametrize("page", of_today(), ids=page_id)
def test_verbs_and_options_in_examples_exist(page: Path) -> None:
    """An example with an option that has been renamed helps nobody."""
    for name, commands in (("ditseed", COMMANDS), ("bin/bench", BENCHES)):
        for line in commands_in(page.read_text(), name):
            assert not lacking(line, commands), line


def test_what_is_gone_is_noticed() -> None:
    text = "`ditseed build --gone`\n```\n$ ditseed bulid x | ditseed -q verify --verify\\\n   a\n```\n"
    lines = commands_in(text, "ditseed")
    assert [lacking(line, COMMANDS) for line in lines] == [{"bulid"}, set(), {"--gone"}]
    text = "`mdb.damaged` (exit status 53), `[server.gone]`, `run.log`\n| 54 | `mdb.damaged` | x |\n"
    assert wrong_codes(text) == ["server.gone", "mdb.damaged 53"]
    text = "# A\n\n`bin/bench x`, 2026-11-21\n\n|---|\n## B\n`bin/bench x`\n|---|\n## C\n2026-11-21\n|---|\n"
    assert undated_tables(text) == ["B", "C"]
    text = "`mdb/copy.py`, loader/{plain,gone}.py, `backmdb/changes/`, `backmdb/gone/`, `reorder.rs`, gone.rs"
    assert [path for path in paths_in(text) if not is_there(path)] == ["gone.rs", "backmdb/gone/", "loader/gone.py"]


STATUSES = {kind.code: kind.exit_status for kind in errors.classes()}
CODE = r"`\[?((?:" + "|".join({code.partition(".")[0] for code in STATUSES if "." in code}) + r")\.[a-z_]+)\]?`"
FILES = (".py", ".rs", ".md", ".json", ".ldif", ".mdb", ".log", ".toml")


def wrong_codes(text: str) -> list[str]:
    """Codes that there are not, and codes beside an exit status that is not theirs."""
    codes = [code for code in re.findall(CODE, text) if not code.endswith(FILES)]
    pairs = [
        *re.findall(CODE + r"[^`|\n]{0,20}exit status (\d+)", text),
        *(pair[::-1] for pair in re.findall(r"^\| (\d+) \| " + CODE, text, re.MULTILINE)),
    ]
    unknown = [code for code in codes if code not in STATUSES]
    return unknown + [" ".join(pair) for pair in pairs if str(STATUSES.get(pair[0])) != pair[1]]


@pytest.mark.parametrize("page", of_today(), ids=page_id)
def test_error_codes_and_exit_statuses_exist(page: Path) -> None:
    """Also statuses in tables of errors that name no code."""
    text, known = page.read_text(), {*STATUSES.values(), *range(4)}
    assert wrong_codes(text) == []
    for table in re.findall(r"^\| status \|.*\n((?:\|.*\n)+)", text, re.MULTILINE):
        told = {int(one) for row in re.findall(r"^\| ([\d, ]+) \|", table, re.M) for one in row.split(",")}
        assert set() < told <= known


def undated_tables(text: str) -> list[str]:
    """Headings of sections that hold a table and lack the command that made it, or its date."""
    command = r"`(?:\./)?bin/|^(?:\./)?bin/|pytest "
    return [
        title
        for title, body in sections(text)
        if re.search(r"^\|---", body, re.MULTILINE)
        and not (re.search(command, body, re.MULTILINE) and re.search(r"20\d\d-\d\d-\d\d", body))
    ]


def test_every_figure_has_a_command_and_a_date() -> None:
    performance, comparison = ((DOCS / name).read_text() for name in ("performance.md", "comparison.md"))
    assert undated_tables(performance) == undated_tables(comparison) == []
    summary = dict(sections(performance))["Summary"]
    for row in re.findall(r"^\| \[.*$", summary, re.MULTILINE):
        assert re.search(r"\| `[^`]+` \| 20\d\d-\d\d-\d\d \|$", row), row


def is_there(path: str) -> bool:
    """As a reader looks for it: below the root, a package, the native core, or one of its crates."""
    crate, _, rest = path.partition("/")
    places = [path, f"loader/{path}", f"seeders/{path}", f"loader/native/{path}"]
    if crate in CRATES:
        places.append(f"loader/native/{crate}/src/{rest}")
    return any((ROOT / place).exists() for place in places) or any(ROOT.glob(f"loader/native/*/src/**/{path}"))


def paths_in(text: str) -> list[str]:
    """Files by their suffix, directories of code by the slash at their end; {a,b} written out."""
    found = re.findall(r"(?<![\w/{}.-])((?:[\w.-]+/)*(?:\{[\w,]+\}|[\w-]+)\.(?:pyi?|rs|cfg|toml))\b", text)
    found += re.findall(r"`((?:[a-z_]+/)+)`", text)
    alternatives = [re.match(r"(.*)\{(.*)\}(.*)", path) for path in found]
    return [path for path in found if "{" not in path] + [
        match[1] + one + match[3] for match in alternatives if match for one in match[2].split(",")
    ]


def test_paths_in_the_architecture_exist() -> None:
    paths = paths_in(ARCHITECTURE)
    assert len(paths) > 80
    assert [path for path in paths if not is_there(path)] == []


def test_the_architecture_lists_every_crate() -> None:
    block = ARCHITECTURE.partition("## The native core")[2].partition("```\n")[2].partition("```")[0]
    assert set(re.findall(r"^  (\w+)/ ", block, re.MULTILINE)) == CRATES


WALKS = ARCHITECTURE.partition("## A walk of each verb")[2].partition("\n## ")[0]


def walks() -> dict[str, list[Path]]:
    """Verb -> the files of its line, in order, without those that only an option leads to."""
    lines = re.findall(r"^\| `([^`]+)` \|(.*?)(?:; with --.*)?\|$", WALKS, re.MULTILINE)
    return {
        verb: [
            ROOT / (path if path.startswith("seeders/") else f"loader/{path}")
            for path in re.findall(r"`([\w/]+\.py)`", line)
        ]
        for verb, line in lines
    }


def test_every_verb_has_a_walk_through_the_code() -> None:
    assert set(walks()) == {one.command_path.removeprefix("ditseed ") for one in LEAVES}


def follows(path: Path, before: list[Path]) -> bool:
    """One of those before imports it, whole or a name of it."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    package, _, name = module.rpartition(".")
    imported = rf"(from {re.escape(module)} import|from {re.escape(package)} import [^)]*?\b{name}\b)"
    return any(re.search(imported, one.read_text()) for one in before)


@pytest.mark.parametrize("verb", walks())
def test_a_walk_leads_from_file_to_file(verb: str) -> None:
    files = walks()[verb]
    assert 2 <= len(files) <= 6
    assert all(path.exists() for path in files)
    for number, path in enumerate(files[1:], 1):
        assert follows(path, files[:number]), path
