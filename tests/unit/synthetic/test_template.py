"""Templates: those shipped are sound, and every mistake is found with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.errors import NoSuchTemplate, TemplateError
from seeders.synthetic import template

GOOD = """\
description = "machines"
branches = ["ou=sites", "ou=berlin,ou=sites"]

[lists]
colour = "colours.txt"

[values]
name = "host{number:4}"

[entry]
below = "ou=berlin,ou=sites"
rdn = "cn"

[entry.attributes]
objectClass = ["device"]
cn = "{name}"
description = ["{pick:colour}", "{digits:4}"]
"""


def written(directory: Path, text: str) -> str:
    (directory / "colours.txt").write_text("rot\ngrün\n", "utf-8")
    path = directory / "machines.toml"
    path.write_text(text, "utf-8")
    return str(path)


def test_the_shipped_templates_are_sound() -> None:
    assert "people" in template.shipped()
    for name in template.shipped():
        assert template.load(name).description


def test_a_template_of_ones_own(tmp_path: Path) -> None:
    made = template.load(written(tmp_path, GOOD))
    assert (made.name, made.rdn, made.below) == ("machines", "cn", "ou=berlin,ou=sites")
    assert made.lists == {"colour": ("rot", "grün")}
    assert made.attributes["description"] == ("{pick:colour}", "{digits:4}")


def test_shipped_lists_can_be_used(tmp_path: Path) -> None:
    made = template.load(written(tmp_path, GOOD.replace("colours.txt", "last-names.txt")))
    assert "Müller" in made.lists["colour"]


def test_the_fingerprint_is_of_what_it_says(tmp_path: Path) -> None:
    made = template.load(written(tmp_path, GOOD))
    assert template.load(written(tmp_path, "# why\n" + GOOD)).fingerprint == made.fingerprint
    other = template.load(written(tmp_path, GOOD.replace("{digits:4}", "{digits:5}")))
    assert other.fingerprint != made.fingerprint


def test_an_unknown_template_names_those_shipped() -> None:
    with pytest.raises(NoSuchTemplate) as caught:
        template.load("poeple")
    assert "people" in str(caught.value.advice())


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(TemplateError, match="not UTF-8"):
        template.load(str(path))


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ('"machines"', '"machines', 1, ""),
        ("branches =", "branch =", 2, "unknown key branch (there are: branches,"),
        ('"ou=sites", ', "", 2, "its parent 'ou=sites' must stand before it"),
        ('"ou=sites", ', '"cn=sites", ', 2, "a branch begins with ou="),
        ("colours.txt", "colors.txt", 5, "no file colors.txt"),
        ('"host{number:4}"', "4", 8, "must be a text in quotes"),
        ("{number:4}", "{nr}", 8, "unknown tag {nr}"),
        ("name =", "pick =", 8, "pick is the name of a tag"),
        ("[entry]", "[entries]", 10, "unknown key entries"),
        ('below = "ou=berlin,', 'below = "ou=bonn,', 11, "is not one of the branches"),
        ('rdn = "cn"', 'rdn = "uid"', 12, "uid must be an attribute of the entry"),
        ('rdn = "cn"', "", 10, "rdn is missing"),
        ('objectClass = ["device"]', "", 14, "objectClass is missing"),
        ('["device"]', "[1]", 15, "must be a text, or a list of texts"),
        ('"{name}"', '"host"', 16, "without {number} two could have one name"),
        ("{pick:colour}", "{pick:color}", 17, "no such list (there are: colour)"),
        ("{digits:4}", "{digits:4", 17, "braces do not match"),
        ("description = [", '"my text" = [', 17, "is not an attribute name"),
        ("description = [", "CN = [", 14, "an attribute stands twice"),
    ],
)
def test_a_mistake_is_told_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, reason: str
) -> None:
    with pytest.raises(TemplateError) as caught:
        template.load(written(tmp_path, GOOD.replace(old, new, 1)))
    assert f"line {line}" in str(caught.value)
    assert reason in str(caught.value)
    assert "machines.toml" in str(caught.value)
