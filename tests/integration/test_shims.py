"""The links of `ditseed shims`: each does what the original does, on two equal databases, except where it says so."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Installation
from loader import defaults
from loader.errors import DirectoryUnsafe, UsageProblem
from loader.server import tools
from tests.support.command import COMMAND, ditseed, environment

pytestmark = pytest.mark.slapd

SUFFIX = "dc=ex"
TOP = f"dn: {SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\no: ex\ndc: ex\n\n"
TOOLS = ("slapadd", "slapcat", "slapindex")


def person(name: str, sn: str | None = "s", more: str = "", above: str = SUFFIX) -> str:
    head = f"dn: uid={name},{above}\nobjectClass: inetOrgPerson\nuid: {name}\ncn: {name}\n"
    return head + (f"sn: {sn}\n" if sn else "") + more + "\n"


def unit(name: str) -> str:
    return f"dn: ou={name},{SUFFIX}\nobjectClass: organizationalUnit\nou: {name}\n\n"


ODD = f"description: {'x' * 200}\ndescription:: w7zDuA==\ndescription:  leading\ntitle:\n"
G = TOP + "".join(person(f"u{number}", more=ODD if number == 3 else "") for number in range(10))
CHILD = TOP + person("child", above=f"ou=late,{SUFFIX}") + person("last")
# Each is a file that the commands name.
FILES = {
    "G": G,
    "one-new": G + person("new"),
    "no-sn": TOP + person("a") + person("b", sn=None) + person("c"),
    "undefined": TOP + person("a", more="nosuch: 1\n") + person("b"),
    "no-parent": CHILD,
    "parent": unit("late"),
    "child-first": TOP + person("child", above=f"ou=late,{SUFFIX}") + unit("late"),
    "foreign": TOP + person("a", above="dc=other"),
    "version": f"version: 1\n\n{G}",
    "change": TOP + person("a").replace("objectClass", "changetype: add\nobjectClass", 1),
    "crlf": G.replace("\n", "\r\n"),
    "cr": TOP + person("a", more="description: a\rb\ndescription:: Yw0=\n") + person("b\r", more="l: a\r\r\n b\n"),
    "open": G.rstrip("\n"),
    "include": "include: file://T/G\n",
    "twice": TOP + person("a") + person("a") + person("b"),
    "csn": TOP + person("a", more="entryCSN: 20260101000000.000000Z#000000#002#000000\n"),
    "invalid": TOP + person("a", more="seeAlso: no dn\n"),
    "empty": "",
    "sub": TOP + person("a") + f"dn: ou=sub,{SUFFIX}\nobjectClass: organizationalUnit\nou: sub\n\n"
    + person("s", above=f"ou=sub,{SUFFIX}"),
}  # fmt: skip
# Name -> commands; what follows | is read from stdin (<FILE: a file, FILE: a pipe). In each, -f CONF is added.
CASES = {
    "1": ["slapadd -l T/G"],
    "2 file": ["slapadd | <G"],
    "2 pipe": ["slapadd | G"],
    "4": ["slapadd -q -l T/G"],
    "4 -d 0": ["slapadd -d 0 -l T/G", "slapcat -d 0", "slapadd -d 0 -l T/G"],
    "5": ["slapadd -v -l T/G"],
    "6": ["slapadd -l T/G", "slapadd -l T/G"],
    "7": ["slapadd -l T/G", "slapadd -c -l T/one-new"],
    "8": ["slapadd -l T/no-sn"],
    "8 pipe": ["slapadd | no-sn"],
    "8 -q": ["slapadd -q -l T/no-sn"],
    "9": ["slapadd -c -l T/no-sn"],
    "10": ["slapadd -s -l T/no-sn"],
    "10 -o": ["slapadd -o schema-check=no -l T/no-sn"],
    "11": ["slapadd -l T/undefined"],
    "11 -s": ["slapadd -s -l T/undefined"],
    "12": ["slapadd -l T/no-parent"],
    "13": ["slapadd -l T/no-parent", "slapadd | parent"],
    "14": ["slapadd -l T/child-first"],
    "15": ["slapadd -l T/foreign"],
    "16": ["slapadd -l T/version"],
    "16 -c": ["slapadd -c -l T/version"],
    "16 change": ["slapadd -l T/change"],
    "17 crlf": ["slapadd -l T/crlf"],
    "17 cr": ["slapadd -l T/cr"],
    "17 open": ["slapadd -l T/open"],
    "17 include": ["slapadd -l T/include"],
    "18": ["slapadd -u -l T/twice"],
    "19": ["slapadd -l T/G -j 8"],
    "20": ["slapadd -w -S 5 -l T/G"],
    "20 csn": ["slapadd -w -l T/csn"],
    "21": ["slapadd -w -l T/no-sn"],
    "21 -c": ["slapadd -w -c -l T/no-sn"],
    "22": ["slapadd -n 0 -F D0 | config", "slapadd -n 0 -F D0 | config"],
    "23": ["slapcat -n 1 -b dc=ex"],
    "23 -z": ["slapcat -z"],
    "23 operand": ["slapcat operand"],
    "24 no": ["slapadd -l T/G", "slapcat -o ldif-wrap=no"],
    "24 20": ["slapadd -l T/G", "slapcat -o ldif_wrap=20"],
    "24 name": ["slapadd -l T/G", "slapcat -o ldif-wrap"],
    "25": ["slapadd -l T/G", "slapcat -H ldap:///dc=ex??one"],
    "25 filter": ["slapadd -l T/G", "slapcat -H ldap:///???(uid=u3)"],
    "25 sub": ["slapadd -l T/sub", "slapcat -H ldap:///ou=sub,dc=ex"],
    "28": ["slapadd -l T/G", "slapindex uid"],
    "28 mail": ["slapadd -l T/G", "slapindex mail"],
    "28 -q": ["slapadd -l T/G", "slapindex -q -t"],
    "duplicate -c": ["slapadd -c -l T/twice"],
    "parent -c": ["slapadd -c -l T/no-parent"],
    "duplicate": ["slapadd -l T/twice"],
    "invalid value": ["slapadd -l T/invalid"],
    "value check": ["slapadd -o value-check=yes -l T/invalid"],
    "nothing": ["slapadd -l T/empty"],
    "no file": ["slapadd -l T/missing"],
    "no database": ["slapcat -b dc=nowhere"],
    "empty directory": ["slapcat"],
    "below the suffix": ["slapadd -b uid=x,dc=ex -n1 -l T/G", "slapadd -b uid=x,dc=ex -l T/G"],
    "-l": ["slapadd -l T/G", "slapcat -l OUT", "slapcat -v", "slapcat -a (uid=u3) -l OUT"],
}
_CONF = """
include {schema}/core.schema
include {schema}/cosine.schema
include {schema}/inetorgperson.schema
modulepath {modules}
moduleload back_mdb
{before}
database mdb
suffix dc=ex
rootdn cn=admin,dc=ex
directory {home}/data
maxsize 1073741824
index uid eq
"""
_GLUE = """
database mdb
suffix ou=sub,dc=ex
subordinate
directory {home}/sub
maxsize 1073741824
"""
# What scripts match. Lines of libraries have times and thread numbers.
_MATCHED = re.compile(
    "slap(add|cat|index): (?!.* does this: |[0-9]+ of the records)"
    "|Error, entries missing!|  entry |added: |usage|The first database"
)
_GENERATED = re.compile("^(entryUUID|entryCSN|createTimestamp|modifyTimestamp):.*\n", re.MULTILINE)
_TIME = re.compile(r"(contextCSN: )[0-9.]+Z#[0-9a-f]+")


class Result(NamedTuple):
    status: int
    out: str
    err: str


@dataclass(frozen=True)
class Home:
    """A database with its slapd.conf, and a directory with programs that its commands find first."""

    path: Path
    links: Path | None

    def make(self, before: str = "") -> Home:
        for name in ("data", "sub", "D0", "T"):
            (self.path / name).mkdir(parents=True)
        for name, text in FILES.items():
            (self.path / "T" / name).write_bytes(text.replace("T/", f"{self.path}/T/").encode())
        words = {"schema": Installation().schema, "modules": Installation().modules, "home": self.path}
        (self.path / "slapd.conf").write_text(_CONF.format(before=before.format(**words), **words))
        with tempfile.TemporaryDirectory() as converted:
            config = subprocess.run(
                ["slapcat", "-n0", "-f", self.path / "slapd.conf", "-F", converted],
                env=Installation().environment(),
                capture_output=True,
                check=True,
            )
        (self.path / "T" / "config").write_bytes(config.stdout)
        return self

    @property
    def environment(self) -> dict[str, str]:
        path = Installation().environment()["PATH"]
        return environment({"PATH": f"{self.links}:{path}" if self.links else path, "DITSEED_SHIM": "native"})

    def words(self, command: str) -> list[str]:
        tool, *words = command.split()
        places = {"CONF": "slapd.conf", "D0": "D0", "OUT": "out"}
        return [
            shutil.which(tool, path=self.environment["PATH"]) or tool,
            *(
                str(self.path / places.get(word, word)) if word in places or word[:2] == "T/" else word
                for word in (words if "-F" in words else ["-f", "CONF", *words])
            ),
        ]

    def run(self, command: str) -> Result:
        line, _, source = command.partition(" | ")
        name = self.path / "T" / source.lstrip("<")
        is_pipe = source[:1] not in ("", "<")
        with open(name if source[:1] == "<" else os.devnull, "rb") as stdin:
            streams: dict[str, Any] = {"input": name.read_bytes()} if is_pipe else {"stdin": stdin}
            words = self.words(line)
            done = subprocess.run(words, capture_output=True, env=self.environment, check=False, **streams)
        lines = done.stderr.decode().replace(str(self.path), "HOME").splitlines()
        err = "\n".join(line for line in lines if _MATCHED.match(line))
        return Result(done.returncode, _plain(done.stdout.decode()), err)

    def slapcat(self) -> str:
        words = tools.server_tool("slapcat", "-f", str(self.path / "slapd.conf"))
        return _plain(subprocess.run(words, capture_output=True, check=False, text=True).stdout)


def _plain(text: str) -> str:
    """Returns LDIF without what differs between two loads."""
    return _TIME.sub(r"\1", _GENERATED.sub("", text.replace("\n ", "")) if "dn: " in text else text)


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("shims") / "bin"
    done = ditseed("shims", place).ok()
    assert f"PATH={place}:$PATH" in done.out
    return place


@pytest.fixture
def pair(tmp_path: Path, links: Path) -> tuple[Home, Home]:
    return Home(tmp_path / "original", None).make(), Home(tmp_path / "link", links).make()


@pytest.mark.rows(12)
@pytest.mark.parametrize("case", CASES)
def test_a_link_does_what_the_original_does(case: str, pair: tuple[Home, Home]) -> None:
    original, link = pair
    for command in CASES[case]:
        assert link.run(command) == original.run(command), command
    assert link.slapcat() == original.slapcat()
    assert [path.name for path in link.path.glob("data/.*")] == []
    if (original.path / "out").exists():
        assert _plain((link.path / "out").read_text()) == _plain((original.path / "out").read_text())
    for name in ("data.mdb", "lock.mdb"):
        theirs, ours = (home.path / "data" / name for home in pair)
        assert theirs.exists() == ours.exists(), name
        assert not ours.exists() or ours.stat().st_mode == theirs.stat().st_mode


@pytest.mark.parametrize(
    ("before", "commands"),
    [
        (  # case 30: what was split is joined again; -g rejects entries of the subordinate database
            _GLUE,
            ("slapadd -b dc=ex -g -l T/sub", "slapcat -b dc=ex -g", "slapadd -b dc=ex -c -l T/sub", "slapcat -b dc=ex"),
        ),
        (_GLUE, ("slapadd -g -l T/sub", "slapcat -g")),
        (
            "database monitor",
            ("slapadd -l T/G", "slapcat", "slapindex", "slapcat -n 2", "slapcat -n 1", "slapcat -b dc=ex"),
        ),
    ],
)
def test_other_databases(tmp_path: Path, links: Path, before: str, commands: tuple[str, ...]) -> None:
    pair = [Home(tmp_path / name, place).make(before) for name, place in (("original", None), ("link", links))]
    for command in commands:
        one, other = (home.run(command) for home in pair)
        assert one == other, command


def test_slapd_runs(links: Path) -> None:
    """Case 29: the dump is that of the original, and slapd shows an entry that slapadd appends."""
    with Slapd() as server:
        server.ldapadd(TOP.replace(SUFFIX, server.suffix).replace("dc: ex", "dc: example"))
        at, env = (*server.config_arguments, "-b", server.suffix), Home(server.home, links).environment
        words = [links / "slapcat", *at, "-o", "ldif-wrap=no"]
        assert subprocess.check_output(words, env=env, text=True) == server.slapcat()
        added = person("late", above=server.suffix)
        subprocess.run([links / "slapadd", *at], env=env, input=added, text=True, check=True)
        assert len(server.search("(uid=late)")) == 1


def test_a_terminal_sees_the_end(pair: tuple[Home, Home]) -> None:
    main, side = pty.openpty()
    subprocess.run(pair[1].words("slapadd -q -l T/G"), env=pair[1].environment, stderr=side, check=True)
    os.close(side)
    with open(main, "rb", buffering=0) as screen:
        assert b"Closing DB..." in screen.read(1 << 16)


def test_slapindex_builds_what_is_configured(pair: tuple[Home, Home]) -> None:
    """The original adds keys; the link makes the tables anew, so that no key of a removed kind stays."""
    for home, stale in zip(pair, (True, False), strict=True):
        home.run("slapadd -l T/G")
        conf = home.path / "slapd.conf"
        verify = ("verify", "--config", conf, "--verify", "indexes")
        text = conf.read_text().replace("index uid eq", "index uid,cn eq,sub\nindex cn;lang-de,sn eq")
        conf.write_text(text)
        assert ditseed(*verify).status
        assert home.run("slapindex uid cn") == Result(0, "", "")
        assert ditseed(*verify).status
        assert home.run("slapindex -q") == Result(0, "", "")
        ditseed(*verify).ok()
        conf.write_text(text.replace("uid,cn eq,sub", "uid,cn eq"))
        assert home.run("slapindex") == Result(0, "", "")
        assert ("indexes.too_much" in ditseed(*verify, "--json").out) == stale


# --- what a link does otherwise -----------------------------------------------------------------


def test_output_that_is_cut_short_is_a_failure(pair: tuple[Home, Home]) -> None:
    """The original's exit status is 0 if only the last write fails, as with this small database."""
    home = pair[1]
    home.run("slapadd -l T/G")
    for command in ("slapcat", "slapcat -a (uid=*)"):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(home.words(command), env=home.environment, stdout=full, stderr=-1, check=False)
        assert done.returncode == 1, command
        assert b"slapcat: error writing output." in done.stderr
    (home.path / "out").write_text("the last dump")
    for words in ("slapcat -l OUT -f nowhere", "slapcat -l OUT -a (uid=*) -f nowhere"):
        assert home.run(words).status == 1
        assert (home.path / "out").read_text() == "the last dump"


@pytest.mark.parametrize("filters", [(), ("-a", "(objectClass=*)")])
def test_a_reader_that_ends_and_a_signal(pair: tuple[Home, Home], filters: tuple[str, ...]) -> None:
    home = pair[1]
    (home.path / "T" / "many").write_text(TOP + "".join(person(f"p{n}", more=ODD) for n in range(3000)))
    assert home.run("slapadd -q -l T/many").status == 0
    words = [*home.words("slapcat"), *filters]
    for number in (None, signal.SIGTERM):
        with subprocess.Popen(words, env=home.environment, stdout=-1, stderr=-1) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == f"dn: {SUFFIX}\n".encode()
            process.send_signal(number) if number else process.stdout.close()
            said = process.stderr.read()
            assert process.wait() == 1
        assert b"Traceback" not in said
        assert said.startswith(b"slapcat: ")


@pytest.mark.parametrize("input_", ["-l T/twice", "| twice"])
def test_a_duplicate_costs_no_other_entry(pair: tuple[Home, Home], input_: str) -> None:
    """The original's -q -c loses the whole batch, and leaves a database whose slapcat dies."""
    done = pair[1].run(f"slapadd -q -c {input_}")
    assert done.status == 1
    assert "(line=13): txn_aborted! MDB_KEYEXIST" in done.err
    assert [line for line in pair[1].slapcat().splitlines() if line.startswith("dn: uid")] == [
        f"dn: uid={name},{SUFFIX}" for name in "ab"
    ]


def test_what_a_killed_link_has_left_is_removed(pair: tuple[Home, Home]) -> None:
    left = pair[1].path / "data" / ".ditseed-slapadd-0123456789abcdef"
    left.mkdir(mode=0o700)
    (left / "run").mkdir()
    assert pair[1].run("slapadd -q -l T/G").status == 0
    assert [path.name for path in pair[1].path.glob("data/.*")] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("tool", ["slapadd -v -l T/G", "slapindex -v"])
def test_root_follows_no_link_of_the_account(tool: str, links: Path, scratch: Path) -> None:
    """Nor does the original, to which -v leaves the work."""
    home, victim = Home(scratch / "home", links).make(), scratch / "victim"
    os.chown(home.path / "data", 12345, 12346)
    (home.path / "data/lock.mdb").symlink_to(victim)
    done = home.run(tool)
    assert done.status == 1
    assert "lock.mdb is a symbolic link" in done.err
    assert not victim.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("words", ["slapadd -l T/G", "slapadd -v -l T/G", "slapindex -q"])
def test_root_leaves_no_files_of_root(links: Path, scratch: Path, words: str) -> None:
    home = Home(scratch / "home", links).make()
    (home.path / "data").chmod(0o700)
    os.chown(home.path / "data", 12345, 12346)
    done = home.run(words)
    assert {path.stat().st_uid for path in (home.path / "data").iterdir()} == {12345}
    assert "12345" in done.err or words == "slapindex -q"


def test_the_switch_leaves_everything_to_the_original(pair: tuple[Home, Home]) -> None:
    home = pair[1]
    env = {**home.environment, "DITSEED_SHIM": "original"}
    subprocess.run(home.words("slapadd -q -l T/G"), env=env, check=True)
    assert (home.path / "data" / "data.mdb").stat().st_size == 1 << 30


def test_links_only_where_nobody_else_can_write(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    ditseed("shims", tmp_path / "open").refused(DirectoryUnsafe)
    (tmp_path / "slapadd").write_text("#!/bin/sh\n")
    ditseed("shims", tmp_path).refused(UsageProblem, "slapadd")


def test_the_server_beside_the_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As upstream installs it: slapcat in sbin is a link to slapd in libexec. Its release decides the data format."""
    (tmp_path / "libexec").mkdir()
    (tmp_path / "sbin").mkdir()
    slapd = shutil.copy(defaults.find_tool("slapd") or "", tmp_path / "libexec")
    (tmp_path / "sbin" / "slapcat").symlink_to("../libexec/slapd")
    monkeypatch.setenv("PATH", f"{tmp_path}/sbin:{Installation().environment()['PATH']}")
    assert defaults.find_tool("slapd") == str(slapd)


def test_no_link_finds_itself(links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    ditseed("shims", other).ok()
    monkeypatch.setenv("PATH", f"{links}:{other}:{Installation().environment()['PATH']}")
    for tool in TOOLS:
        found = defaults.find_tool(tool)
        assert found
        assert Path(found).parent not in (links, other)
    (links / "slapadd.distrib").symlink_to("ditseed-shim")
    done = subprocess.run([links / "slapadd.distrib", "-VV"], capture_output=True, check=False)
    assert done.returncode == 1
    assert COMMAND.exists()


def test_diverted_originals(pair: tuple[Home, Home], monkeypatch: pytest.MonkeyPatch) -> None:
    """dpkg-divert renames the tools to NAME.distrib, which is the server unless it is told otherwise."""
    home = pair[1]
    monkeypatch.setenv("PATH", f"{home.path}:{home.environment['PATH']}")
    for tool in TOOLS:
        (home.path / f"{tool}.distrib").symlink_to(defaults.find_tool(tool) or "")
    assert tools.server_tool("slapcat", "-n0") == [str(home.path / "slapcat.distrib"), "-Tcat", "-n0"]
    env = environment({"DITSEED_SHIM": "native"})
    for words in ("slapadd -q -l T/G", "slapcat -l OUT"):
        subprocess.run(home.words(words), env=env, check=True)
    assert (home.path / "data" / "data.mdb").stat().st_size < 1 << 30  # the original's would be as long as maxsize
    subprocess.run(home.words("slapindex"), env=env, check=True)
    assert _plain((home.path / "out").read_text()) == home.slapcat()
