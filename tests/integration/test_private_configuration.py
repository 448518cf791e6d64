"""slapd's tools run on a configuration that has one database: nothing else of the operator's is opened by them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from fixtures import modules
from fixtures.modules import Module
from fixtures.slapd import Form, Slapd
from fixtures.slapd_config import Installation, Settings
from loader.config import Config
from loader.defaults import ENGINES
from loader.operations.build import steps
from loader.operations.publish import TargetDatabase
from loader.server import configuration, private
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


@contextmanager
def configured(module: Module, form: Form, home: Path, *lines: str) -> Iterator[Slapd]:
    """A server with the module; `home`: where it keeps whatever it keeps."""
    missing = [one for one in module.loads if not Path(Installation().modules, f"{one}.la").exists()]
    require(f"slapd has no module {missing[0]} here" if missing else None)
    for name in ("log", "below", "second", "ldif", "cache"):
        (home / name).mkdir(parents=True)
    (home / "Nothing.pm").write_text("package Nothing; sub new { return bless {}; } 1;\n")

    def told(text: str) -> str:
        return text.format(home=home, suffix=SUFFIX)

    settings = Settings(
        suffix=SUFFIX,
        maxsize=64 << 20,
        indexes=("objectClass eq",),
        modules=tuple(dict.fromkeys(("back_mdb", *module.loads))),
        global_lines=(*lines, *told(module.before).splitlines()),
        overlays=tuple(filter(None, (told(module.overlay), told(module.after)))),
        schema=("/etc/ldap/schema/dyngroup.schema",),
        limits=(),
    )
    with closing(Slapd(settings, form=form)) as server:
        yield server


def _tracer(home: Path) -> tuple[dict[str, str], Path]:
    require(None if shutil.which("strace") else "strace is not installed")
    script, log = home / "traced", home / "trace"
    script.write_text(TRACED.format(log=log))
    script.chmod(0o755)
    return {"DITSEED_TOOLS": str(script)}, log


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
@pytest.mark.parametrize("module", modules.ALL, ids=[one.name for one in modules.ALL])
@pytest.mark.parametrize(("tool", "form"), [("build", "conf"), ("build", "config"), ("slapindex", "config")])
def test_nothing_else_is_opened(module: Module, tool: str, form: Form, tmp_path: Path) -> None:
    """By slapadd in its two parts (schema probes, the load), and by slapindex."""
    env, log = _tracer(tmp_path)
    ldif = tmp_path / "in.ldif"
    ldif.write_text(ENTRIES)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env["DITSEED_TOOLS_TMPDIR"] = str(scratch)
    lines = (UNKNOWN_TO_CORE,) if tool == "slapindex" else ()
    with configured(module, form, tmp_path / "others", *lines) as server:
        where = ("--config", server.config_path, "-b", SUFFIX)
        others = (tmp_path / "others", server.home)
        if tool == "build":
            target = tmp_path / "target"
            target.mkdir()
            words = ("--engine", "slapadd", "--target", target)
            ditseed("build", ldif, *where, *words, env=env).ok()
            assert touched(log, others, target, scratch) == []
        else:
            ditseed("build", ldif, *where, "--engine", "slapadd").ok()
            done = ditseed("tune", "indexes", *where, "--add", "sn eq", "--apply", env=env).ok()
            assert "slapindex built the indexes" in done.out + done.err
            assert touched(log, others, server.database_dir, scratch) == []
        assert "slapd.d" in log.read_text(), "nothing was traced"


@pytest.mark.rows(5)
@pytest.mark.parametrize("module", modules.ALL, ids=[one.name for one in modules.ALL])
def test_every_name_of_the_schema_is_known(module: Module, tmp_path: Path) -> None:
    """What an overlay or a backend brings along comes with its module."""
    with configured(module, "conf", tmp_path / "others") as server:
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
    with configured(modules.ALL[0], form, tmp_path / "others", f'logfile "{log}"') as server:
        log.write_text("what slapd said\n")
        where = ("--config", server.config_path, "-b", SUFFIX)
        for engine in ENGINES:
            ditseed("build", ldif, *where, "--engine", engine, "--replace").ok()
        apply = ("--apply",) if form == "config" else ()
        ditseed("tune", "indexes", *where, "--add", "sn eq", *apply).ok()
        ditseed("tune", "maxsize", *where, "--maxsize", "80M", *apply).ok()
        ditseed("verify", *where).ok()
        assert log.read_text() == "what slapd said\n"
        assert str(log) in _settings(server)


def _settings(server: Slapd) -> str:
    path = server.config_path
    return (path / "cn=config.ldif" if path.is_dir() else path).read_text().replace("\n ", "")


def test_what_a_slapd_conf_defines_itself_may_build_on_its_includes(tmp_path: Path) -> None:
    lines = (
        "objectidentifier Own 1.3.6.1.4.1.99999",
        "attributetype ( Own:1 NAME 'ownThing' SUP employeeNumber )",
        "objectclass ( Own:2 NAME 'ownPerson' SUP inetOrgPerson STRUCTURAL MAY ownThing )",
    )
    ldif = tmp_path / "in.ldif"
    ldif.write_text(ENTRIES.replace("inetOrgPerson", "ownPerson\nownThing: 7"))
    with configured(modules.ALL[0], "conf", tmp_path / "others", *lines) as server:
        where = ("--config", server.config_path, "-b", SUFFIX)
        ditseed("build", ldif, *where, "--engine", "slapadd").ok()
        assert "ownThing: 7" in server.slapcat()


def test_every_module_of_the_packages_is_here() -> None:
    directory = Path(Installation().modules)
    found = {path.stem for path in directory.glob("*.la")}
    require(None if found else f"no modules in {directory}")
    assert found <= modules.shipped(), found - modules.shipped()


@pytest.mark.timeout(120)
def test_a_fifo_in_the_place_of_one_is_not_waited_for(tmp_path: Path) -> None:
    with closing(Slapd()) as server:
        config = configuration.read(server.config_path)
        database = config.database(None)
        with private.configured(config, database, tmp_path) as made:
            made.rename(tmp_path / "aside")
            os.mkfifo(made)
