"""Templates of OpenDJ's makeldif become templates of ours, or are refused with their line."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.errors import TemplateError
from loader.sources.dit import Template, TreeSpec
from seeders.synthetic import makeldif, templates
from tests.support.generating import LISTS, text_of

FIXTURES = Path(__file__).parents[3] / "fixtures" / "makeldif"
HEAD = """define suffix=dc=example,dc=com
define n=2
define longer=[n]0

branch: [suffix]

branch: ou=People,[suffix]
subordinateTemplate: person:[n]

template: person
rdnAttr: uid
objectClass: person
uid: u<sequential>
"""
ENTRIES = {
    "big-groups": 3 + 40 + 6 + 1,
    "escapes": 2 + 8,
    "hierarchy": 2 + 3 + 3 * 2 + 3 * 2 * 4 + 2,
    "mail": 2 + 40,
    "multivalued": 2 + 40,
    "posix": 3 + 25 + 5,
    "school": 2 + 3 + 3 * 12,
    "subscribers": 2 + 60 + 60 * 2,
    "users": 2 + 50,
}


def converted(directory: Path, text: str, **defines: str) -> str:
    path = directory / "a.template"
    path.write_text(text)
    return makeldif.convert(path, defines)


def compiled(directory: Path, text: str, suffix: str | None = None, entries: int | None = None) -> Template:
    converted_text = converted(directory, text)
    return TreeSpec(directory / "a.template", LISTS, 1, suffix, entries, converted_text).compiled()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("cn: plain", 'cn = "plain"'),
        ("cn: plain\nCN: other", 'cn = ["plain", "other"]'),
        ("cn: a line\n  that goes on", 'cn = "a line that goes on"'),
        ("jpegPhoto:: text", 'jpegPhoto = "text"'),
        ("cn: <random:chars:xxy:2>", 'cn = "{pick:letters}{pick:letters}"'),
        ("cn: [n] of [longer] \\[n\\]", 'cn = "2 of 20 [n]"'),
        ('cn: \\<b\\> \\{x\\} "q" \\\\', 'cn = "<b> {{x}} \\"q\\" \\\\"'),
        ("cn: uid=x,ou=People,[suffix]", 'cn = "uid=x,ou=People,{suffix}"'),
        ("cn: {uid}", 'uid = "u{number}"'),
        ("cn: {uid} {UID:2}", 'cn = "{uid} {uid:2}"'),
        ("surname: x\ncn: {sn}", 'cn = "{surname}"'),
        ("cn: <first> <Last>", 'cn = "{pick:first-names} {pick:last-names}"'),
        ("l: <file:cities>", 'cities = "places.txt"'),
        ("cn: <guid> <random:uuid>", 'cn = "{uuid} {uuid}"'),
        ("cn: < ParentDN > x", 'cn = "{parentdn} x"'),
        ("cn: <sequential:5> <sequential:7:true>", 'cn = "{number:0:5} {number:0:7}"'),
        ("cn: <random:alpha:3> <random:alphanumeric:2:5>", 'cn = "{chars:alpha:3} {chars:mixed:between:2:5}"'),
        ("cn: <random:hex:4> <random:base64:20>", 'cn = "{chars:hex:4} {chars:base64:20}"'),
        ("cn: <random:numeric:5> <random:numeric:1:28>", 'cn = "{digits:5} {between:1:28}"'),
        ("cn: <random:telephone>", 'cn = "+1 {digits:3} {digits:3} {digits:4}"'),
        ("l: <list:a:b c:d.e>", 'l = ["a", "b c", "d.e"]'),
        ("l: <list:a;2:b>", "l = { a = 2, b = 1 }"),
        ("cn: <presence:25>x", 'cn = { text = "x", chance = 0.25 }'),
        ("l: <presence:5>x\ncn: y{l}", 'l = { text = "{l}", when = ["l"] }'),
    ],
)
def test_a_line_becomes_one_of_ours(lines: str, expected: str, tmp_path: Path) -> None:
    text = HEAD + lines + "\n"
    assert expected in converted(tmp_path, text).splitlines()
    template = compiled(tmp_path, text)
    assert b"dn: uid=u1,ou=People,dc=example,dc=com\n" in template.entry(3)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("cn: <DN>", "line 14: <DN> has no equivalent"),
        ("cn: <rdn>", "<rdn> has no equivalent"),
        ("cn: <_ParentDN>", "<_ParentDN> has no equivalent"),
        ("cn: <file:cities:sequential>", "<file:cities:sequential> has no equivalent"),
        ("cn: <file:nothing>", "no such file beside the template"),
        ("cn: <random:chars:xy:3:5>", "<random:chars:xy:3:5> has no equivalent"),
        ("cn: <random:month>", "<random:month> has no equivalent"),
        ("cn: <ifpresent:uid>x", "<ifpresent:uid> has no equivalent"),
        ("cn: <random:numeric:-9:-1>", "<random:numeric:-9:-1> has no equivalent"),
        ("cn: <random:numeric:999999999>", "has no equivalent"),
        ("cn: <sequential:-3>", "has no equivalent"),
        ("cn: <nonsense>", "<nonsense> has no equivalent"),
        ("cn: <>", "<> has no equivalent"),
        ("cn: a < b", "< is not closed"),
        ("cn: {sn}", "no line before this one makes sn"),
        ("cn: {cn}", "no line before this one makes cn"),
        ("cn: {uid:x}", "{uid:x} has no equivalent"),
        ("cn: [m]", "no define named m"),
        ("cn", "expected ATTRIBUTE: VALUE"),
        ("subordinateTemplate: person:1", "below itself"),
        ("subordinateTemplate: nobody:1", "no template named nobody"),
        ("subordinateTemplate: person:many", "'many' is not a number"),
        ("extends: other", "extends: has no equivalent"),
        ("\ntemplate: Person", "a template Person already"),
        ("\ninclude a.b", "cannot be included"),
        ("\nbranch: o=else", "branch o=else is not below dc=example,dc=com"),
        ("\nbranch: x=y,[suffix]\ncn: a", "objectClass is missing"),
        ("\nbranch: ou=a,[suffix]\ncn: a\nsn: {cn}", "in a branch has no equivalent"),
        ("\nbranch: ou=a,[suffix]\nsubordinateTemplate: q:1\n\ntemplate: q\ncn: a", "template q has no rdnAttr"),
        ("\n" + "".join(f"define x{n + 1}=[x{n}][x{n}]\n" for n in range(64)), "no define named x0"),
        ("\ndefine x0=aa\n" + "".join(f"define x{n + 1}=[x{n}][x{n}]\n" for n in range(64)), "with its defines"),
    ],
)
def test_what_is_refused_has_its_line(lines: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match=r"a\.template: line \d+: ") as refused:
        converted(tmp_path, HEAD + lines + "\n")
    assert reason in str(refused.value)


@pytest.mark.parametrize("name", sorted(path.stem for path in FIXTURES.glob("*.template")))
def test_templates_as_people_write_them(name: str) -> None:
    path = FIXTURES / f"{name}.template"
    made = text_of(TreeSpec(path, LISTS, converted=makeldif.convert(path, {})))
    assert made.count(b"\n\n") == ENTRIES[name]
    assert made.count(b"objectClass: ") >= ENTRIES[name]
    assert len({line for line in made.splitlines() if line.startswith(b"dn: ")}) == ENTRIES[name]


def test_thirty_million_and_the_last_of_them() -> None:
    path = FIXTURES / "users.template"
    text = makeldif.convert(path, {"NumUsers": "30000000"})
    template = TreeSpec(path, LISTS, suffix="o=else", converted=text).compiled()
    assert template.entries == 30_000_002
    last = template.entry(30_000_001).decode()
    assert "dn: uid=user.30000000,ou=People,o=else\n" in last
    assert "employeeNumber: 30000000\n" in last


def test_a_template_that_is_used_twice_counts_on(tmp_path: Path) -> None:
    """Below each unit a branch with a name that all units share, as in OpenDJ's people_and_groups.template."""
    text = """branch: o=test
subordinateTemplate: unit:3

template: unit
rdnAttr: ou
subordinateTemplate: people:1
subordinateTemplate: person:1
objectClass: organizationalUnit
ou: unit <sequential:1>

template: people
rdnAttr: ou
subordinateTemplate: person:4
objectClass: organizationalUnit
ou: People

template: person
rdnAttr: cn
objectClass: person
cn: <sequential>
sn: <last>
seeAlso: <ParentDN>
"""
    converted_text = converted(tmp_path, text)
    made = text_of(TreeSpec(tmp_path / "a.template", LISTS, converted=converted_text)).decode()
    names = {line for line in made.splitlines() if line.startswith("cn: ")}
    assert names == {f"cn: {number}" for number in range(3 * 4 + 3)}
    assert "dn: ou=People,ou=unit 3,o=test\n" in made


def test_mistakes_of_the_converted_template_are_told(tmp_path: Path) -> None:
    """A template without a count takes it from the caller."""
    assert compiled(tmp_path, HEAD.replace("person:[n]", "person"), entries=7).entries == 9
    with pytest.raises(TemplateError, match=r"cn names the entries.*`ditseed generate show` prints"):
        compiled(tmp_path, HEAD.replace("rdnAttr: uid", "rdnAttr: cn") + "cn: always the same\n")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.template", "# c\n\ndefine a=1\n", True),
        ("a", "Branch: dc=x\n", True),
        ("a.template", "brunch: dc=x\n", True),
        ("a.TOML", "branch: dc=x\n", False),
        ("a", '# c\ndescription = "x"\n', False),
        ("a", "[lists]\n", False),
        ("a", "", False),
    ],
)
def test_it_is_told_from_toml(name: str, text: str, expected: bool, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert (templates.located(str(path))[2] is not None) is expected
