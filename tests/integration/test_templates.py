"""What the shipped templates make is taken by slapd, by ditseed alike, and by OpenDJ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures import schema_forms
from fixtures.golden.tables import differences
from fixtures.opendj import OpenDJ, missing_opendj
from seeders.synthetic import templates
from tests.support.accounts import server
from tests.support.command import ditseed
from tests.support.require import require

pytestmark = pytest.mark.slapd

SHIPPED = tuple(templates.shipped())
ENTRIES = 600
FOR_OPENDJ = ("people", "accounts", "campus")  # it knows neither 2.5.6.6 for a class nor values with line ends in names


def generate(template: str, target: Path, *more: object) -> Path:
    done = ditseed("generate", template, "-n", ENTRIES, "--progress", "none", *more).ok()
    target.write_text(done.out)
    return target


@pytest.mark.parametrize("template", SHIPPED)
def test_slapd_finds_no_fault_with_any_value(template: str, tmp_path: Path) -> None:
    ldif = generate(template, tmp_path / "tree.ldif")
    with closing(server()) as target:
        where = (*target.config_arguments, "-b", target.suffix)
        target.tool("slapadd", "-u", "-o", "value-check=yes", *where, "-l", ldif)


@pytest.mark.parametrize("template", SHIPPED)
def test_a_build_is_what_slapadd_makes(template: str, tmp_path: Path) -> None:
    ldif = generate(template, tmp_path / "tree.ldif", "--operational")
    with closing(server()) as oracle, closing(server()) as ours:
        oracle.slapadd(ldif)
        ditseed("build", ldif, "--config", ours.config_path, "-b", ours.suffix).ok()
        assert differences(oracle.database_dir, ours.database_dir) == []


@pytest.fixture(scope="module")
def opendj() -> Iterator[OpenDJ]:
    """Stopped; it knows the schemas of ours."""
    require(missing_opendj())
    with closing(OpenDJ()) as made:
        for schema in schema_forms.shipped():
            place = made.root / "config" / "schema" / f"99-{schema.stem}.ldif"
            place.write_text(_for_opendj(schema))
        yield made


def _for_opendj(schema: Path) -> str:
    """The LDIF of OpenDJ's schema directory: the same definitions under the names of RFC 4512."""
    names = {"olcAttributeTypes": "attributeTypes", "olcObjectClasses": "objectClasses"}
    lines = [f"{names[name]}: {value}" for name, value in schema_forms.definitions_of(schema)]
    head = ["dn: cn=schema", "objectClass: top", "objectClass: ldapSubentry", "objectClass: subschema"]
    return "\n".join([*head, *lines, ""])


@pytest.mark.long
@pytest.mark.parametrize("template", FOR_OPENDJ)
def test_opendj_imports_it(opendj: OpenDJ, template: str, tmp_path: Path) -> None:
    ldif = generate(template, tmp_path / "tree.ldif")
    assert opendj.load(ldif) == len(re.findall(r"(?m)^dn:", ldif.read_text()))
