"""Other versions of OpenLDAP as test servers, and ditseed's slap tools through DITSEED_TOOLS."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fixtures.chroots import Chroot, chroot, missing_chroot
from fixtures.slapd import Slapd, missing_slapd
from fixtures.slapd_config import Installation, Settings
from loader.defaults import ENGINES
from loader.server import tools
from tests.support.require import require
from tests.support.trees import differences, tree

DITSEED = str(Path(__file__).parents[2] / "bin" / "ditseed")

# Making a root directory takes half a minute, and more where the mirror is far.
pytestmark = pytest.mark.slapd

VERSIONS = {"bullseye": "2.4.57", "trixie": "2.6.10", "forky": "2.6."}


@pytest.fixture(scope="module", params=VERSIONS)
def other(request: pytest.FixtureRequest) -> Chroot:
    require(missing_slapd())
    require(missing_chroot())
    made = chroot(request.param)
    assert made.version.startswith(VERSIONS[request.param])
    return made


def server_of(other: Chroot) -> Slapd:
    modules = Settings().modules
    # Debian's 2.4 has the monitor as a module, later ones have it built in.
    if other.version.startswith("2.4."):
        modules = (*modules, "back_monitor")
    return Slapd(Settings(modules=modules), installation=Installation(prefix=other.prefix))


@pytest.mark.long
def test_runs_as_a_test_server(other: Chroot, people_ldif: Path) -> None:
    with server_of(other) as server:
        server.stop()
        server.slapadd(people_ldif)
        server.start()
        entries = server.search()
        assert len(entries) == len(tree(server.slapcat())) > 1000
        assert server.log_lines(rf"slapd {other.version}".replace(".", r"\."))


@pytest.mark.long
def test_the_same_tree_in_this_and_the_other_version(other: Chroot, people_ldif: Path) -> None:
    """Operational attributes come from the LDIF of the first, so that nothing may differ."""
    with Slapd() as here, server_of(other) as there:
        here.stop()
        here.slapadd(people_ldif)
        there.stop()
        there.slapadd(here.slapcat())
        assert not list(differences(tree(here.slapcat()), tree(there.slapcat())))


@pytest.mark.long
def test_ditseed_tools(other: Chroot, people_ldif: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """slapcat of ditseed itself is that version's, and sees the same directories."""
    with server_of(other) as server:
        server.stop()
        server.slapadd(people_ldif)
        monkeypatch.setenv("DITSEED_TOOLS", other.tools)
        found = tools.run("slapcat", *server.config_arguments, "-b", server.suffix)
        assert found.count(b"\ndn: ") + found.startswith(b"dn: ") > 1000


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_ditseed_builds_for_it(other: Chroot, people_ldif: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """The whole of `ditseed build` with that version's tools; then that version's slapd runs on the result."""
    with server_of(other) as server:
        server.stop()
        monkeypatch.setenv("DITSEED_TOOLS", other.tools)
        command = [DITSEED, "build", str(people_ldif), "--config", str(server.config_path)]
        subprocess.run([*command, "--engine", engine], check=True)
        monkeypatch.delenv("DITSEED_TOOLS")
        server.start()
        assert len(server.search()) == len(tree(server.slapcat())) == _records(people_ldif)


def _records(ldif: Path) -> int:
    text = "\n" + ldif.read_text()
    return text.count("\ndn:")


def test_leaves_no_mount_behind(other: Chroot) -> None:
    subprocess.run([*other.prefix, "true"], check=True)
    assert str(other.root) not in Path("/proc/self/mounts").read_text()
