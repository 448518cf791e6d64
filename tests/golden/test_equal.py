"""The heart of it: whatever the LDIF and the settings, each table is the one that `slapadd -q` makes.

A failing seed of a random tree fails again: DITSEED_GOLDEN_SEEDS=1000:3000 pytest tests/golden/test_equal.py -m heavy
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.golden import rules
from fixtures.golden.case import Case, server, settings, tree
from fixtures.golden.random_trees import case as random_case
from fixtures.golden.records import SUFFIX, Records, entry, top
from tests.golden.everything import BY_NAME, PARAMETERS
from tests.support.golden import build, compared, require_fitting

pytestmark = pytest.mark.slapd


@pytest.mark.long("idlexp")
@pytest.mark.parametrize("case", PARAMETERS)
def test_equal_to_slapadd(case: Case, tmp_path: Path) -> None:
    require_fitting(case)
    found = compared(case, tmp_path)
    assert not found, f"{case.shows}:\n" + "\n".join(found)


HEAVY = range(*map(int, os.environ.get("DITSEED_GOLDEN_SEEDS", "100:600").split(":")))


@pytest.mark.parametrize("seed", range(12))
def test_random_tree(seed: int, tmp_path: Path) -> None:
    assert compared(random_case(seed), tmp_path) == []


@pytest.mark.heavy
@pytest.mark.timeout(0)
def test_many_random_trees(tmp_path: Path) -> None:
    every = {seed: compared(random_case(seed, entries=200), tmp_path) for seed in HEAVY}
    failed = {seed: found[:3] for seed, found in every.items() if found}
    assert not failed, failed


@pytest.mark.parametrize("name", ["scattered", "context-made"])
def test_what_slapadd_is_given(name: str, tmp_path: Path) -> None:
    """Scattered values, which it leaves apart or refuses when it is given them as they are; and the option -w."""
    assert compared(BY_NAME[name], tmp_path, engine="slapadd") == []


def test_thousands_of_parents_that_come_late(tmp_path: Path) -> None:
    """In another order than their children, more than is sorted in memory; between them entries that nobody moves, some
    in long rows, some alone. Values are large, so that what is sorted does not fit."""
    chance, units = random.Random(1), list(enumerate(f"ou=late {number},{SUFFIX}" for number in range(3000)))

    def person(name: str, above: str = SUFFIX) -> str:
        pairs = [("objectClass", "person"), ("cn", name), ("sn", "x"), ("description", name * 200)]
        return entry(f"cn={name},{above}", pairs)

    parts = [top(), *(person(f"c {n}", dn) for n, dn in chance.sample(units, len(units)))]
    for place, (n, dn) in enumerate(chance.sample(units, len(units))):
        pairs = [("objectClass", "organizationalUnit"), ("ou", f"late {n}"), ("description", f"{n} " * 600)]
        between = 200 if place % 1000 == 0 else place % 3 == 0
        parts += [entry(dn, pairs), *(person(f"p {place} {at}") for at in range(between))]
    wanted = settings("objectClass,cn,ou eq")
    assert compared(Case("late", "", wanted, lambda: "".join(parts), ours=("--memory", "16M")), tmp_path) == []


LETTERS = "#;,:/=() {}\"'$?%.<>*uUdg01aZ["
SOURCES: dict[str, tuple[object, ...]] = {
    **{name: rules.RARE[name] for name in ("gFirstOid", "gFirstInteger", "gSid", "gRdn")},
    "reqStart": rules.TIMES,
    "reqControls": rules.CONTROLS,
    "pwdAttribute": ("userPassword", "2.5.4.35", "cn;lang-de", "cn;x"),
}
WANTED = settings("objectClass,pwdAttribute,reqStart,reqControls eq", modules=("ppolicy", "accesslog"))


def _mutated(chance: random.Random, value: str) -> str:
    letters = list(value)
    for _ in range(chance.choice((0, 1, 1, 2))):
        at = chance.randrange(len(letters))
        change = chance.choice(("", chance.choice(LETTERS), letters[at] + chance.choice(LETTERS)))
        letters[at] = change
    return "".join(letters)


def _records(seed: int) -> Iterator[tuple[str, str]]:
    chance = random.Random(seed)
    for name, values in SOURCES.items():
        for _ in range(40):
            yield name, _mutated(chance, str(chance.choice(values)))


def _tree(values: list[tuple[str, str]]) -> str:
    def mutated(base: str) -> Records:
        classes = [("objectClass", "device"), ("objectClass", "extensibleObject"), ("cn", "x")]
        for number, pair in enumerate(values):
            yield entry(f"cn=m{number},{base}", [*classes, pair])

    return tree(mutated)


@pytest.mark.parametrize("seed", [1, 2])
def test_values_with_a_letter_wrong(tmp_path: Path, seed: int) -> None:
    """What the native engine takes of the rarer rules is what slapadd takes, and is stored as slapadd does."""
    ldif, values = tmp_path / "mutated.ldif", list(_records(seed))
    ldif.write_text(_tree(values))
    with closing(server(WANTED)) as theirs, closing(server(WANTED)) as ours:
        where = [*theirs.config_arguments, "-b", theirs.suffix]
        theirs.tool("slapadd", "-c", *where, "-l", str(ldif))
        build(ours, ldif, "--no-value-check", "--max-rejects", 10_000)
        kept, taken = (set(map(int, re.findall(r"^dn: cn=m(\d+),", one.slapcat(), re.M))) for one in (theirs, ours))
    assert taken == kept, [values[n] for n in taken ^ kept]
    assert len(taken) > 100
    case = Case("taken", "", WANTED, lambda: _tree([values[n] for n in sorted(taken)]), ours=("--no-value-check",))
    assert compared(case, tmp_path) == []


def test_the_tables_of_unicode_are_current() -> None:
    script = Path(__file__).parents[2] / "loader/native/values/make_tables.py"
    subprocess.run([sys.executable, script, "--check"], check=True)
