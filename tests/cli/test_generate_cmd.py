"""`ditseed generate` as an operator meets it: output, exit status, errors and hints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import zstandard

from loader.errors import NoSuchPath, NoSuchTemplate, OutputNotEmpty, TemplateError, UsageProblem
from tests.support import command
from tests.support.command import Done


def ditseed(*arguments: object) -> Done:
    return command.ditseed("generate", *arguments)


def test_stdout_compressed() -> None:
    words = ("generate", "people", "-n", 50, "--compress", "zstd")
    packed, _ = command.start(*words, text=False).communicate()
    assert zstandard.decompress(packed, max_output_size=1 << 20).decode() == ditseed("people", "-n", 50).ok().out


@pytest.mark.long
def test_show_prints_the_entry_that_is_generated() -> None:
    done = ditseed("show", "people", "17", "--seed", "3")
    assert done.out.startswith("dn: uid=u000000015,")
    assert done.out == ditseed("people", "-n", 1000, "--range", "17:18", "--seed", 3, "--jobs", 1).ok().out
    assert ditseed("show", "people", "0").out.startswith("dn: dc=example,dc=com\n")


def test_a_template_of_makeldif_is_shown_as_it_is_converted(tmp_path: Path) -> None:
    template = str(Path(__file__).parents[2] / "fixtures" / "makeldif" / "users.template")
    options = ["--define", "numusers=7", "--suffix", "o=else"]
    shown, made = ditseed("show", template, *options), ditseed(template, *options)
    assert "\ncount = 7\n" in shown.out
    assert made.out.count("\nuid: user.") == 7
    (tmp_path / "shown.toml").write_text(shown.out)
    assert ditseed(str(tmp_path / "shown.toml"), "--suffix", "o=else").out == made.out


def test_the_shipped_templates_are_listed() -> None:
    assert "\npeople    inetOrgPerson" in ditseed("templates").out
    listed = ditseed("templates", "--json").ok().facts
    assert "people" in listed["templates"]
    assert listed["report"] == 1, "the version of reports"


def test_a_directory_and_its_report(tmp_path: Path) -> None:
    done = ditseed("people", "-n", "40", "-o", str(tmp_path / "x"), "--json")
    report = done.ok().facts
    assert report.pop("report") == 1
    assert report["entries"] == 42
    assert report == json.loads((tmp_path / "x" / "manifest.json").read_text())
    assert "shards: 42 entries" in done.err


USAGE = UsageProblem.exit_status


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["poeple", "-n", "1"], NoSuchTemplate.exit_status, "a template of ditseed (accounts, campus, people, worst)"),
        (["people"], USAGE, "say how many entries"),
        (["people", "-n", "0"], USAGE, "0 is not in the range"),
        (["people", "--range", "5:6"], USAGE, "say how many entries"),
        (["people", "-n", "9", "--range", "5"], USAGE, "write A:B"),
        (["people", "-n", "9", "--range", "5:5"], USAGE, "A less than B"),
        (["people", "-n", "9", "--range", "-1:5"], USAGE, "write A:B"),
        (["people", "-n", "9", "--range", "5:12"], USAGE, "ends after the 11"),
        (["people", "-n", "1", "--suffix", "x"], USAGE, 'suffix "x"'),
        (["people", "-n", "1", "--define", "x"], USAGE, "write NAME=VALUE"),
        (["people", "-n", "1", "--define", "a="], USAGE, "only makeldif"),
        (["people", "-n", "1", "--seed", str(2**63)], USAGE, "64 bits"),
        (["show", "people", "12", "-n", "10"], USAGE, "entries 0 to 11"),
        (["show", "people", "-1"], USAGE, ""),
        (["people", "-n", "1", "-o", "/proc/nowhere"], NoSuchPath.exit_status, "/proc/nowhere"),
        (["people", "-n", "1", "-o", "/dev/null"], USAGE, "is a file"),
    ],
)
def test_bad_usage(arguments: list[str], status: int, words: str) -> None:
    done = ditseed(*arguments)
    assert (done.status, done.out) == (status, "")
    assert words in done.err
    assert "Traceback" not in done.err


def test_a_template_with_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('[[kinds]]\nname = "x"\nrdn = "cn"\n[kinds.attributes]\ncn = "a{nmber}"\n')
    ditseed(path, "-n", "1").refused(
        TemplateError, "bad.toml: line 5, column 8: unknown tag {nmber} (did you mean number?)"
    )


def test_a_directory_in_use_by_others(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_text("x")
    ditseed("people", "-n", "1", "-o", str(tmp_path)).refused(OutputNotEmpty)
    assert (tmp_path / "data.mdb").read_text() == "x"
