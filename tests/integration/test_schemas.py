"""The schemas that are shipped: slapd loads both forms, and knows the same afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures import schema_forms
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings

pytestmark = pytest.mark.slapd

SCHEMAS = schema_forms.shipped()
LINES = ("olcAttributeTypes: ", "olcObjectClasses: ")
ACCOUNT = """dn: uid=a,dc=example,dc=com
objectClass: acctAccount
uid: a
userPassword: secret
acctAlias: one@example.com
acctAlias: two@example.com
acctQuota: 512
acctService: imap
acctExpires: 20300101000000Z
"""
TOP = "dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\n"


@pytest.fixture
def running() -> Iterator[Slapd]:
    """A slapd that does not know them yet."""
    with Slapd() as server:
        yield server


def known(server: Slapd) -> set[str]:
    """Definitions in its configuration, without their places."""
    text = server.tool("slapcat", "-n0", *server.config_arguments, "-o", "ldif-wrap=no").decode()
    return {line.partition("}")[2] for line in text.splitlines() if line.startswith(LINES)}


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda path: path.stem)
def test_the_form_of_cn_config_is_made_from_the_other(schema: Path) -> None:
    made = schema_forms.config_form(schema)
    assert schema.with_suffix(".ldif").read_text() == made, "python -m fixtures.schema_forms"


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda path: path.stem)
def test_slapd_knows_the_same_from_either(running: Slapd, schema: Path) -> None:
    before = known(running)
    running.configure(
        schema.with_suffix(".ldif").read_text().replace("objectClass: olc", "changetype: add\nobjectClass: olc")
    )
    with closing(Slapd(Settings(schema=(schema,)))) as other:
        gained = known(running) - before
        assert gained == known(other) - before
        assert len(gained) == schema.read_text().count("\nattributetype (") + schema.read_text().count(
            "\nobjectclass ("
        )


def test_every_attribute_is_in_the_readme() -> None:
    readme = (schema_forms.SCHEMAS / "README.md").read_text()
    for schema in SCHEMAS:
        for _, definition in schema_forms.definitions_of(schema):
            name = definition.partition("NAME '")[2].partition("'")[0]
            assert f"| `{name}` |" in readme


def test_an_account_loads_and_logs_in(running: Slapd) -> None:
    for schema in SCHEMAS:
        text = schema.with_suffix(".ldif").read_text()
        running.configure(text.replace("objectClass: olc", "changetype: add\nobjectClass: olc"))
    running.ldapadd(TOP + ACCOUNT)
    who = ("-x", "-H", running.ldapi_uri, "-D", "uid=a,dc=example,dc=com", "-w", "secret")
    assert b"dn:uid=a" in running.tool("ldapwhoami", *who)
