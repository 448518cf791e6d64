"""What the shipped templates make is taken by slapd, by ditseed alike, and by OpenDJ; so is what converted templates of
makeldif make, whose trees are of the kind that OpenDJ's makeldif makes."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures import schema_forms
from fixtures.golden.records import pairs_of
from fixtures.golden.tables import differences
from fixtures.opendj import OpenDJ, makeldif, missing_opendj, set_up
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import record
from seeders.synthetic import templates
from tests.support.accounts import server
from tests.support.adding import TOP
from tests.support.command import ditseed
from tests.support.require import require

SHIPPED = tuple(templates.shipped())
ENTRIES = 600
FOR_OPENDJ = ("people", "accounts", "campus")  # it knows neither 2.5.6.6 for a class nor values with line ends in names


def made(template: object, *options: object) -> str:
    return ditseed("generate", template, "--progress", "none", *options).ok().out


@pytest.mark.slapd
@pytest.mark.parametrize("template", SHIPPED)
def test_a_build_is_what_slapadd_makes(template: str, tmp_path: Path) -> None:
    """slapadd finds no fault with any value."""
    ldif = tmp_path / "tree.ldif"
    ldif.write_text(made(template, "-n", ENTRIES, "--operational"))
    with closing(server()) as oracle, closing(server()) as ours:
        oracle.slapadd(ldif, "-u", "-o", "value-check=yes")
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
@pytest.mark.slapd
@pytest.mark.parametrize("template", FOR_OPENDJ)
def test_opendj_imports_it(opendj: OpenDJ, template: str, tmp_path: Path) -> None:
    ldif = tmp_path / "tree.ldif"
    ldif.write_text(made(template, "-n", ENTRIES))
    assert opendj.load(ldif) == len(re.findall(r"(?m)^dn:", ldif.read_text()))


FIXTURES = Path(__file__).parents[2] / "fixtures" / "makeldif"
SUFFIX = "dc=example,dc=com"


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OpenDJ's templates and ours, with OpenDJ's lists of names, streets and cities beside them."""
    require(missing_opendj())
    directory = tmp_path_factory.mktemp("templates") / "makeldif"
    shutil.copytree(set_up() / "config" / "MakeLDIF", directory)
    shutil.copytree(FIXTURES, directory, dirs_exist_ok=True)
    return directory


def shape(text: str) -> tuple[Counter[str], set[str]]:
    """How many entries are below each parent, and which attributes there are, but those of a branch's name alone."""
    records = [record.splitlines() for record in text.strip().split("\n\n")]
    below = Counter(record[0].partition(",")[2].lower() for record in records)
    attributes = {line.partition(":")[0].lower() for record in records for line in record if not line.endswith(":")}
    return below, attributes - {"o", "dc", "objectclass"}


@pytest.mark.long
def test_the_tree_has_the_shape_of_makeldif(converted: Path, tmp_path: Path) -> None:
    """Each run starts a JVM, so a few stand for all."""
    for name in ("big-groups", "hierarchy", "people_and_groups", "posix"):
        output = tmp_path / f"{name}.ldif"
        makeldif(converted / f"{name}.template", output, converted)
        assert shape(made(converted / f"{name}.template")) == shape(output.read_text()), name


@pytest.mark.long
def test_opendj_imports_what_is_made(converted: Path, tmp_path: Path) -> None:
    """All in one import, each template below a branch of its own."""
    whole = tmp_path / "all.ldif"
    entries = 1
    with whole.open("w") as out:
        out.write(f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n")
        for template in sorted(converted.glob("*.template")):
            options = ["-n", "100"] if template.stem == "addrate" else ["--define", "numusers=100"]
            text = made(template, *options, "--suffix", f"dc={template.stem},{SUFFIX}")
            entries += text.count("\n\n")
            out.write(text)
    with closing(OpenDJ()) as server:
        assert server.load(whole) == entries


SCHEMAS = schema_forms.shipped()
LINES = ("olcAttributeTypes: ", "olcObjectClasses: ")
ALIASES = "acctAlias: one@example.com; acctAlias: two@example.com"
ACCOUNT = f"objectClass: acctAccount; uid: a; userPassword: secret; {ALIASES}; acctQuota: 512; acctService: imap"


def teach(server: Slapd, schema: Path) -> None:
    text = schema.with_suffix(".ldif").read_text()
    server.configure(text.replace("objectClass: olc", "changetype: add\nobjectClass: olc"))


def known(server: Slapd) -> set[str]:
    """Definitions in its configuration, without their places."""
    text = server.tool("slapcat", "-n0", *server.config_arguments, "-o", "ldif-wrap=no").decode()
    return {line.partition("}")[2] for line in text.splitlines() if line.startswith(LINES)}


@pytest.mark.slapd
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda path: path.stem)
def test_slapd_knows_the_same_from_either(slapd_instance: Slapd, schema: Path) -> None:
    made, text = schema_forms.config_form(schema), schema.read_text()
    assert schema.with_suffix(".ldif").read_text() == made, "python -m fixtures.schema_forms"
    before = known(slapd_instance)
    teach(slapd_instance, schema)
    with closing(Slapd(Settings(schema=(schema,)))) as other:
        gained = known(slapd_instance) - before
        assert gained == known(other) - before
        assert len(gained) == text.count("\nattributetype (") + text.count("\nobjectclass (")
    readme = (schema_forms.SCHEMAS / "README.md").read_text()
    for _, definition in schema_forms.definitions_of(schema):
        name = definition.partition("NAME '")[2].partition("'")[0]
        assert f"| `{name}` |" in readme


@pytest.mark.slapd
def test_an_account_loads_and_logs_in(slapd_instance: Slapd) -> None:
    for schema in SCHEMAS:
        teach(slapd_instance, schema)
    account = pairs_of(f"{ACCOUNT}; acctExpires: 20300101000000Z")
    slapd_instance.ldapadd(TOP + record(f"uid=a,{SUFFIX}", account))
    who = ("-x", "-H", slapd_instance.ldapi_uri, "-D", f"uid=a,{SUFFIX}", "-w", "secret")
    assert b"dn:uid=a" in slapd_instance.tool("ldapwhoami", *who)
