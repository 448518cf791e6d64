"""Servers that know the schema of the shipped templates, and the tree of one in them."""

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
    """Stopped and empty."""
    return Slapd(Settings(schema=tuple(shipped()), indexes=INDEXES))


def build_from(target: Slapd, template: object, entries: int, *more: object) -> Done:
    """The tree of a template into its database."""
    place = ("--config", target.config_path, "-b", target.suffix)
    return ditseed("build", "--from", template, "-n", entries, *place, *more)
