"""`ditseed generate` as an operator meets it: output, exit status, errors and hints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from loader.errors import NoSuchPath, NoSuchTemplate, OutputNotEmpty, TemplateError, UsageProblem

DITSEED = str(Path(sys.executable).with_name("ditseed"))


def ditseed(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([DITSEED, "generate", *arguments], capture_output=True, check=False, timeout=300)


def whole(*arguments: str) -> bytes:
    done = ditseed("people", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_pieces_join_to_the_whole() -> None:
    pieces = [whole("-n", "100", "--range", piece) for piece in ("0:30", "30:31", "31:102")]
    assert b"".join(pieces) == whole("-n", "100", "--jobs", "1")


@pytest.mark.long
def test_seed_and_suffix_and_operational_change_the_entries() -> None:
    texts = {whole("-n", "5", *more) for more in ([], ["--seed", "2"], ["--suffix", "o=other"], ["--operational"])}
    assert len(texts) == 4


def test_stdout_compressed() -> None:
    packed = whole("-n", "50", "--compress", "zstd")
    assert zstandard.decompress(packed, max_output_size=1 << 20) == whole("-n", "50")


@pytest.mark.long
def test_show_prints_the_entry_that_is_generated() -> None:
    done = ditseed("show", "people", "17", "--seed", "3")
    assert done.stdout.startswith(b"dn: uid=u000000015,")
    assert done.stdout == whole("-n", "1000", "--range", "17:18", "--seed", "3")
    assert ditseed("show", "people", "0").stdout.startswith(b"dn: dc=example,dc=com\n")


def test_a_template_of_makeldif_is_shown_as_it_is_converted(tmp_path: Path) -> None:
    template = str(Path(__file__).parents[2] / "fixtures" / "makeldif" / "users.template")
    options = ["--define", "numusers=7", "--suffix", "o=else"]
    shown, made = ditseed("show", template, *options), ditseed(template, *options)
    assert b"\ncount = 7\n" in shown.stdout
    assert made.stdout.count(b"\nuid: user.") == 7
    (tmp_path / "shown.toml").write_bytes(shown.stdout)
    assert ditseed(str(tmp_path / "shown.toml"), "--suffix", "o=else").stdout == made.stdout


def test_the_shipped_templates_are_listed() -> None:
    assert b"\npeople    inetOrgPerson" in ditseed("templates").stdout
    assert "people" in json.loads(ditseed("templates", "--json").stdout)["templates"]


def test_a_directory_and_its_report(tmp_path: Path) -> None:
    done = ditseed("people", "-n", "40", "-o", str(tmp_path / "x"), "--json")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert report.pop("report") == 1
    assert report["entries"] == 42
    assert report == json.loads((tmp_path / "x" / "manifest.json").read_text())
    assert b"shards: 42 entries" in done.stderr


def test_a_template_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(
        '[[kinds]]\nname = "host"\nrdn = "cn"\n[kinds.attributes]\nobjectClass = "device"\ncn = "h{number}"\n'
    )
    done = ditseed("show", str(path), "8")
    assert done.stdout == b"dn: cn=h7,dc=example,dc=com\nobjectClass: device\ncn: h7\n\n"


def test_a_reader_that_has_seen_enough() -> None:
    command = f"{DITSEED} generate people -n 1000000 --progress none | head -1"
    done = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"], capture_output=True, check=False, timeout=300
    )
    assert done.stdout == b"dn: dc=example,dc=com\n"
    assert done.returncode == 141
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (
            ["poeple", "-n", "1"],
            NoSuchTemplate.exit_status,
            "ditseed comes with these templates: accounts, campus, people, worst",
        ),
        (["people"], UsageProblem.exit_status, "say how many entries"),
        (["people", "-n", "0"], UsageProblem.exit_status, "0 is not in the range"),
        (["people", "-n", "many"], UsageProblem.exit_status, "not a valid integer"),
        (["people", "--range", "5:6"], UsageProblem.exit_status, "say how many entries"),
        (["people", "-n", "9", "--range", "5"], UsageProblem.exit_status, "write A:B"),
        (["people", "-n", "9", "--range", "5:5"], UsageProblem.exit_status, "A less than B"),
        (["people", "-n", "9", "--range", "-1:5"], UsageProblem.exit_status, "write A:B"),
        (["people", "-n", "9", "--range", "5:12"], UsageProblem.exit_status, "ends after the 11"),
        (["people", "-n", "1", "--suffix", "x"], UsageProblem.exit_status, 'suffix "x"'),
        (["people", "-n", "1", "--define", "x"], UsageProblem.exit_status, "write NAME=VALUE"),
        (["people", "-n", "1", "--define", "a=b"], UsageProblem.exit_status, "only makeldif"),
        (["people", "-n", "1", "--seed", str(2**63)], UsageProblem.exit_status, "64 bits"),
        (["show", "people", "12", "-n", "10"], UsageProblem.exit_status, "entries 0 to 11"),
        (["show", "people", "-1"], UsageProblem.exit_status, ""),
        (["people", "-n", "1", "-o", "/proc/nowhere"], NoSuchPath.exit_status, "/proc/nowhere"),
        (["people", "-n", "1", "-o", "/dev/null"], UsageProblem.exit_status, "is a file"),
    ],
)
def test_bad_usage(arguments: list[str], status: int, words: str) -> None:
    done = ditseed(*arguments)
    said = done.stderr.decode()
    assert words in said
    assert "Traceback" not in said
    assert done.stdout == b""
    assert done.returncode == status


def test_a_template_with_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('[[kinds]]\nname = "x"\nrdn = "cn"\n[kinds.attributes]\ncn = "a{nmber}"\n')
    done = ditseed(str(path), "-n", "1")
    assert done.returncode == TemplateError.exit_status
    assert b"bad.toml: line 5, column 8: unknown tag {nmber} (did you mean number?)" in done.stderr


def test_a_directory_in_use_by_others(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_text("x")
    done = ditseed("people", "-n", "1", "-o", str(tmp_path))
    assert done.returncode == OutputNotEmpty.exit_status
    assert (tmp_path / "data.mdb").read_text() == "x"


def test_help_has_examples() -> None:
    done = ditseed("--help")
    assert b"Examples:" in done.stdout
    assert b"show people 17" in done.stdout
