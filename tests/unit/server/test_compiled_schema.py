"""The compiled-in schema, asked of the slapd that is installed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fixtures.golden.records import pairs_of
from fixtures.slapd_config import Installation
from fixtures.trees import record
from loader.errors import ConfigUnreadable
from loader.server import configuration

pytestmark = pytest.mark.slapd


def made(home: Path, more: str = "syncprov") -> Path:
    """A slapd.d as packages make it from LDIF: without a word of what slapd knows itself."""
    path = home / "slapd.d"
    path.mkdir()
    entries = {
        "cn=config": "objectClass: olcGlobal; cn: config",
        "cn=module{0},cn=config": "objectClass: olcModuleList; cn: module{0}; "
        f"olcModulePath: {Installation().modules}; olcModuleLoad: back_mdb; olcModuleLoad: {more}",
        "cn=schema,cn=config": "objectClass: olcSchemaConfig; cn: schema",
    }
    text = "".join(record(dn, pairs_of(pairs)) for dn, pairs in entries.items())
    command = Installation().command("slapadd", "-n0", "-F", path)
    subprocess.run(command, input=text.encode(), check=True, env=Installation().environment())
    return path


def names(path: Path) -> str:
    (entry,) = configuration.read_compiled_schema(configuration.read(path))
    return " ".join(value.decode() for values in entry[1].values() for value in values)


def test_a_slapd_d_without_it(tmp_path: Path) -> None:
    found = names(made(tmp_path))
    assert "NAME ( 'cn' 'commonName' )" in found
    assert "NAME 'olcMdbConfig'" in found
    assert "pwdAttribute" not in found
    (tmp_path / "ppolicy").mkdir()
    assert "NAME 'pwdAttribute'" in names(made(tmp_path / "ppolicy", "ppolicy")), "what modules bring"


def test_that_of_a_slapd_conf(tmp_path: Path) -> None:
    path = tmp_path / "slapd.conf"
    path.write_text(f"modulepath {Installation().modules}\nmoduleload back_mdb\n")
    assert "NAME ( 'cn' 'commonName' )" in names(path)


def test_a_module_that_is_gone(tmp_path: Path) -> None:
    source = configuration.read(made(tmp_path))
    broken = [
        (dn, {key: [value.replace(b"syncprov", b"gone") for value in values] for key, values in one.items()})
        for dn, one in source.entries
    ]
    with pytest.raises(ConfigUnreadable):
        configuration.read_compiled_schema(type(source)(source.path, (), tuple(broken)))
