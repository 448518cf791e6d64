"""Servers with the schema of the shipped templates, loaded with a template's tree."""

from __future__ import annotations

from fixtures.schema_forms import shipped
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from tests.support.command import Done, ditseed

INDEXES = (
    *("objectClass eq", "entryUUID,entryCSN eq"),
    "uid,mail,member,owner,acctLogin,acctAlias,acctCustomer eq",
    "cn,sn eq,sub",
)


def server() -> Slapd:
    """Returns a stopped server with an empty database."""
    return Slapd(Settings(schema=tuple(shipped()), indexes=INDEXES))


def build_from(target: Slapd, template: object, entries: int, *more: object) -> Done:
    """Builds the tree of a template in the database of `target`."""
    place = ("--config", target.config_path, "-b", target.suffix)
    return ditseed("build", "--from", template, "-n", entries, *place, *more)
