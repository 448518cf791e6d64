"""A glued tree: each of its databases is the one that `slapadd -q -b SUPERIOR` makes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures import glued
from fixtures.chroots import Chroot
from fixtures.glued import GROUPS, INDEXES, INNER, SUFFIX, SubordinateDatabase
from fixtures.golden.records import entry, pairs_of
from fixtures.golden.tables import GENERATED, differences
from fixtures.slapd import Form, Slapd
from fixtures.slapd_config import Installation, Settings
from loader import csn
from loader.defaults import ENGINES
from loader.mdb import contents
from loader.mdb.contents import entry_count
from loader.mdb.meta import DATA
from tests.support import building
from tests.support.building import KINDS
from tests.support.golden import build, slapadd

pytestmark = pytest.mark.slapd

BASE = Settings(suffix=SUFFIX, maxsize=64 << 20, indexes=INDEXES, limits=())


def record(dn: str, number: int, *more: tuple[str, str]) -> str:
    """With entryUUID, entryCSN and times, so that each run makes the same."""
    name, value = (part.strip() for part in dn.partition(",")[0].split("=", 1))
    kind = {"dc": "domain", "ou": "organizationalUnit", "cn": "device"}[name.lower()]
    text = entry(dn, [("objectClass", kind), *more, (name, value)])
    return text.replace("Z#000000#001#", f"Z#000000#{1 + number % 3:03x}#")


def mixed() -> str:
    """Entries of all databases in turn, their DNs spelled in several ways."""
    tops = [SUFFIX, f"ou=people,{SUFFIX}", GROUPS, INNER]
    text = "# a comment\n" + "".join(record(dn, at) for at, dn in enumerate(tops))
    places = [f"ou=people,{SUFFIX}", GROUPS, INNER, "OU = Groups , dc=EXAMPLE,dc=com", SUFFIX]
    places += [f"organizationalUnitName=inner,{GROUPS}", f"2.5.4.11=people,{SUFFIX}"]
    return text + "".join(record(f"cn=n{n},{places[n % 7]}", 10 + n) for n in range(70))


def bare() -> str:
    """What slapadd makes by itself: as the superior's, in whatever database it is."""
    kind = "objectClass: organizationalUnit; ou:"
    records = {SUFFIX: "objectClass: domain; dc: example", GROUPS: f"{kind} groups", f"ou=a,{GROUPS}": f"{kind} a"}
    return "".join(entry(dn, pairs_of(text), stamped=False) for dn, text in records.items())


@dataclass(frozen=True)
class Tree:
    below: tuple[SubordinateDatabase, ...]
    ldif: Callable[[], str] = mixed
    base: Settings = BASE
    unforeseen: frozenset[str] = frozenset()


NESTED = (SubordinateDatabase(INNER), SubordinateDatabase(GROUPS))
OWN = (f"rootdn cn=other,{GROUPS}", "lastmod off")
TREES = {
    "nested": Tree(NESTED),
    "advertise": Tree((SubordinateDatabase(INNER, "advertise"), SubordinateDatabase(GROUPS, "advertise"))),
    "children-first": Tree(NESTED, lambda: "\n\n".join(reversed(mixed().split("\n\n")[:-1])) + "\n\n"),
    "own-root": Tree((SubordinateDatabase(GROUPS, lines=OWN),), bare, unforeseen=GENERATED),
    "no-lastmod": Tree(NESTED[1:], bare, dataclasses.replace(BASE, database_lines=("lastmod off",))),
    "dds": Tree(
        NESTED[1:],
        lambda: mixed() + record(f"cn=brief,{GROUPS}", 99, ("objectClass", "dynamicObject"), ("entryTtl", "3600")),
        dataclasses.replace(BASE, modules=(*BASE.modules, "dds"), overlays=("overlay dds",)),
    ),
    "nothing-for-the-superior": Tree(NESTED[1:], lambda: record(GROUPS, 1) + record(f"cn=a,{GROUPS}", 2)),
    "by-ldap": Tree(
        (SubordinateDatabase(f"ou=far,{SUFFIX}", lines=("uri ldap://127.0.0.1:1",), backend="ldap"), *NESTED),
        base=dataclasses.replace(BASE, modules=("back_ldap", *BASE.modules)),
    ),
}


def compared(tree: Tree, engine: str, form: Form, place: Path, chroot: Chroot | None = None) -> list[str]:
    """Where the databases of slapadd and of ditseed differ; how many entries are told is looked at, too."""
    ldif = place / "in.ldif"
    ldif.write_text(tree.ldif())
    installation = Installation(prefix=chroot.prefix) if chroot else None
    base = tree.base
    if chroot and chroot.version.startswith("2.4."):
        base = dataclasses.replace(base, modules=(*base.modules, "back_monitor"))
    homes = (place / "oracle", place / "ours")
    with ExitStack() as stack:
        oracle, ours = (
            stack.enter_context(closing(Slapd(wanted, form=form, installation=installation)))
            for wanted in (glued.settings(home, tree.below, base) for home in homes)
        )
        slapadd(oracle, ldif)
        done = build(ours, ldif, "--json", chroot=chroot, engine=engine).ok()
        below = [one.suffix for one in tree.below if one.backend == "mdb"]
        pairs = [(oracle.database_dir, ours.database_dir)]
        pairs += [(glued.directory(homes[0], one), glued.directory(homes[1], one)) for one in below]
        # What gets no entries stays as it is, and slapadd makes an empty database.
        made = [pair for pair in pairs if (pair[1] / DATA).exists()]
        assert not any(entry_count(theirs) for theirs, _ in set(pairs) - set(made))
        records = tree.ldif().count("dn: ")
        assert (done.facts["read"], done.facts["entries"]) == (records, records)
        assert len(done.facts["databases"]) == len(made)
        return [line for pair in made for line in differences(*pair, tree.unforeseen)]


@pytest.mark.rows(1)
@pytest.mark.long(
    *("conf-advertise-native", "conf-children-first-slapadd", "config-advertise-native"),
    *("config-children-first-slapadd", "config-no-lastmod-native"),
)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", TREES)
def test_every_database_is_slapadds(name: str, engine: str, form: Form, tmp_path: Path) -> None:
    assert compared(TREES[name], engine, form, tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_no_csn_is_made_twice(kind: str, form: Form, tmp_path: Path) -> None:
    ldif = tmp_path / "in.ldif"
    ldif.write_text(re.sub("entryCSN: .*\n", "", mixed()))
    with closing(Slapd(glued.settings(tmp_path, NESTED, BASE), form=form)) as ours:
        building.build(ours, ldif, *building.engine_words(kind)).ok()
        made = re.findall("entryCSN: (.*)", ours.slapcat())
        assert len(made) == mixed().count("dn: ")
        assert len(set(made)) == len(made)


@pytest.mark.rows(1)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_context_csn_of_all_stands_in_the_superior(engine: str, form: Form, tmp_path: Path) -> None:
    """slapadd -w of a glued tree is no oracle: 2.5.13 crashes."""
    ldif = tmp_path / "in.ldif"
    ldif.write_text(mixed() + f"dn: ou=late,{GROUPS}\nobjectClass: organizationalUnit\nou: late\n\n")
    with closing(Slapd(glued.settings(tmp_path, NESTED, BASE), form=form)) as ours:
        build(ours, ldif, "-w", "-S", "7", engine=engine).ok()
        stored = contents.context_csns(ours.database_dir)
        greatest = csn.by_server(re.findall("entryCSN: (.*)", mixed()))
        assert {one.split("#")[2] for one in stored} == {*greatest, "007"}
        assert set(greatest.values()) < set(stored)
        for suffix in (GROUPS, INNER):
            assert contents.context_csns(glued.directory(tmp_path, suffix)) == []
