"""DNs without a schema against slapdn, which normalises them as slapd does for every comparison."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fixtures.slapd_config import BASE_SCHEMAS, Installation
from loader import dn
from loader.server import configuration, tools

pytestmark = pytest.mark.slapd

TYPES = (
    *("cn", "commonName", "2.5.4.3", "SN", "surname", "o", "OrganizationName", "2.5.4.10"),
    *("ou", "organizationalUnitName", "l", "st", "street", "uid", "userid", "givenName", "gn"),
)
VALUES = (
    *("a", "A", "a b", "A  B", " a b", "a b ", "a,b", "A,b", "a+b", "a=b", 'a"b', "a;b", "a<b>"),
    *("a\\b", "#a", "#61", "é", "É", "e\u0301", "ß", "ﬁ", "fi", "µ", "μ", "\u00a0a", "Ⅷ", "viii", " ", "  "),
)


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("schemas") / "slapd.conf"
    schema = Installation().schema
    path.write_text("".join(f"include {schema}/{name}.schema\n" for name in BASE_SCHEMAS))
    return path


def normal(conf: Path, names: Sequence[str]) -> list[str | None]:
    """What slapdn says of each; None: not a DN. It ends at the first that is none."""
    found: list[str | None] = []
    while len(found) < len(names):
        command = tools.server_tool("slapdn", "-f", str(conf), "-N", *names[len(found) :])
        done = subprocess.run(command, capture_output=True, check=False)
        found += done.stdout.decode().split("\n")[:-1]
        found += [None] if len(found) < len(names) else []
    return found


def spelt(value: str, choice: random.Random) -> str:
    way = choice.randrange(3)
    if way == 0:
        return "".join(f"\\{byte:02x}" for byte in value.encode())
    if way == 1:
        return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
    plain = re.sub(r'([,+=;"<>\\])', r"\\\1", value)
    return re.sub(r"^[ #]| $", lambda found: "\\" + found[0], plain)


def names(seed: int) -> Iterator[str]:
    choice = random.Random(seed)
    for _ in range(600):
        parts = [
            f"{choice.choice(TYPES)}{choice.choice(('', ' '))}={spelt(choice.choice(VALUES), choice)}"
            for _ in range(choice.randint(1, 3))
        ]
        separators = [choice.choice((",", ", ", "+", " + ", ";")) for _ in parts]
        yield "".join(map("".join, zip(parts, [*separators[1:], ""], strict=True)))


@pytest.mark.long("0", "1")
@pytest.mark.parametrize("seed", range(3))
def test_equal_to_slapd(conf: Path, seed: int) -> None:
    """Two DNs have one key if and only if slapd takes them for one DN."""
    written = list(names(seed))
    known = [(name, one) for name, one in zip(written, normal(conf, written), strict=True) if one]
    assert len(known) > 500
    assert len({one for _, one in known}) < len(known), "some are alike"
    keys: dict[str, tuple[str, str]] = {}
    for name, one in known:
        other = keys.setdefault(dn.key(name), (name, one))
        assert other[1] == one, f"{name!r} and {other[0]!r} are not the same to slapd"
    assert len(keys) == len({one for _, one in known}), "what slapd takes for one has two keys"


def test_all_names_of_the_standard_attribute_types(conf: Path) -> None:
    """The core's table of names is complete for the schemas that everybody loads."""
    several = 0
    # DNs, telephone numbers, SASL's rules, settings of slapd: nothing names an entry by them.
    otherwise = r"115\.121\.1\.(12|22|50)\b|4203\.666\.2\.7|OMs"
    entries = [attributes for _, attributes in configuration.read(conf).entries]
    for value in (one for attributes in entries for one in attributes.get("olcAttributeTypes", ())):
        definition = re.sub(r"^\{\d+\}", "", value.decode())
        spelt = re.search(r"NAME \( ([^)]*)\)", definition)
        if spelt and not re.search(otherwise, definition):
            oid, found = definition.split()[1], re.findall(r"'([^']*)'", spelt[1])
            several += 1
            assert len({dn.key(f"{name}=x") for name in (oid, *found)}) == 1, definition
    assert several > 12
