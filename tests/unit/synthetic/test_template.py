"""Templates: those shipped are sound, and every mistake is found with its line and column."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest
from msgspec import structs

from loader.errors import NoSuchTemplate, TemplateError, UsageProblem
from loader.sources.dit import TreeSpec
from seeders.synthetic import templates
from tests.support.generating import LISTS, text_of

GOOD = """\
description = "machines"
branches = ["ou=sites", "ou=berlin,ou=sites"]

[lists]
colour = "colours.txt"

[[kinds]]
name = "host"
below = "ou=berlin,ou=sites"
rdn = "cn"

[kinds.values]
name = "host{number:4}"

[kinds.attributes]
objectClass = ["device"]
cn = "{name}"
description = ["{pick:colour}", "{digits:4}"]
"""


def written(directory: Path, text: str) -> TreeSpec:
    (directory / "colours.txt").write_text("rot\ngrün\t2.5\n", "utf-8")
    path = directory / "machines.toml"
    path.write_text(text, "utf-8")
    return TreeSpec(path, LISTS, entries=100)


def values(directory: Path, text: str, extra: str = "") -> list[str]:
    """What becomes of a text, in 100 entries."""
    said = GOOD.replace('["{pick:colour}", "{digits:4}"]', f"'{text}'")
    made = text_of(written(directory, said.replace("[kinds.attributes]", f"{extra}[kinds.attributes]")))
    found = re.findall("^description:(:?) (.*)", made.decode(), re.MULTILINE)
    return [base64.b64decode(value).decode() if encoded else value for encoded, value in found]


@pytest.mark.parametrize("name", templates.shipped())
def test_the_shipped_templates_are_sound(name: str) -> None:
    made = TreeSpec(templates.find(name), LISTS).compiled(default_entries=100)
    assert made.description
    assert made.entries > 100


def test_shipped_lists_can_be_used(tmp_path: Path) -> None:
    text = GOOD.replace("colours.txt", "last-names.txt").replace("{digits:4}", "x")
    assert "description:: " in text_of(written(tmp_path, text)).decode()


def test_the_fingerprint_is_of_what_it_says(tmp_path: Path) -> None:
    made = written(tmp_path, GOOD).compiled().fingerprint
    assert written(tmp_path, "# why\n" + GOOD).compiled().fingerprint == made
    other = GOOD.replace("{digits:4}", "{digits:5}")
    assert written(tmp_path, other).compiled().fingerprint != made
    recipe = written(tmp_path, GOOD)
    (tmp_path / "colours.txt").write_text("rot\n")
    assert recipe.compiled().fingerprint != made


def test_an_unknown_template_names_those_shipped() -> None:
    with pytest.raises(NoSuchTemplate) as caught:
        templates.find("poeple")
    assert "people" in str(caught.value.advice())


@pytest.mark.parametrize(("content", "reason"), [(b"\xff\xfe", "not UTF-8"), (b"x" * (17 << 20), "bytes: a template")])
def test_a_file_that_is_no_template(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(content)
    with pytest.raises(TemplateError, match=reason):
        TreeSpec(path).compiled()


@pytest.mark.parametrize(
    ("old", "new", "place", "reason"),
    [
        ('"machines"', '"machines', (1, 24), ""),
        ("branches =", "branchs =", (2, 1), "unknown key branchs in the template (did you mean br"),
        ('"ou=sites", ', "", (2, 13), "its parent must come before it"),
        ('"ou=sites", ', '"cn=sites", ', (2, 13), "begins with dc=, o=, ou="),
        ('"ou=sites", ', '"ou=sites", "OU=Sites", ', (2, 25), "occurs twice"),
        ("colours.txt", "colors.txt", (5, 10), "no file colors.txt"),
        ("colours.txt", "../colours.txt", (5, 10), "write a name beside the template"),
        ("colours.txt", "/etc/passwd", (5, 10), "write a name beside the template"),
        ('"colours.txt"', "{ red = 0 }", (5, 10), "weights above 0"),
        ('"host{number:4}"', "4", (13, 8), "must be a text in quotes"),
        ("{number:4}", "{nmber}", (13, 13), "unknown tag {nmber} (did you mean number?)"),
        ("{number:4}", "{number:x}", (13, 13), "{number:x}: write {number}"),
        ("{number:4}", "{number:4}{digits:19}", (13, 23), "write a width from 1 to 18"),
        ("{number:4}", "{number}{between:5:3}", (13, 21), "5 is more than 3"),
        ("{number:4}", "{number}{ascii:x}", (13, 21), 'no value "x" before it'),
        ("{number:4}", "{number}{dn:hosts}", (13, 21), 'no kind "hosts" (did you mean host?)'),
        ("{number:4}", "{number}{dn:host}", (13, 8), "it cannot contain a DN or bytes"),
        ('name = "host{', 'pick = "host{', (13, 1), "pick is the name of a tag"),
        ("[[kinds]]", "[[kind]]", (7, 3), "unknown key kind"),
        ('name = "host"\n', "", (7, 1), "name is missing"),
        ('below = "ou=berlin,', 'below = "ou=bonn,', (9, 9), "is not one of the branches"),
        ('below = "ou=berlin,ou=sites"', 'below = { kind = "site" }', (7, 1), 'no kind "site"'),
        ('rdn = "cn"', 'rdn = "uid"', (7, 1), "uid must be an attribute of the entry"),
        ('rdn = "cn"', "", (7, 1), "rdn is missing"),
        ('rdn = "cn"', 'rdn = "cn"\ncount = "half"', (11, 9), "write a number"),
        ('rdn = "cn"', 'rdn = "cn"\ncount = "1 per 2"', (7, 1), "a share needs another kind"),
        ('objectClass = ["device"]', "", (17, 1), "objectClass is missing"),
        ('["device"]', "[1]", (16, 16), "must be a text in quotes"),
        ('"{name}"', '"host"', (17, 6), "without {number} or {unique:...} two could be"),
        ('"{name}"', '{ text = "{name}", chance = 0.5 }', (17, 6), "it must always be present"),
        ("{pick:colour}", "{pick:color}", (18, 17), 'no list "color" (did you mean colour?)'),
        ("{digits:4}", "a{digits:4", (18, 35), "braces do not match"),
        ('"{digits:4}"', '{ text = "x", chance = 2 }', (18, 56), "a number from 0 to 1"),
        ('"{digits:4}"', '{ text = "x", when = "no" }', (18, 33), 'no value or attribute "no"'),
        ('"{digits:4}"', '{ text = "x", count = "many" }', (18, 55), "write a number, between"),
        ('"{digits:4}"', '{ text = "x", often = 1 }', (18, 47), "unknown key often"),
        ("description = [", '"my text" = [', (18, 1), "is not an attribute name"),
        ("description = [", "CN = [", (18, 1), "occurs twice"),
    ],
)
def test_a_mistake_has_its_place(tmp_path: Path, old: str, new: str, place: tuple[int, int], reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        written(tmp_path, GOOD.replace(old, new, 1)).compiled()
    assert "machines.toml: line {}, column {}: ".format(*place) in str(caught.value)
    assert reason in str(caught.value)


def test_a_mistake_in_a_list_is_told_with_its_line(tmp_path: Path) -> None:
    recipe = written(tmp_path, GOOD)
    (tmp_path / "colours.txt").write_text("rot\ngelb\toften\n")
    with pytest.raises(TemplateError, match=r'colours.txt: line 2: "often" is not a weight'):
        recipe.compiled()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('rdn = "cn"', 'rdn = "cn"\ncount = 1000000000000000000', "more than"),
        ('rdn = "cn"', 'rdn = "cn"\ncount = "9999999999999 per 1"', "a share needs"),
        ('"{digits:4}"', '{ text = "x{digits:9}", count = 10000000000 }', "more than 10000000 values"),
        ('"{digits:4}"', '{ text = "{bytes:999999}", count = 100000 }', "the most is"),
        ('"{digits:4}"', '"{bytes:99999999999}"', "write lengths up to"),
        ('"{digits:4}"', '"{argon2:name:99999999:1}"', "KiB"),
        ('"{digits:4}"', "[" * 2000 + "]" * 2000, ""),
        ('"{digits:4}"', ", ".join(['"x"'] * 10_001), "more than 10000 texts"),
        ("[[kinds]]", "".join(f"l{n} = ['x']\n" for n in range(1000)) + "[[kinds]]", "1000 lists"),
    ],
)
def test_a_hostile_template_is_refused(tmp_path: Path, old: str, new: str, reason: str) -> None:
    recipe = structs.replace(written(tmp_path, GOOD.replace(old, new, 1)), entries=None)
    with pytest.raises((TemplateError, UsageProblem)) as caught:
        recipe.compiled(default_entries=100)
    assert reason in str(caught.value)


def test_values_that_grow_by_naming_each_other_are_refused(tmp_path: Path) -> None:
    grown = "".join(f'v{n + 1} = "{{v{n}}}{{v{n}}}"\n' for n in range(63))
    text = GOOD.replace("[kinds.values]", f'[kinds.values]\nv0 = "xxxxxxxxxx"\n{grown}')
    with pytest.raises(TemplateError, match="the most is 268435456"):
        written(tmp_path, text).compiled()


def test_a_permutation_too_small_for_the_entries(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="line 18, column 15: description: 1 digits are too few"):
        values(tmp_path, "{unique:1}")


@pytest.mark.parametrize(
    ("text", "pattern", "different"),
    [
        ("100 % {{plain}}", r"100 % \{plain\}", 1),
        ("{digits:8}", r"\d{8}", 100),
        ("{hex:16}", "[0-9a-f]{16}", 100),
        ("{unique:2}", r"\d\d", 100),
        ("{uuid}", "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", 100),
        ("{between:3:5}", "[345]", 3),
        ("{histogram:1=1,3-4=1}", "[134]", 3),
        ("{zipf:1:3:1.0}", "[123]", 3),
        ("{normal:49:51:50:5}", "49|50|51", 3),
        ("{pick:colour}", "rot|grün", 2),
        ("{ascii:odd}", r"zoeobrien\d+", 100),
        ("{parentdn}", "ou=berlin,ou=sites,dc=example,dc=com", 1),
    ],
)
def test_what_a_tag_makes(tmp_path: Path, text: str, pattern: str, different: int) -> None:
    """In 100 entries, so many different values, and the ends of a range are among them."""
    found = values(tmp_path, text, 'odd = "Zoë O\'Brien-{number}"\n')
    assert [one for one in found if not re.fullmatch(pattern, one)] == []
    assert (len(found), len(set(found))) == (100, different)


def test_numbers_values_and_the_suffix_are_put_in(tmp_path: Path) -> None:
    found = values(tmp_path, "{number} {number:6} {number:1:5000} {name}@{suffix}")
    assert found[12] == "12 000012 5012 host0012@dc=example,dc=com"


def test_names_of_other_entries_and_two_tags_in_one_text(tmp_path: Path) -> None:
    found = values(tmp_path, "{dn:host}")
    assert len(set(found)) > 50
    assert all(re.fullmatch(r"cn=host00\d\d,ou=berlin,ou=sites,dc=example,dc=com", one) for one in found)
    assert all(len(set(one.split())) == 2 for one in values(tmp_path, "{digits:9} {digits:9}")), "drawn apart"


def test_ssha_is_the_password_salted(tmp_path: Path) -> None:
    found = values(tmp_path, "{ssha:odd}", 'odd = "sécret"\n')
    assert len(set(found)) == 100
    raw = base64.b64decode(found[0].removeprefix("{SSHA}"))
    assert hashlib.sha1("sécret".encode() + raw[20:]).digest() == raw[:20]


def test_times_are_within_and_rather_late(tmp_path: Path) -> None:
    found = values(tmp_path, "{time:20100101:20191231235959}")
    assert all("20100101000000Z" <= one <= "20191231235959Z" for one in found)
    assert sum(one > "20150101" for one in found) > 60
