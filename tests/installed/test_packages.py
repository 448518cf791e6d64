"""What is in the packages, and what they ask of the host: nothing that a supported distribution lacks."""

from __future__ import annotations

import re
import shutil
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from fixtures.installed import ROOT, Packages, run
from tests.support.packaging import setup_cfg
from tests.support.require import require

pytestmark = pytest.mark.long

# The first test makes the packages.

METADATA = setup_cfg()["metadata"]
VERSION = METADATA["version"]
GLIBC = (2, 34)  # RHEL 9; Debian 12 has 2.36
# What the core may need: of glibc and nothing else, so that there is one wheel for all.
NEEDED = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}


@pytest.fixture
def core(made: Packages, tmp_path: Path) -> Path:
    with zipfile.ZipFile(made.wheel) as wheel:
        return Path(wheel.extract("loader/_native.abi3.so", tmp_path))


def test_the_core_needs_no_other_library_no_newer_glibc_and_no_path_of_this_machine(core: Path) -> None:
    wanted = re.findall(r"\bGLIBC_(\d+)\.(\d+)", run("objdump", "-T", core))
    assert wanted
    assert max((int(major), int(minor)) for major, minor in wanted) <= GLIBC
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "--dynamic", core))
    assert "libc.so.6" in needed
    assert set(needed) <= NEEDED
    content = core.read_bytes()
    assert str(ROOT).encode() not in content
    assert str(Path.home() / ".cargo").encode() not in content


def test_the_wheel_is_for_every_python_and_glibc_2_34_and_has_everything_besides_code(made: Packages) -> None:
    assert made.wheel.name == f"ditseed-{VERSION}-cp310-abi3-manylinux_2_34_x86_64.whl"
    with zipfile.ZipFile(made.wheel) as wheel:
        names = set(wheel.namelist())
        fields = Parser().parsestr(wheel.read(f"ditseed-{VERSION}.dist-info/METADATA").decode())
    share = f"ditseed-{VERSION}.data/data/share"
    manuals = {path.name for path in (ROOT / "docs/man").iterdir()}
    assert {f"{share}/man/man1/{name}" for name in manuals} <= names
    assert f"{share}/bash-completion/completions/ditseed.bash" in names
    assert f"{share}/zsh/site-functions/_ditseed" in names
    assert f"{share}/fish/vendor_completions.d/ditseed.fish" in names
    assert f"{share}/ditseed/schemas/ditseed-account.ldif" in names
    assert "seeders/synthetic/templates/people.toml" in names
    assert not [name for name in names if name.startswith(("tests/", "fixtures/"))]
    assert fields["Version"] == VERSION
    assert METADATA["maintainer_email"] in fields["Maintainer-Email"]


def test_the_deb_is_as_its_distribution_wants_it(made: Packages) -> None:
    require(None if shutil.which("lintian") else "lintian is not installed")
    run("lintian", "--allow-root", "--fail-on", "error", made.deb)


def test_the_deb_leaves_libldap_to_the_distribution(made: Packages) -> None:
    fields = dict(line.split(": ", 1) for line in run("dpkg-deb", "--field", made.deb).splitlines() if ": " in line)
    assert fields["Version"] == VERSION
    assert f"Filename: ./{made.deb.name}\n" in (made.deb.parent / "Packages").read_text()
    assert fields["Maintainer"] == f"{METADATA['maintainer']} <{METADATA['maintainer_email']}>"
    depends = re.split(r",\s*", fields["Depends"])
    assert "python3-ldap (>= 3.4)" in depends
    assert not [one for one in depends if one.startswith(("libldap", "slapd"))]
    (libc,) = (one for one in depends if one.startswith("libc6"))
    assert tuple(map(int, re.findall(r"\d+", libc)[1:3])) <= GLIBC
