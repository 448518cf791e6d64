"""slapd's tools run on a configuration that has one database: nothing else of the operator's is opened by them."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.compat.modules import BACKENDS, NOBODY, OVERLAYS
from fixtures.compat.row import Built
from fixtures.slapd import Form, Slapd
from loader.config import Config
from loader.defaults import ENGINES
from loader.operations.build import steps
from loader.operations.publish import TargetDatabase
from loader.server import configuration, private
from tests.compat import building
from tests.support.command import ditseed
from tests.support.require import require

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
ENTRIES = f"""\
dn: {SUFFIX}
objectClass: domain
dc: example

dn: cn=Ada,{SUFFIX}
objectClass: inetOrgPerson
cn: Ada
sn: Ada
mail: ada@example.com

"""
UNKNOWN_TO_CORE = "index_intlen 9"  # so slapindex makes indexes
# As a tools prefix: what loads entries, indexes them or tries names is traced. What reads or changes the operator's own
# configuration (slapcat, slapadd -n0, slaptest) parses all of it, as the operator's own tools do.
TRACED = """\
#!/bin/sh
case "$*" in slapindex*|*" slapindex "*|slapadd\\ -[qu]*) ;; *) exec "$@";; esac
exec strace -f -A -s 4096 -e trace=%file,connect -o {log} "$@"
"""


# What is none of a row's, and could be written to or asked all the same.
OTHERS = (
    Built("mdb", lines="database mdb\nsuffix o=second\ndirectory {home}/below"),
    Built(
        "glue-ldap", first=f"database ldap\nsuffix ou=below,{SUFFIX}\nsubordinate\nuri {NOBODY}", modules=("back_ldap",)
    ),
    Built(
        "syncrepl",
        lines=f'syncrepl rid=1 provider={NOBODY} searchbase="{SUFFIX}" bindmethod=simple binddn="cn=x" '
        f"credentials=SECRET type=refreshOnly\nupdateref {NOBODY}",
    ),
)
# slapd itself cannot convert a slapd.conf with pbind.
ROWS = [row for row in (*OVERLAYS, *BACKENDS) if row.suffix == SUFFIX and row.lines + row.first and row.name != "pbind"]
each_row = pytest.mark.parametrize("row", [*ROWS, *OTHERS], ids=lambda row: row.name)


def configured(row: Built, form: Form, home: Path, *lines: str) -> closing[Slapd]:
    """A server whose files, and those of its modules, are below `home`. lines: at the beginning of its slapd.conf."""
    building.require_modules(row)
    return closing(building.server(replace(row, first="\n".join((*lines, row.first))), home, form=form))


_CALL = re.compile(r"^\d+ +(?P<name>\w+)\((?P<rest>.*)")
_WRITING = ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC")
_READING = ("access", "execve", "getcwd", "lstat", "newfstatat", "readlink", "stat", "statfs", "statx")


def touched(log: Path, others: tuple[Path, ...], *own: Path) -> list[str]:
    """Calls that name anything below `others`, that open for writing or change what is not below `own`; connections."""
    found = []
    for line in log.read_text().splitlines():
        call = _CALL.match(line)
        if call is None:
            continue
        name, rest = call["name"], call["rest"].partition(") = ")[0]
        paths = [Path(text) for text in re.findall(r'"([^"]*)"', rest)]
        strange = [one for one in paths if not _below(one, own) and one != Path("/dev/null")]
        opens = name in ("open", "openat") and not any(flag in rest for flag in _WRITING)
        if (
            (name == "connect" and "nscd" not in rest)
            or any(_below(one, others) for one in strange)
            or (strange and not opens and name not in (*_READING, "connect"))
        ):
            found.append(line)
    return found


def _below(path: Path, places: tuple[Path, ...]) -> bool:
    return any(path == one or one in path.parents for one in places)


@pytest.mark.rows(4)
@each_row
@pytest.mark.parametrize(("tool", "form"), [("build", "conf"), ("build", "config"), ("slapindex", "config")])
def test_nothing_else_is_opened(row: Built, tool: str, form: Form, tmp_path: Path) -> None:
    """By slapadd in its two parts (schema probes, the load), and by slapindex."""
    require(None if shutil.which("strace") else "strace is not installed")
    script, log, ldif, scratch = (tmp_path / name for name in ("traced", "trace", "in.ldif", "scratch"))
    script.write_text(TRACED.format(log=log))
    script.chmod(0o755)
    ldif.write_text(ENTRIES)
    scratch.mkdir()
    env = {"DITSEED_TOOLS": str(script), "DITSEED_TOOLS_TMPDIR": str(scratch)}
    lines = (UNKNOWN_TO_CORE,) if tool == "slapindex" else ()
    with configured(row, form, tmp_path / "others", *lines) as server:
        where = ("--config", server.config_path, "-b", SUFFIX)
        own = server.database_dir if tool == "slapindex" else tmp_path / "target"
        own.mkdir(exist_ok=True)
        build = ("build", ldif, *where, "--engine", "slapadd")
        if tool == "build":
            ditseed(*build, "--target", own, env=env).ok()
        else:
            ditseed(*build).ok()
            done = ditseed("tune", "indexes", *where, "--add", "givenName eq", "--apply", env=env).ok()
            assert "slapindex built the indexes" in done.out + done.err
        assert touched(log, (server.home,), own, scratch) == []
        assert "slapd.d" in log.read_text(), "nothing was traced"


@pytest.mark.rows(5)
@each_row
def test_every_name_of_the_schema_is_known(row: Built, tmp_path: Path) -> None:
    """What an overlay or a backend brings along comes with its module."""
    with configured(row, "conf", tmp_path / "others") as server:
        config = configuration.read(server.config_path)
        database = config.database(SUFFIX)
        place = TargetDatabase(config, database, server.database_dir)
        attributes, classes = (_names(config, "olcAttributeTypes"), _names(config, "olcObjectClasses"))
        assert len(attributes) > 200
        assert len(classes) > 50
        assert steps.unknown_names(place, attributes, classes, tmp_path) == []
        assert "noSuchThing" in steps.unknown_names(place, ["noSuchThing"], [], tmp_path)


def _names(config: Config, attribute: str) -> list[str]:
    entries = [name for name, _ in config.entries if name.lower().endswith("cn=schema,cn=config")]
    texts = [text for name in entries for text in config.values(name, attribute)]
    names = [re.findall(r"NAME (?:\( )?'([^']+)'", text)[0] for text in texts]
    # What back-ldap tells in cn=Monitor is defined with its first database; no entry elsewhere may have it.
    return [name for name in names if not name.startswith("olm")]


@pytest.mark.long
def test_the_log_file_is_left_alone(form: Form, tmp_path: Path) -> None:
    """slapd's own tools empty it."""
    log = tmp_path / "slapd.log"
    ldif = tmp_path / "in.ldif"
    ldif.write_text(ENTRIES)
    with configured(OTHERS[0], form, tmp_path / "others", f'logfile "{log}"') as server:
        log.write_text("what slapd said\n")
        where = ("--config", server.config_path, "-b", SUFFIX)
        for engine in ENGINES:
            ditseed("build", ldif, *where, "--engine", engine, "--replace").ok()
        apply = ("--apply",) if form == "config" else ()
        ditseed("tune", "indexes", *where, "--add", "givenName eq", *apply).ok()
        ditseed("tune", "maxsize", *where, "--maxsize", "80M", *apply).ok()
        ditseed("verify", *where).ok()
        assert log.read_text() == "what slapd said\n"
        settings = server.config_path / "cn=config.ldif" if form == "config" else server.config_path
        assert str(log) in settings.read_text().replace("\n ", "")


def test_what_a_slapd_conf_defines_itself_may_build_on_its_includes(tmp_path: Path) -> None:
    lines = (
        "objectidentifier Own 1.3.6.1.4.1.99999",
        "attributetype ( Own:1 NAME 'ownThing' SUP employeeNumber )",
        "objectclass ( Own:2 NAME 'ownPerson' SUP inetOrgPerson STRUCTURAL MAY ownThing )",
    )
    ldif = tmp_path / "in.ldif"
    ldif.write_text(ENTRIES.replace("inetOrgPerson", "ownPerson\nownThing: 7"))
    with configured(OTHERS[0], "conf", tmp_path / "others", *lines) as server:
        where = ("--config", server.config_path, "-b", SUFFIX)
        ditseed("build", ldif, *where, "--engine", "slapadd").ok()
        assert "ownThing: 7" in server.slapcat()


@pytest.mark.timeout(120)
def test_a_fifo_in_the_place_of_one_is_not_waited_for(tmp_path: Path) -> None:
    with closing(Slapd()) as server:
        config = configuration.read(server.config_path)
        database = config.database(None)
        with private.configured(config, database, tmp_path) as made:
            made.rename(tmp_path / "aside")
            os.mkfifo(made)
