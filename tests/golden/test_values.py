"""Crate `values` against the real slapadd: normal forms and index keys, value by value."""

from __future__ import annotations

import base64
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from fixtures.golden import text
from fixtures.golden.reading import Database
from fixtures.slapd_config import Installation
from tests.support.normaliser import normaliser

pytestmark = pytest.mark.slapd

ROOT = Path(__file__).parents[2]
CRATE = ROOT / "loader/native/values"
SYNTAX = "1.3.6.1.4.1.1466.115.121.1."
IA5_RULES = "1.3.6.1.4.1.1466.109.114."
# name -> number of the syntax, equality rule and its OID, substrings rule and its OID, approx
STRINGS = {
    "tIgnore": (15, "caseIgnore", "2.5.13.2", "2.5.13.4", True),
    "tExact": (15, "caseExact", "2.5.13.5", "2.5.13.7", True),
    "tPhone": (50, "telephoneNumber", "2.5.13.20", "2.5.13.21", False),
    "tNumeric": (36, "numericString", "2.5.13.8", "2.5.13.10", False),
    "tList": (41, "caseIgnoreList", "2.5.13.11", "2.5.13.12", False),
    "tAscii": (26, "caseIgnoreIA5", f"{IA5_RULES}2", f"{IA5_RULES}3", True),
}
ORDERED = {"tTime": (24, "generalizedTime", "time"), "tInteger": (27, "integer", "integer=4")}
Values = dict[str, list[bytes]]


def draw(chance: random.Random, alphabet: str, count: int, longest: int = 24) -> list[bytes]:
    lengths = (chance.randint(1, longest) for _ in range(count))
    return ["".join(chance.choices(alphabet, k=length)).encode() for length in lengths]


def times(chance: random.Random) -> Iterator[bytes]:
    """Days that every month has, so that none is refused; offsets cross them."""
    for _ in range(300):
        day = f"{chance.randint(1, 9998):04}{chance.randint(1, 12):02}{chance.choice((1, 28)):02}"
        clock = f"{chance.choice((0, 23)):02}{chance.choice(('', '00', '5960', '5912'))}"
        fraction = chance.choice(("", ".50", ",000", ".125"))
        offset = chance.choice(("Z", "+01", "-0130", "+2359", "-2359"))
        yield (day + clock + fraction + offset).encode()


def values() -> Values:
    chance = random.Random(11)
    words = draw(chance, "aeioucghstxnkpwbdjmyAÉßﬁ½  '-9", 400)
    tricky = [one.encode() for one in (*text.TRICKY, *text.SPACES)]
    points = [chr(p).encode() for p in range(0x80, 0x30000, 37) if not 0xD800 <= p <= 0xDFFF]
    marks = [chr(p) for p in range(0x300, 0x370)]
    piled = ["".join((chance.choice("aeoÅñ가ᄀཱ"), *chance.choices(marks, k=4))) for _ in range(400)]
    strings = [*words, *tricky, *points, *(one.encode() for one in piled)]
    sizes = (chance.getrandbits(chance.randint(1, 300)) for _ in range(400))
    numbers = [number * chance.choice((1, -1)) for number in sizes]
    edges = [sign * (1 << bit) + one for bit in range(70) for sign in (1, -1) for one in (-1, 0, 1)]
    return {
        "tIgnore": strings,
        "tExact": strings,
        "tPhone": [*draw(chance, "0123456789 -+()A", 100), b"-", b"- -"],
        "tNumeric": [*draw(chance, "0123456789 ", 100), b"  "],
        "tList": [*draw(chance, "ab É$ ", 200), b"$", b"\\24$\\5C"],
        "tAscii": [one for one in words if one.isascii()],
        "tTime": sorted(set(times(chance))),
        "tInteger": [str(one).encode() for one in {*numbers, *edges}],
    }


def schema() -> Iterator[str]:
    for number, (name, (syntax, rule, *_)) in enumerate((STRINGS | ORDERED).items()):
        substrings = f"SUBSTR {rule}SubstringsMatch" if name in STRINGS else ""
        yield (
            f"attributetype ( 1.3.6.1.4.1.99999.9.1.{number} NAME '{name}'"
            f" EQUALITY {rule}Match {substrings} SYNTAX {SYNTAX}{syntax} )"
        )
    names = " $ ".join((*STRINGS, *ORDERED))
    yield f"objectclass ( 1.3.6.1.4.1.99999.9.2 NAME 'tThing' MUST ou MAY ( {names} ) )"


def configuration(place: Path, slapd: Installation) -> Iterator[str]:
    (place / "database").mkdir()
    yield f"include {slapd.schema}/core.schema"
    yield from schema()
    yield from (f"modulepath {slapd.modules}", "moduleload back_mdb", "database mdb")
    yield from ("suffix o=x", "maxsize 268435456", f"directory {place / 'database'}")
    for name in (*STRINGS, *ORDERED):
        approx = ",approx" if name in STRINGS and STRINGS[name][-1] else ""
        yield f"index {name} eq{',sub' if name in STRINGS else ''}{approx}"


def ldif(values: Values) -> Iterator[str]:
    """One value an entry, so that a key belongs to a value."""
    yield "dn: o=x\nobjectClass: organization\no: x\n"
    pairs = ((name, value) for name, found in values.items() for value in found)
    for number, (name, value) in enumerate(pairs, 2):
        encoded = base64.b64encode(value).decode()
        yield f"dn: ou={number},o=x\nobjectClass: tThing\nou: {number}\n{name}:: {encoded}\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Database:
    place, slapd = tmp_path_factory.mktemp("values"), Installation()
    conf, records = place / "slapd.conf", place / "in.ldif"
    conf.write_text("\n".join(configuration(place, slapd)) + "\n")
    records.write_text("\n".join(ldif(values())))
    command = slapd.command("slapadd", "-q", "-f", conf, "-l", records)
    subprocess.run(command, check=True, env=slapd.environment())
    return Database(place / "database")


def ask(questions: Iterable[tuple[str, bytes]]) -> list[str]:
    """What the crate answers to (operation, value)."""
    lines = "".join(f"{operation} {value.hex()}\n" for operation, value in questions)
    return subprocess.run([normaliser()], input=lines, capture_output=True, text=True, check=True).stdout.split("\n")[
        :-1
    ]


def test_normal_forms(made: Database) -> None:
    rules = {name: f"{rule}Match" for name, (_, rule, *_) in (STRINGS | ORDERED).items()}
    entries = filter(None, made.entries().values())
    found = [one for entry in entries for one in entry.attributes if one.name in rules]
    questions = [(rules[one.name], one.values[0]) for one in found if one.normalised]
    expected = [one.normalised[0].hex() for one in found if one.normalised]
    assert len(questions) > 10_000
    answers = ask(questions)
    wrong = [one for one in zip(questions, answers, expected, strict=True) if one[1] != one[2]]
    assert not wrong


def operations(name: str) -> Iterator[str]:
    if name in ORDERED:
        yield ORDERED[name][2]
        return
    syntax, _, equality, substrings, approx = STRINGS[name]
    yield f"hash=4,{name},,{SYNTAX}{syntax},{equality}"
    yield f"substrings=4,{name},{SYNTAX}{syntax},{substrings},2,4,4"
    if approx:
        yield "approx"


@pytest.mark.parametrize("name", [*STRINGS, *ORDERED])
def test_index_keys(made: Database, name: str) -> None:
    asked: list[tuple[int, str, bytes]] = []
    for key, blob in made.rows("id2e"):
        entry = made.blob(blob)
        for one in entry.attributes if entry else ():
            if one.name == name:
                value = (one.normalised or one.values)[0]
                number = int.from_bytes(key, "little")
                asked += [(number, operation, value) for operation in operations(name)]
    expected: dict[bytes, set[int]] = defaultdict(set)
    answers = ask((operation, value) for _, operation, value in asked)
    for (number, _, _), answer in zip(asked, answers, strict=True):
        for found in answer.split():
            expected[bytes.fromhex(found)].add(number)
    assert {key: set(ids) for key, ids in made.index(name).items()} == expected


def test_the_tables_are_current() -> None:
    subprocess.run([sys.executable, str(CRATE / "make_tables.py"), "--check"], check=True)
