"""The schema that each slapd has for its own configuration: every setting that may bear on a database is known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures import openldap_27
from fixtures.chroots import chroot, missing_chroot
from fixtures.slapd import Slapd
from fixtures.slapd_config import Installation, Settings
from loader import backmdb, config
from loader.config import Entry
from loader.defaults import ENGINES
from loader.errors import SettingRefused
from loader.mdb import meta
from loader.server import configuration
from tests.support.command import ditseed
from tests.support.require import require, require_2_7

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
LDIF = f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n" + "".join(
    f"dn: cn={number},{SUFFIX}\nobjectClass: organizationalRole\ncn: {number}\n\n" for number in range(20)
)
DATABASE = "olcDatabase={1}mdb,cn=config"
# Where an entry of each of slapd's object classes stands; an overlay's is over the database.
PLACES = {
    "olcGlobal": "cn=config",
    "olcFrontendConfig": "olcDatabase={-1}frontend,cn=config",
    "olcDatabaseConfig": DATABASE,
    "olcMdbConfig": DATABASE,
    "olcBackendConfig": "olcBackend={0}mdb,cn=config",
    "olcMdbBkConfig": "olcBackend={0}mdb,cn=config",
}
_NOT_TOGETHER = {"dyngroup"}  # dynlist takes its name since 2.5


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Installation:
    """The 2.7 at hand, for ditseed too."""
    require_2_7()
    monkeypatch.setenv("DITSEED_TOOLS", openldap_27.tools())
    return openldap_27.installation()


@pytest.fixture(params=["here", "2.7", "bullseye", "trixie", "forky"])
def modules_of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """Where the modules of a release are, and where its slapd sees them."""
    if request.param in ("here", "2.7"):
        made: Installation = Installation() if request.param == "here" else request.getfixturevalue("installed")
        return Path(made.modules), str(made.modules)
    require(missing_chroot())
    other = chroot(request.param)
    monkeypatch.setenv("DITSEED_TOOLS", other.tools)
    return other.root / "usr/lib/ldap", "/usr/lib/ldap"


def test_each_is_known(modules_of: tuple[Path, str]) -> None:
    directory, seen = modules_of
    modules = sorted({path.stem for path in directory.glob("*.la")} - _NOT_TOGETHER)
    loaded = {"olcModulePath": [seen.encode()], "olcModuleLoad": [name.encode() for name in modules]}
    source = config.parse(Path("slapd.d"), [("cn=module{0},cn=config", loaded)])
    (root,) = configuration.of_modules(source)
    asked = dict.fromkeys(_settings(root))
    assert {object_class for object_class, _ in asked} > {"olcMdbConfig", "olcSyncProvConfig"}
    unknown = [one for one in asked if not _is_known(*one)]
    assert unknown == []


def _settings(root: Entry) -> Iterator[tuple[str, str]]:
    """Of each object class that an entry over or beside a database may have, every name of every attribute."""
    types = {
        name.lower(): names
        for names, _ in _definitions(root, "olcAttributeTypes")
        for name in names
        if name.startswith("olc")
    }
    for names, text in _definitions(root, "olcObjectClasses"):
        is_overlay = re.search(r"\bSUP\s+\(?\s*olcOverlayConfig\b", text) is not None
        if is_overlay or names[0] in PLACES:
            for several, single in re.findall(r"\b(?:MUST|MAY)\s+(?:\(([^)]*)\)|(\w+))", text):
                for attribute in re.findall(r"\w+", several or single):
                    yield from ((names[0], name) for name in types.get(attribute.lower(), ()))


def _definitions(root: Entry, kind: str) -> Iterator[tuple[list[str], str]]:
    for value in root[1][kind]:
        text = re.sub(r" DESC '[^']*'", "", value.decode())
        found = re.search(r" NAME (?:'([^']*)'|\(([^)]*)\))", text)
        if found:
            yield [found[1]] if found[1] else re.findall(r"'([^']*)'", found[2]), text


def _is_known(object_class: str, name: str) -> bool:
    dn = PLACES.get(object_class, f"olcOverlay={{0}}x,{DATABASE}")
    entries: list[Entry] = [(DATABASE, {"olcDatabase": [b"{1}mdb"], "olcSuffix": [b"dc=x"]})]
    entries.append((dn, {name: [b"0"]}))
    found = config.parse(Path("slapd.d"), entries[:1])
    changed = config.Config(found.path, found.databases, tuple(entries))
    try:
        backmdb.require_supported(changed, *found.databases)
    except SettingRefused as error:
        return "is not a setting" not in str(error)
    return True


def test_encryption_is_refused_before_any_work(installed: Installation, tmp_path: Path) -> None:
    """slapd would refuse a file that lies in clear, and passwords would be in it."""
    lines = ("passphrase hello",)  # `crypto` takes a module that LMDB's users compile themselves
    plain, other, ldif = Settings(), Settings(database_lines=lines), tmp_path / "x.ldif"
    ldif.write_text(LDIF)
    with closing(Slapd(plain, installation=installed)) as old, closing(Slapd(other, installation=installed)) as new:
        old.slapadd(LDIF)
        for command in (
            *(("build", ldif, "--engine", engine) for engine in ENGINES),
            ("migrate", old.database_dir, tmp_path / "new"),
        ):
            for more in ((), ("--dry-run",)):
                done = ditseed(*command, "--config", new.config_path, *more)
                done.refused(SettingRefused, "olcDbPassphrase")
                assert "hello" not in done.err
        assert not list(new.database_dir.iterdir())
        assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("options", [("native",), ("slapadd",), ("slapadd", "--shards", "2")])
@pytest.mark.parametrize("size", [4096, 65536])
def test_the_page_size_is_the_configured_one(
    size: int, options: tuple[str, ...], installed: Installation, tmp_path: Path
) -> None:
    lines = (f"dbpagesize {size}",)
    (tmp_path / "x.ldif").write_text(LDIF)
    with closing(Slapd(Settings(database_lines=lines), installation=installed)) as server:
        done = ditseed("build", tmp_path / "x.ldif", "--config", server.config_path, "--engine", *options)
        done.ok()
        assert meta.read_meta(server.database_dir).page_size == size
        assert server.slapcat().count("dn: ") == 21
        ditseed("verify", "--config", server.config_path, "--verify", "indexes").ok()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_index_of_object_class_holds(engine: str, installed: Installation, tmp_path: Path) -> None:
    (tmp_path / "x.ldif").write_text(LDIF)
    indexes = ("objectClass eq", "objectClass pres,eq")
    with (
        closing(Slapd(Settings(indexes=indexes), form="conf", installation=installed)) as server,
        closing(Slapd(server.settings, form="conf", installation=installed)) as oracle,
    ):
        oracle.slapadd(LDIF)
        where = ("--config", server.config_path, "--engine", engine)
        ditseed("build", tmp_path / "x.ldif", *where).ok()
        ditseed("verify", "--config", oracle.config_path, "--verify", "indexes").ok()
        ditseed("verify", "--config", server.config_path, "--verify", "indexes").ok()
