"""However a setting is spelt, slapadd and ditseed take it for the same: what is built is equal, table by table."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.golden import spellings
from fixtures.golden.case import settings, tree
from fixtures.golden.configured import many
from fixtures.golden.shapes import options
from fixtures.golden.spellings import ConfigSpelling
from fixtures.golden.syntaxes import each
from fixtures.golden.tables import differences
from fixtures.slapd import Slapd
from fixtures.slapd_config import Installation
from loader import config as words
from loader.defaults import ENGINES
from loader.server import tools
from tests.support.command import ditseed
from tests.support.golden import build, slapadd

pytestmark = pytest.mark.slapd

TREE = tree(many, each, options)


@pytest.fixture(scope="module")
def ldif(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tree") / "tree.ldif"
    path.write_text(TREE)
    return path


def mode(server: Slapd) -> int:
    return (server.database_dir / "data.mdb").stat().st_mode & 0o777


def assert_equal(ldif: Path, made: Callable[[], Slapd], *engines: str) -> None:
    """slapadd and each engine, on configurations alike; and our own verification agrees."""
    with closing(made()) as theirs:
        slapadd(theirs, ldif)
        for engine in engines:
            with closing(made()) as ours:
                build(ours, ldif, engine=engine).ok()
                assert not differences(theirs.database_dir, ours.database_dir, frozenset())
                assert mode(theirs) == mode(ours)
        where = ("--config", theirs.config_path, "-b", theirs.suffix)
        ditseed("verify", *where, "--verify", "indexes").ok()


@pytest.mark.rows(2)
@pytest.mark.long(*spellings.NOT_CONVERTED, "index-quoted", "sortvals")
@pytest.mark.parametrize("name", [*spellings.NOT_CONVERTED, *spellings.CONVERTED])
def test_lines_of_slapd_conf(name: str, ldif: Path) -> None:
    """By slapadd, too, where the conversion drops something."""
    engines = ENGINES if name in spellings.NOT_CONVERTED else ("native",)
    wanted = {**spellings.NOT_CONVERTED, **spellings.CONVERTED}[name]
    assert_equal(ldif, lambda: Slapd(wanted, form="conf"), *engines)


@pytest.mark.long
@pytest.mark.parametrize("name", spellings.IN_CONFIG)
def test_values_of_cn_config(name: str, ldif: Path) -> None:
    written = spellings.IN_CONFIG[name]
    assert_equal(ldif, lambda: rewritten(written), *ENGINES)


def rewritten(written: ConfigSpelling) -> Slapd:
    """A server with a slapd.d in which these values stand in the place of those of the same names."""
    server = Slapd(settings("cn,description eq", "gInteger eq"))
    [entry] = server.config_path.glob(written.entry)
    names = {value.partition(":")[0] for value in written.values}
    lines = entry.read_text().replace("\n ", "").splitlines()
    kept = [line for line in lines if line.partition(":")[0] not in names]
    facts = {"directory": server.database_dir, "modules": Installation().modules}
    entry.write_text("\n".join([*kept, *(one.format(**facts) for one in written.values), ""]))
    return server


@pytest.mark.long
def test_no_attribute_options_at_all(tmp_path: Path) -> None:
    """Not even lang-: such a line says nothing, and is lost in the conversion. slapadd refuses what has options."""
    wanted = settings("cn eq", top_lines=("attributeoptions",))
    bare, tagged = tmp_path / "bare.ldif", tmp_path / "tagged.ldif"
    bare.write_text(tree(each))
    tagged.write_text(tree(options))
    assert_equal(bare, lambda: Slapd(wanted, form="conf"), *ENGINES)
    with closing(Slapd(wanted, form="conf")) as ours:
        assert build(ours, tagged).status


@pytest.mark.long
def test_paths_with_spaces(ldif: Path, tmp_path: Path) -> None:
    """slapd writes them without quotes when it converts a slapd.conf, and reads them with quotes only."""
    place = tmp_path / "a  b\tc"
    place.mkdir()
    with closing(Slapd(settings("cn eq"), form="conf")) as server:
        text = server.config_path.read_text()
        server.config_path.write_text(text.replace(f"{server.database_dir}\n", f'"{place}"\n'))
        where = ("--config", server.config_path, "-b", server.suffix)
        for engine in ENGINES:
            build(server, ldif, "--replace", engine=engine).ok()
        ditseed("verify", *where, "--verify", "indexes").ok()
        told = ditseed("tune", "maxsize", *where, "--maxsize", "100M").ok().out
        assert f"\nmaxsize {100 << 20}\n" in told
        assert server.slapcat().count("dn: ") == TREE.count("dn:")


@pytest.mark.long
def test_a_database_in_nested_includes(ldif: Path, tmp_path: Path) -> None:
    """Its indexes stand two files down, between databases that slapd counts and sections that it does not."""
    deep, other = tmp_path / "indexes.conf", tmp_path / "other"
    other.mkdir()

    def made() -> Slapd:
        server = Slapd(settings("sn eq"), form="conf")
        head, section = server.config_path.read_text().split("database mdb\n")
        text = section.replace("index sn eq\n", f"include {deep}\n")
        inner = server.home / "my database.conf"
        inner.write_text(f"database mdb\n{text}")
        deep.write_text("# index cn sub\nINDEX cn,description\n\teq,subany,\\\nsubfinal\n")
        lines = ("database frontend", "database mdb", "suffix o=other")
        more = "".join(f"{line}\n" for line in (*lines, f"directory {other}", "index sn eq,subany"))
        server.config_path.write_text(f'{head}{more}include "{inner}"\n')
        return server

    assert_equal(ldif, made, *ENGINES)


_COMPLAINT = re.compile(
    r'index attribute "(?P<only>.*)" undefined|index type "(?P<second>.*)" undefined|(?P<more>extra cruft)'
    r"|(?P<none>missing <)|(?P<open>unterminated quoted)"
)


def values(seed: int, count: int) -> Iterator[str]:
    """What follows `index`: names that no schema has, so that slapd complains of the words it found."""
    choice = random.Random(seed)
    for _ in range(count):
        yield "z" + "".join(choice.choices('zzz""  \\', k=choice.randint(1, 12)))


def expected(said: list[str]) -> tuple[str, str]:
    """Which complaint, and the word it names. A default is configured before: a name alone is complained of, too."""
    if len(said) > 2:
        return "more", "extra cruft"
    return ("only", said[0]) if len(said) == 1 else ("second", said[1])


def preamble(home: Path) -> str:
    head = f"include {Installation().schema}/core.schema\nmodulepath {Installation().modules}\nmoduleload back_mdb\n"
    return f"{head}database mdb\nsuffix o=x\ndirectory {home}\nindex default eq\n"


@pytest.mark.long("0-line", "0-value", "1-value")
@pytest.mark.parametrize("form", ["line", "value"])
@pytest.mark.parametrize("seed", range(2))
def test_words(tmp_path: Path, seed: int, form: str) -> None:
    """Of a line in slapd.conf, of a value in cn=config."""
    conf, directory = tmp_path / "slapd.conf", tmp_path / "slapd.d"
    conf.write_text(preamble(tmp_path))
    place, name, split, where = conf, "index ", words.words_of_line, ("-f", str(conf))
    if form == "value":
        directory.mkdir()
        convert = tools.server_tool("slapcat", "-n0", "-f", str(conf), "-F", str(directory))
        subprocess.run(convert, capture_output=True, check=True)
        place, name, split = directory / "cn=config/olcDatabase={1}mdb.ldif", "olcDbIndex: ", words.words_of_value
        where = ("-F", str(directory))
    before, kinds = place.read_text(), set()
    for value in values(seed, 60):
        place.write_text(f"{before}{name}{value}\n")
        done = subprocess.run(tools.server_tool("slaptest", "-u", *where), capture_output=True, check=False)
        assert done.returncode
        found = _COMPLAINT.search(done.stderr.decode())
        said = split(value)
        if found and found.lastgroup != "open" and all(said):
            kinds.add(found.lastgroup)
            assert (found.lastgroup, found[found.lastgroup]) == expected(said), value
    assert kinds >= {"only", "second", "more"}
