"""The golden cases in other versions of OpenLDAP: there slapadd is the judge, and its slapcat shows ditseed the way.
Each syntax and matching rule that a slapd with all its modules publishes has a golden case."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import ldap
import pytest

from fixtures.chroots import Chroot, chroot, missing_chroot
from fixtures.compat.definitions import RULES, SYNTAXES
from fixtures.golden.case import server, settings
from fixtures.golden.of_2_7 import ALL
from fixtures.golden.random_trees import case as random_case
from fixtures.golden.records import top
from fixtures.golden.tables import differences
from fixtures.slapd import Slapd
from fixtures.slapd_config import Installation
from loader.defaults import ENGINES
from tests.golden import test_glued
from tests.golden.everything import BY_NAME, CASES
from tests.support.command import ditseed
from tests.support.golden import ENGINE, build, compared, fresh, slapadd
from tests.support.require import require

# Making a root directory takes half a minute, and more where the mirror is far.
pytestmark = pytest.mark.slapd

SUITES = ("bullseye", "trixie", "forky")
# The others show the same code again; these stand for them where time counts.
CHOSEN = (
    *("broad", "hash64", "multival-all", "sortvals", "supertypes", "conf-index-partial", "conf-definitions", "holes"),
    *("scattered", "context-partly", "made", "rare-rules", "policy", "policy-of-2.4", "log"),
)


@pytest.fixture(scope="module", params=SUITES)
def other(request: pytest.FixtureRequest) -> Chroot:
    require(missing_chroot())
    return chroot(request.param)


def _version(other: Chroot) -> tuple[int, ...]:
    return tuple(map(int, other.version.split(".")))


def _assert_equal(name: str, other: Chroot, directory: Path, engine: str) -> None:
    case = BY_NAME[name]
    if not case.since <= _version(other) < case.until:
        pytest.skip(f"slapd {other.version} does not know this, or does otherwise")
    assert compared(case, directory, other, engine) == []


@pytest.mark.rows(3)
@pytest.mark.parametrize("name", CHOSEN)
def test_equal_to_that_versions_slapadd(other: Chroot, name: str, tmp_path: Path) -> None:
    _assert_equal(name, other, tmp_path, ENGINE)


@pytest.mark.rows(1)
@pytest.mark.parametrize("name", ["policy", "policy-of-2.4", "dds", "multival-all", "sortvals"])
def test_a_private_configuration_keeps_what_counts(other: Chroot, name: str, tmp_path: Path) -> None:
    """--engine slapadd runs that version's slapadd on less than the whole configuration."""
    _assert_equal(name, other, tmp_path, "slapadd")


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["nested", "own-root", "dds"])
def test_glued_trees(other: Chroot, name: str, engine: str, tmp_path: Path) -> None:
    assert test_glued.compared(test_glued.TREES[name], engine, "conf", tmp_path, other) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_random_trees(other: Chroot, seed: int, tmp_path: Path) -> None:
    assert compared(random_case(seed, old=_version(other) < (2, 5)), tmp_path, other) == []


@pytest.mark.heavy
@pytest.mark.timeout(0)
def test_all_of_it(other: Chroot, tmp_path: Path) -> None:
    old = _version(other) < (2, 5)
    every = [case for case in CASES if case.since <= _version(other) < case.until]
    every += [random_case(seed, 150, old) for seed in range(100, 200)]
    failed = {case.name: found[:3] for case in every if (found := compared(case, tmp_path, other))}
    assert not failed, failed


@pytest.mark.long
def test_migrated_from_that_version_and_back(other: Chroot, tmp_path: Path) -> None:
    """Each equals what slapadd of its version makes of the other's slapcat."""
    case, text = ALL["most"].case, tmp_path / "all.ldif"
    with closing(fresh(case, other)) as first, closing(fresh(case)) as here:
        slapadd(first, case.write(tmp_path))
        ditseed("migrate", first.database_dir, here.database_dir, "--config", here.config_path).ok()
        with closing(fresh(case)) as oracle:
            text.write_text(first.slapcat())
            slapadd(oracle, text)
            assert not differences(oracle.database_dir, here.database_dir)
        with closing(fresh(case, other)) as back, closing(fresh(case, other)) as oracle:
            where = ("--config", back.config_path)
            env = {"DITSEED_TOOLS": other.tools}
            ditseed("migrate", here.database_dir, back.database_dir, *where, env=env).ok()
            slapadd(oracle, text)
            assert not differences(oracle.database_dir, back.database_dir)


# Not to be loaded together, or without another server.
ALONE = {"dyngroup", "back_sql", "back_perl", "back_ndb", "back_asyncmeta", "back_bdb", "back_hdb"}
# The types that have it are not published.
HIDDEN = {"subtreespecification": frozenset({"1.3.6.1.4.1.1466.115.121.1.45"})}
# Only filters use them: nothing that is stored depends on them.
OF_FILTERS = re.compile(r"OrderingMatch$|^integerBit(And|Or)Match$")


@dataclass(frozen=True)
class Published:
    """OIDs of syntaxes, names of rules; attribute type in lower case -> the syntax and rules that it has."""

    syntaxes: frozenset[str]
    rules: frozenset[str]
    used_by: dict[str, frozenset[str]]


def _types(definitions: list[str]) -> dict[str, frozenset[str]]:
    """What each attribute type has, of its own or from the super-type."""
    own: dict[str, tuple[str | None, dict[str, str]]] = {}
    for text in definitions:
        found = re.search(r"NAME (?:'([^']+)'|\( ([^)]+)\))", text)
        names = (found[1] and [found[1]]) or re.findall(r"'([^']+)'", found[2]) if found else []
        kinds = dict(re.findall(r"(EQUALITY|SUBSTR|SYNTAX) ([^ {]+)", text))
        sup = re.search(r" SUP ([^ ]+)", text)
        own |= {name.lower(): (sup[1].lower() if sup else None, kinds) for name in names}

    def complete(name: str) -> dict[str, str]:
        sup, kinds = own[name]
        return {**(complete(sup) if sup else {}), **kinds}

    return {name: frozenset(complete(name).values()) for name in own}


def _published(running: Slapd) -> Published:
    wanted = ("ldapSyntaxes", "matchingRules", "attributeTypes")
    ((_, found),) = running.search(attributes=wanted, base="cn=Subschema", scope=ldap.SCOPE_BASE)
    syntaxes, rules, types = ([value.decode() for value in found[name]] for name in wanted)
    return Published(
        frozenset(one.split()[1] for one in syntaxes),
        frozenset(re.findall(r"NAME '(\w+)'", "\n".join(rules))),
        _types(types) | HIDDEN,
    )


@cache
def _met() -> frozenset[str]:
    """Attributes with values in a golden case."""
    texts = (case.ldif() for case in CASES if not case.heavy)
    lines = (text.decode(errors="replace") if isinstance(text, bytes) else text for text in texts)
    names = (name for text in lines for name in re.findall(r"^([\w-]+)(?:;[^:\n]*)?:", text, re.M))
    return frozenset(name.lower() for name in names)


def _modules(root: Path) -> tuple[str, ...]:
    found = {path.stem for path in (root / "usr/lib/ldap").glob("*.so") if "-2." not in path.name}
    return tuple(sorted(found - ALONE - {"back_mdb"}))


@dataclass(frozen=True)
class Everything:
    """A stopped server with all its modules."""

    target: Slapd
    chroot: Chroot | None


@pytest.fixture(scope="module", params=[None, "bullseye", "trixie"], ids=str)
def everything(request: pytest.FixtureRequest) -> Iterator[Everything]:
    made = None
    if request.param:
        require(missing_chroot())
        made = chroot(request.param)
    installation = Installation(prefix=made.prefix) if made else None
    wanted = settings(modules=_modules(made.root if made else Path("/")))
    with closing(server(wanted, installation)) as target:
        yield Everything(target, made)


def test_no_type_is_beyond_the_native_engine(everything: Everything, tmp_path: Path) -> None:
    """It would refuse the configuration, whether an entry has that type or not."""
    ldif = tmp_path / "top.ldif"
    ldif.write_text(top())
    build(everything.target, ldif, chroot=everything.chroot).ok()


def test_every_syntax_and_rule_has_a_golden_case(everything: Everything) -> None:
    """And, of 2.5 and later, a row of docs/compatibility.md."""
    with everything.target as running:
        published = _published(running)
    assert len(published.syntaxes) > 30
    assert len(published.rules) > 35
    shown = {one for name in _met() for one in published.used_by.get(name, ())}
    rules = {one for one in published.rules if not OF_FILTERS.search(one)}
    assert sorted(published.syntaxes - shown) == []
    assert sorted(rules - shown) == []
    if everything.chroot is None or not everything.chroot.version.startswith("2.4."):
        assert published.syntaxes <= {row.oid for row in SYNTAXES}
        assert published.rules <= {row.name for row in RULES}
