"""Copies of a slapd.d that another account may read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from loader import slapd_conf
from loader.errors import DirectoryUnsafe, FileUnsafe
from loader.server import configuration, tools
from loader.storage.files import Owner

OTHER = 12345  # an account that owns nothing else
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another account: needs root")


@pytest.fixture
def slapd_d(tmp_path: Path) -> Path:
    made = tmp_path / "slapd.d"
    (made / "cn=config").mkdir(parents=True)
    (made / "cn=config.ldif").write_text("dn: cn=config\n")
    (tmp_path / "schema").write_text("dn: cn=schema\n")
    (made / "cn=config/cn=schema.ldif").symlink_to(tmp_path / "schema")
    (made / "cn=config/cn=schema.ldif~").write_text("slapd reads no such file")
    return made


def test_all_that_slapd_reads_is_copied(slapd_d: Path, tmp_path: Path) -> None:
    configuration.copy_directory(slapd_d, tmp_path / "copy")
    texts = {
        str(path.relative_to(tmp_path / "copy")): path.read_text()
        for path in (tmp_path / "copy").rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    schema = "cn=config/cn=schema.ldif"
    assert texts == {"cn=config.ldif": "dn: cn=config\n", schema: "dn: cn=schema\n"}


@as_root
@pytest.mark.parametrize("name", ["cn=config/cn=schema.ldif", "cn=other"])
def test_no_link_of_another_account_is_followed(slapd_d: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "secrets").mkdir()
    (slapd_d / "cn=other").symlink_to(tmp_path / "secrets")
    os.chown(slapd_d / name, OTHER, OTHER, follow_symlinks=False)
    with pytest.raises((FileUnsafe, DirectoryUnsafe), match="symbolic link"):
        configuration.copy_directory(slapd_d, tmp_path / "copy")


@as_root
def test_the_account_reads_a_copy_and_cannot_change_it(slapd_d: Path, tmp_path: Path) -> None:
    configuration.copy_directory(slapd_d, tmp_path / "copy")
    tools.let_read(Owner(OTHER, OTHER), tmp_path / "copy")
    for path in (tmp_path / "copy", *(tmp_path / "copy").rglob("*")):
        status = path.stat()
        mode = 0o750 if path.is_dir() else 0o640
        assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (0, OTHER, mode)


def test_included_files_keep_their_paths_and_lines(tmp_path: Path) -> None:
    main, other = tmp_path / "slapd.conf", tmp_path / "other.conf"
    main.write_text(f'include "{other}"\ninclude /nowhere.conf\nlogfile \\\n  /log\ndatabase mdb\n')
    other.write_text("LogFile /log\npidfile /pid\n")
    assert slapd_conf.copied(main, "/copy", "logfile") == {
        Path(f"/copy{main}"): f'include "/copy{other}"\ninclude /nowhere.conf\n\n\ndatabase mdb\n',
        Path(f"/copy{other}"): "\npidfile /pid\n",
    }
