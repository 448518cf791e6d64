"""A run that was killed does not go on under another configuration: what it made by then is of the former one."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader.config import Config
from loader.mdb import contents
from loader.operations.build.native import made_for
from loader.operations.build.steps import BuildOptions
from loader.server import configuration
from tests.support import killing
from tests.support.command import ditseed

pytestmark = pytest.mark.slapd
UNIT = "dn: ou=a,dc=example,dc=com\nobjectClass: organizationalUnit\nou: a\n"


@pytest.fixture
def ldif(tmp_path: Path) -> Path:
    path = tmp_path / "x.ldif"
    path.write_text(f"dn: {Settings.suffix}\nobjectClass: domain\ndc: example\n\n{UNIT}")
    return path


def _with_an_index(server: Slapd) -> None:
    """Of ou, in slapd.conf."""
    path = Path(server.config_path)
    lines = path.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("index "))
    path.write_text("\n".join([*lines[: at + 1], "index ou eq", *lines[at + 1 :], ""]))


@pytest.mark.long("done-slapadd", "killed-slapadd")
@pytest.mark.parametrize("engine", ["native", "slapadd"])
@pytest.mark.parametrize("done", [False, True], ids=["killed", "done"])
def test_build(ldif: Path, engine: str, done: bool) -> None:
    with closing(Slapd(Settings(indexes=("objectClass eq",)), form="conf")) as server:
        where = ("--config", server.config_path, "--engine", engine)
        env = {} if done else {killing.KILL_AT: "check.recorded"}
        ended = ditseed("build", ldif, *where, env=env)
        assert ended.status == (0 if done else -signal.SIGKILL)
        _with_an_index(server)
        again = ditseed("build", ldif, *where)
        if done:  # it is in its place by then, and perhaps in use
            assert "[mdb.target_not_empty]" in again.err
            return
        again.ok()
        assert list(contents.indexes(server.database_dir)) == ["objectClass", "ou"]


def test_a_slapd_conf_is_the_same_each_time_it_is_read(ldif: Path) -> None:
    """Converted, its entries have other UUIDs, times and places each time. The native engine would go by the settings
    it follows; with index_intlen 16 all of them count."""
    settings = Settings(global_lines=("index_intlen 16",))
    with closing(Slapd(settings, form="conf")) as server:
        first, second = (configuration.read(server.config_path) for _ in range(2))
        options = BuildOptions(server.config_path, (ldif,))
        assert first.entries != second.entries
        assert made(first, options) == made(second, options)
        _with_an_index(server)
        assert made(configuration.read(server.config_path), options) != made(first, options)


def made(config: Config, options: BuildOptions) -> str:
    return made_for(config, config.database(None), options)
