"""Each way to install ditseed, as docs/installation.md has it, in a fresh root; then the quickstart's job with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.chroots import Chroot, missing_chroot
from fixtures.engine import base_image, engine, missing_engine
from fixtures.installed import Packages, fresh_root, give, image, inside, main_job, podman_configured, run, running
from fixtures.slapd import missing_slapd
from tests.support.require import require

# Making the packages, a root by debootstrap, apt-get in it.
pytestmark = [pytest.mark.slapd, pytest.mark.long]
MAN = "/usr/share/man/man1/ditseed-replica-seed.1.gz"
# cron's own, and that of sudo where nothing else is set.
CRON = "PATH=/usr/bin:/bin"
SMALL = "dn: uid=u000000001,ou=people,dc=example,dc=com\n"
STRATEGIES = ("search", "ldif")


@pytest.fixture
def root(request: pytest.FixtureRequest) -> Iterator[Chroot]:
    require(missing_slapd())
    require(missing_chroot())
    with fresh_root(request.param) as found:
        inside(found, "apt-get", "update", "-q")
        yield found


def works(root: Chroot, work: Path, command: str) -> None:
    """A root's own slapd, and its ditseed, which knows nothing of DITSEED_TOOLS."""
    assert inside(root, "ditseed", "--version").startswith("ditseed, version ")
    assert SMALL in inside(root, "ditseed", "-q", "generate", "people", "-n", "2", "-o", "-")
    root = running(root)
    ditseed = [*root.prefix, "env", "-u", "DITSEED_TOOLS", command]
    for strategy in STRATEGIES:
        place = work / strategy
        assert "\nequal;" in main_job(place, ditseed, strategy, DITSEED_TOOLS=root.tools)


@pytest.mark.heavy
@pytest.mark.parametrize("root", ["bookworm", "trixie"], indirect=True)
def test_the_wheel(root: Chroot, made: Packages, short_tmp: Path) -> None:
    wanted = ("python3-venv", "python3-ldap")
    inside(root, "apt-get", "install", "-qy", "--no-install-recommends", *wanted)
    inside(root, "python3", "-m", "venv", "--system-site-packages", "/opt/ditseed")
    inside(root, "/opt/ditseed/bin/pip", "install", "--quiet", give(root, made.wheel))
    inside(root, "ln", "-s", "/opt/ditseed/bin/ditseed", "/usr/local/bin/ditseed")
    assert not list(root.root.glob("opt/ditseed/lib/python3*/site-packages/python_ldap*"))
    assert (root.root / "opt/ditseed/share/man/man1/ditseed.1").exists()
    works(root, short_tmp, "/usr/local/bin/ditseed")


@pytest.mark.parametrize("root", [pytest.param("bookworm", marks=pytest.mark.heavy), "trixie"], indirect=True)
def test_the_deb(root: Chroot, made: Packages, short_tmp: Path) -> None:
    inside(root, "apt-get", "install", "-qy", "--no-install-recommends", give(root, made.deb))
    assert inside(root, "env", "-i", CRON, "ditseed", "--version").startswith("ditseed, version ")
    assert (root.root / MAN[1:]).exists()
    completed = ("_DITSEED_COMPLETE=bash_complete", "COMP_WORDS=ditseed rep", "COMP_CWORD=1")
    assert "replica" in inside(root, "env", *completed, "ditseed")
    works(root, short_tmp, "/usr/bin/ditseed")
    inside(root, "apt-get", "purge", "-qy", "ditseed")
    assert not (root.root / "usr/lib/ditseed").exists()


def test_the_wheel_beside_the_distributions_python_ldap(made: Packages, short_tmp: Path) -> None:
    """The short form of `test_the_wheel`: in a virtual environment of this host."""
    place = short_tmp / "venv"
    run("/usr/bin/python3", "-m", "venv", "--system-site-packages", place)
    run(place / "bin/pip", "install", "--quiet", made.wheel)
    where = run(place / "bin/python", "-c", "import ldap; print(ldap.__file__)")
    require(None if where.startswith("/usr/lib/python3") else "python3-ldap is not installed")
    assert "\nequal;" in main_job(short_tmp / "job", [str(place / "bin/ditseed")], "search")


@pytest.mark.heavy
@pytest.mark.container
def test_the_image(short_tmp: Path) -> None:
    """slapd runs on this host, and ditseed in a container that sees the directory."""
    require(missing_engine())
    with engine() as client:
        base = base_image(client)
    with podman_configured() as settings:
        configured = {"CONTAINERS_CONF": settings}
        name = image(base, **configured)
        try:
            ditseed = ["podman", "run", "--rm", "--network=host", "-v", f"{short_tmp}:{short_tmp}", name]
            assert "version" in run(*ditseed, "--version", **configured)
            for strategy in STRATEGIES:
                assert "\nequal;" in main_job(short_tmp / strategy, ditseed, strategy, **configured)
        finally:
            run("podman", "rmi", name, **configured)
