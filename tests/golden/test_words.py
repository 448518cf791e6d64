"""Words of slapd.conf and cn=config against slaptest, which says in a complaint what it understood."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixtures.slapd_config import Installation
from loader import values as words
from loader.server import tools

pytestmark = pytest.mark.slapd

Cut = Callable[[str], list[str]]
_COMPLAINT = re.compile(
    r'index attribute "(?P<only>.*)" undefined|index type "(?P<second>.*)" undefined|(?P<more>extra cruft)'
    r"|(?P<none>missing <)|(?P<open>unterminated quoted)"
)


def values(seed: int, count: int) -> Iterator[str]:
    """What follows `index`: names that no schema has, so that slapd complains of the words it found."""
    choice = random.Random(seed)
    for _ in range(count):
        yield "z" + "".join(choice.choices('zzz""  \\', k=choice.randint(1, 12)))


def complaint(form: str, place: Path) -> re.Match[str] | None:
    done = subprocess.run(tools.server_tool("slaptest", "-u", form, str(place)), capture_output=True, check=False)
    assert done.returncode
    return _COMPLAINT.search(done.stderr.decode())


def told(found: re.Match[str]) -> tuple[str, str]:
    """Which complaint, and the word it names."""
    kind = found.lastgroup or ""
    return kind, found[kind]


def expected(said: list[str]) -> tuple[str, str]:
    """The same of words. A default is configured before: a name alone is complained of, too."""
    if len(said) > 2:
        return "more", "extra cruft"
    return ("only", said[0]) if len(said) == 1 else ("second", said[1])


def preamble(home: Path) -> str:
    lines = (
        f"include {Installation().schema}/core.schema",
        f"modulepath {Installation().modules}",
        *("moduleload back_mdb", "database mdb", "suffix o=x", f"directory {home}"),
        "index default eq",
    )
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.long("0")
@pytest.mark.parametrize("seed", range(2))
def test_lines(tmp_path: Path, seed: int) -> None:
    conf = tmp_path / "slapd.conf"
    kinds = set()
    for value in values(seed, 60):
        conf.write_text(preamble(tmp_path) + f"index {value}\n")
        found = complaint("-f", conf)
        said = words.of_line(value)
        if found and found.lastgroup != "open" and all(said):
            kinds.add(found.lastgroup)
            assert told(found) == expected(said), value
    assert kinds >= {"only", "second", "more"}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_values(tmp_path: Path, seed: int) -> None:
    conf, directory = tmp_path / "slapd.conf", tmp_path / "slapd.d"
    conf.write_text(preamble(tmp_path))
    directory.mkdir()
    subprocess.run(
        tools.server_tool("slapcat", "-n0", "-f", str(conf), "-F", str(directory)), capture_output=True, check=True
    )
    entry = directory / "cn=config" / "olcDatabase={1}mdb.ldif"
    before, kinds = entry.read_text(), set()
    for value in values(seed, 60):
        entry.write_text(f"{before}olcDbIndex: {value}\n")
        found = complaint("-F", directory)
        said = words.of_value(value)
        if found and all(said):
            kinds.add(found.lastgroup)
            assert told(found) == expected(said), value
    assert kinds >= {"only", "second", "more"}
