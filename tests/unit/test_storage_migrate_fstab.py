"""The line that `storage migrate` writes for the new volume: what the next boot makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.operations.storage import mounting
from loader.operations.storage.mounting import Volume
from loader.storage.mounts import Mount

NEW = Volume("/dev/mapper/vg-new", "1", "xfs", "noatime")
LINE = "/dev/mapper/vg-new /srv/ldap xfs noatime 0 2"


@pytest.mark.parametrize(
    "needs",
    [
        "/srv/ldap/data /chroot/ldap none bind 0 0",
        "/srv/ldap /container/ldap none rbind 0 0",
        "tmpfs /srv/ldap/run tmpfs defaults 0 0",
    ],
)
def test_it_comes_before_the_lines_that_need_it(tmp_path: Path, needs: str) -> None:
    """`mount -a` would bind the directory below the new volume otherwise: an old database."""
    table = tmp_path / "fstab"
    others = "/dev/sda1 / ext4 defaults 0 1", "/srv/ldapx /x none bind 0 0"
    before = "\n".join((*others, needs, "/dev/sdb1 /mnt/new xfs noatime 0 2", ""))
    table.write_text(before)
    edits = mounting.edits(table, "/srv/ldap", "/mnt/new", NEW, "2026-11-27")
    mounting.apply(table, edits)
    mounting.apply(table, edits)
    lines = [line for line in table.read_text().splitlines() if not line.startswith("#")]
    assert lines == [*others, LINE, needs]
    mounting.undo(table, edits)
    assert table.read_text() == before


def test_a_volume_that_is_gone_is_left_out(tmp_path: Path) -> None:
    """A boot would wait for it; with the volume back the line is, too."""
    table = tmp_path / "fstab"
    before = "/dev/sda1 /srv/ldap ext4 defaults 0 2\n/dev/sdb1 /mnt/new xfs noatime 0 2\n"
    table.write_text(before)
    edits = mounting.edits(table, "/srv/ldap", "/mnt/new", NEW, "2026-11-27")
    of_new = mounting.of_volume(edits, "/mnt/new")
    mounting.leave_out(table, of_new)
    assert table.read_text() == before  # as the operator wrote it: nothing was changed yet
    mounting.apply(table, edits)
    for _ in range(2):
        mounting.undo(table, [one for one in edits if one not in of_new])
        mounting.leave_out(table, of_new)
        first, comment, line = table.read_text().splitlines()
        assert (first, line) == (before.splitlines()[0], f"# {before.splitlines()[1]}")
        assert comment.startswith("# 2026-11-27 ditseed storage migrate: kept, this volume could")
    mounting.undo(table, edits)
    assert table.read_text() == before


def test_whether_a_boot_mounts_it_is_as_before() -> None:
    """TO is often in fstab with noauto, if at all; FROM may be mounted by a cluster's manager."""
    new = Volume("/dev/sdb1", "1", "xfs", "noauto")
    assert mounting.with_options_of(new, Volume("/dev/sda1", "2", "xfs", "nosuid")).options == "nosuid"
    assert mounting.with_options_of(new, Volume("/dev/sda1", "2", "xfs", "noauto")).options == "noauto"
    assert mounting.with_options_of(new, None).options == "defaults"


def test_btrfs_with_another_default_subvolume(tmp_path: Path) -> None:
    """Without the option, the next mount shows the default subvolume."""
    table = tmp_path / "fstab"
    table.touch()
    options = ("rw", "noatime", "subvolid=5", "subvol=/")
    mount = Mount("0:50", "/", "/mnt/new", "btrfs", "/dev/none", options)
    assert mounting.of(mount, table).options == "noatime,subvol=/"
    for written, kept in (("compress=no", "compress=no,subvol=/"), ("subvolid=5", "subvolid=5")):
        table.write_text(f"/dev/none /mnt/new btrfs {written} 0 0\n")
        assert mounting.of(mount, table).options == kept
