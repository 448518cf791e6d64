"""apt in a fresh root installs from the repository of `bin/package --apt`; here with a package that is made at once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fixtures.chroots import Chroot, missing_chroot
from fixtures.installed import ROOT, InstallError, fresh_root, inside, run
from tests.support.require import require

pytestmark = pytest.mark.long

NAME = "srv/an apt"
APT = ("apt-get", "-o", "Dir::Etc::sourceparts=-", "-qy")  # no other source, so no network
CONTROL = "Package: ditseed\nVersion: {}\nArchitecture: all\nMaintainer: x <x@localhost>\nDescription: a trial\n"


def publish(root: Chroot, tmp: Path, version: str, *key: str, **variables: str) -> str:
    """Adds a package to the repository in the root, and indexes it. Returns the line for sources.list there."""
    (tmp / version / "DEBIAN").mkdir(parents=True)
    (tmp / version / "DEBIAN/control").write_text(CONTROL.format(version))
    (root.root / NAME).mkdir(exist_ok=True)
    run("dpkg-deb", "--build", "--root-owner-group", tmp / version, root.root / NAME / f"ditseed_{version}_all.deb")
    return run(ROOT / "bin/packaging/apt-index", root.root / NAME, *key, **variables).replace(str(root.root), "")


def installed(root: Chroot, line: str) -> str:
    (root.root / "etc/apt/sources.list").write_text(line)
    inside(root, *APT, "update", "--error-on=any")
    inside(root, *APT, "install", "ditseed")
    return inside(root, "dpkg-query", "--show", "-f", "${Version}", "ditseed")


def test_apt_installs_the_newest_version_of_the_repository(short_tmp: Path) -> None:
    tools = ("dpkg-deb", "dpkg-scanpackages", "gpg")
    require(next((f"{tool} is not installed" for tool in tools if shutil.which(tool) is None), missing_chroot()))
    with fresh_root("trixie") as root:
        assert installed(root, publish(root, short_tmp, "0.9")) == "0.9"
        line = publish(root, short_tmp, "0.10")
        assert installed(root, line) == "0.10"
        with pytest.raises(InstallError, match="is not signed"):
            installed(root, line.replace("[trusted=yes] ", ""))
        keyring = {"GNUPGHOME": str(short_tmp)}
        try:
            run("gpg", "--batch", "--passphrase", "", "--quick-gen-key", "trial@localhost", **keyring)
            line = publish(root, short_tmp, "0.11", "trial@localhost", **keyring)
        finally:
            run("gpgconf", "--kill", "all", **keyring)
        shutil.copy(root.root / NAME / "ditseed.asc", root.root / "etc/apt/keyrings")
        assert installed(root, line) == "0.11"
        publish(root, short_tmp, "0.12")
        with pytest.raises(InstallError, match="no longer signed"):
            installed(root, line)
