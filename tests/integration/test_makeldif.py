"""Templates of makeldif: what the real one makes of them and what ours does, and OpenDJ takes it.

Theirs come sorted and in their own order of entries; what is compared are entries by their DN, with sorted lines.
"""

from __future__ import annotations

import math
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.opendj import OpenDJ, makeldif, missing_opendj, set_up
from tests.support.command import ditseed
from tests.support.require import require

HERE = Path(__file__).parents[2] / "fixtures" / "makeldif"
OURS = sorted(path.stem for path in HERE.glob("*.template"))
SHIPPED = ("addrate", "example", "people_and_groups")  # by OpenDJ
NO_CHANCE = ("deep", "extends", "hierarchy", "managers", "school", "suffixes")
A_FEW = ("formats", "mail", "multivalued")
FIRST, LAST = ("Ann", "Bob", "Cid"), ("Xu", "Young", "Zed", "West")
SUFFIX = "dc=example,dc=com"

Entries = dict[str, list[str]]  # sorted lines by DN


@pytest.fixture(scope="module", autouse=True)
def _opendj() -> None:
    require(missing_opendj())


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ours, with lists beside them that both find. Those of names are short: pairs soon come to their end."""
    place = tmp_path_factory.mktemp("templates") / "makeldif"
    shutil.copytree(HERE, place)
    (place / "first.names").write_text("".join(f"{name}\n" for name in FIRST))
    (place / "last.names").write_text("".join(f"{name}\n" for name in LAST))
    for lists in ("cities", "states", "streets"):
        shutil.copy(set_up() / "config" / "MakeLDIF" / lists, place)
    return place


def entries_of(text: str) -> Entries:
    """An empty value is none. LDIF that is not folded."""
    found: Entries = {}
    for record in text.strip().split("\n\n"):
        dn, *lines = (line.rstrip() for line in record.split("\n"))
        assert dn not in found
        found[_escapes(dn)] = sorted(_escapes(line) for line in lines if not line.endswith(":"))
    return found


def _escapes(line: str) -> str:
    """In the one form that ours has: `\\,` is `\\2C` in names."""
    return re.sub(r'\\([,+"\\<>;=# ])', lambda escaped: f"\\{ord(escaped[1]):02X}", line)


def made(template: Path, *options: object) -> str:
    return ditseed("generate", template, "--progress", "none", *options).ok().out


def both(template: Path) -> tuple[Entries, Entries]:
    """Theirs and ours. makeldif 4.9.3 forgets the object classes of branches, which its manual promises."""
    output = template.with_suffix(".theirs")
    makeldif(template, output, template.parent)
    theirs, ours = entries_of(output.read_text()), entries_of(made(template))
    for dn, lines in theirs.items():
        if not any(line.startswith("objectClass:") for line in lines):
            ours[dn] = [line for line in ours[dn] if not line.startswith(("objectClass:", "o:"))]
            theirs[dn] = [line for line in lines if not line.startswith("o:")]
    return theirs, ours


@pytest.mark.parametrize("name", NO_CHANCE)
def test_what_does_not_hang_on_chance_is_the_same(name: str, templates: Path) -> None:
    theirs, ours = both(templates / f"{name}.template")
    assert ours == theirs


WHOLE = r"""# every tag that does not hang on chance
define base=dc=Example, dc=com
define Num=2
define empty=

branch: [base]
objectClass: domain
description: <DN> and <RDN>
DESCRIPTION: a <sequential:5>
o: x{dc}y{description:3}

branch: ou=People,[base]
objectClass: organizationalUnit
subordinateTemplate: person:[num]
# in between
seeAlso: <DN:1> <DN:-1> <dn:-2> <_DN>
l: <ifpresent:ou:People>yes<ifabsent:seeAlso:x>
l: <ifabsent:ou>no

branch: ou=Groups,[BASE]
objectclass: top
objectClass: TOP
subordinateTemplate: parent:2
subordinateTemplate: person:9

template: person
rdnAttr: UID
objectClass: top
objectClass: inetOrgPerson
givenname: <first>
surname: <last>
commonName: {givenName} {sn}
employeeNumber: <sequential>
uid: user.{employeenumber}
uid: second.{employeenumber}
uidNumber: <sequential:100:true>
gidNumber: <sequential:-3:false>
labeledURI:: Zm9v
jpegPhoto:< file:///etc/hostname
street: <file:departments.txt:sequential> x\{y\}\<z\>\[q\]\\w
title: no [b r] [num] \[[num]\]
empty: [empty]
trail: foo [empty]
utf: Zoë Ünal
displayName: {givenname:2}{utf:3}{surname:0}
displayName: <StaticText:foo> < File : departments.txt : SEQUENTIAL >
manager: <ParentDN> <_ParentDN> <RDN> <DN>
destinationIndicator: <random:numeric:5:5> <random:numeric:12345:12345:#,##0> <random:chars:x:3>
nis: <ifpresent:uid:user.0>yes
nis: <ifpresent:uid:second.1>also
nis: <ifabsent:uid:user.0>no
nis: <ifabsent:cn>never
host: <presence:0>never
host: <presence:100>always
st: {host}<list:a,b,c;0:d>
l: a line that goes on
  and on, in {st}

template: parent
subordinateTemplate: person:[num]
rdnAttr: cn+l
objectClass: device
cn: dev, <sequential:1>
l: <file:departments.txt:sequential>
"""


def test_every_tag_that_does_not_hang_on_chance_is_the_same(templates: Path) -> None:
    template = templates / "whole.template"
    template.write_text(WHOLE)
    theirs, ours = both(template)
    assert len(ours) == 3 + 2 + 2 * 3 + 9
    assert ours == theirs


def by_chance() -> Iterator[object]:
    """Each starts a Java: a few of them always, the others by hand."""
    for name in sorted({*OURS} - {*NO_CHANCE}):
        yield pytest.param(name, marks=() if name in A_FEW else pytest.mark.heavy)


@pytest.mark.parametrize("name", [*by_chance()])
def test_what_hangs_on_chance_has_the_same_shape(name: str, templates: Path) -> None:
    theirs, ours = both(templates / f"{name}.template")
    assert len(ours) == len(theirs)
    theirs_found, ours_found = shapes(theirs.values()), shapes(ours.values())
    assert ours_found.keys() == theirs_found.keys()
    for attribute, values in theirs_found.items():
        mine = ours_found[attribute]
        assert abs(len(mine) - len(values)) <= 4 * math.sqrt(len(values)), attribute
        assert letters(mine) ^ letters(values) <= RARE, attribute
        assert longest(mine) == pytest.approx(longest(values), rel=0.35, abs=2), attribute


# Signs of base64 that a short text may lack.
RARE = {"+", "/", "="}


def shapes(entries: Iterable[list[str]]) -> dict[str, list[str]]:
    """The values of each attribute."""
    found: dict[str, list[str]] = {}
    for lines in entries:
        for line in lines:
            attribute, _, value = line.partition(":")
            found.setdefault(attribute, []).append(value)
    return found


def letters(values: Iterable[str]) -> set[str]:
    text = "".join(values)
    return set(re.sub("[a-z]", "a", re.sub("[A-Z]", "A", re.sub("[0-9]", "9", text))))


def longest(values: Iterable[str]) -> int:
    return max(map(len, values))


def test_opendj_imports_what_is_made(tmp_path: Path) -> None:
    """All in one import, each template below a name of its own."""
    whole = tmp_path / "all.ldif"
    counts: Counter[str] = Counter()
    with whole.open("w") as out:
        out.write(f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n")
        for template in (*HERE.glob("*.template"), *theirs()):
            text = made(template, *below(template.stem))
            counts[template.stem] = text.count("\n\n")
            out.write(text)
    assert len(counts) >= 20
    with closing(OpenDJ()) as server:
        assert server.load(whole) == 1 + counts.total()


def theirs() -> Iterator[Path]:
    place = set_up() / "config" / "MakeLDIF"
    yield from (place / f"{name}.template" for name in SHIPPED)


def below(name: str) -> list[str]:
    """Options that put the tree of a template below the one suffix that OpenDJ has here."""
    places = {"suffix": f"dc={name}"}
    if name == "suffixes":
        places = {"suffix1": "dc=a", "suffix2": "o=b", "suffix3": "dc=c,dc=a"}
    defines = {define: f"{place},{SUFFIX}" for define, place in places.items()}
    if name == "example":
        defines["numusers"] = "100"
    options = [part for one, value in defines.items() for part in ("--define", f"{one}={value}")]
    return [*options, "-n", "100"] if name == "addrate" else options


def test_the_shipped_ones_have_the_entries_of_theirs(tmp_path: Path) -> None:
    """With OpenDJ's own names, which lie beside them."""
    for template in theirs():
        if template.stem == "addrate":
            continue  # makeldif never ends
        output = tmp_path / "theirs"
        makeldif(template, output, template.parent)
        found, ours = entries_of(output.read_text()), entries_of(made(template))
        names = ("givenName:", "sn:", "cn:", "uid:", "mail:", "employeenumber:", "ou:")
        assert picked(ours, names) == picked(found, names)


def picked(entries: Entries, starts: tuple[str, ...]) -> Entries:
    return {dn: [line for line in lines if line.startswith(starts)] for dn, lines in entries.items()}


def test_entries_are_made_alone_and_in_pieces(templates: Path) -> None:
    template = templates / "subscribers.template"
    whole = made(template)
    pieces = [made(template, "--range", cut, "--jobs", "2") for cut in ("0:1", "1:100", "100:182")]
    assert "".join(pieces) == whole
    records = whole.split("\n\n")
    for number in (0, 1, 2, 61, 62, 181):
        assert ditseed("generate", "show", template, number).ok().out == records[number] + "\n\n"
    assert made(template, "--seed", "2") != whole


def test_counts_and_suffixes_are_the_callers(templates: Path) -> None:
    users = templates / "users.template"
    assert made(users, "--define", "NumUsers=3").count("uid: ") == 3
    assert "uid=user.1,ou=People,o=else\n" in made(users, "--suffix", "o=else")
    groups = made(templates / "big-groups.template", "--suffix", "o=else")
    assert "uniqueMember: uid=user." in groups
    assert "dc=example" not in groups
    addrate = next(theirs())
    assert "say how many" in ditseed("generate", addrate).err
    assert made(addrate, "-n", 4).count("uid: ") == 4
