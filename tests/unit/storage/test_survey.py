"""What the system tells of storage, read from what it really printed (recorded/README.md says where)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from loader.errors import SystemFailed
from loader.storage import mounts, survey
from loader.storage.survey import Parameters, ToolRunner
from tests.support.processes import started
from tests.support.require import require_root

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def test_logical_and_physical_volumes() -> None:
    found = survey.parse_segments(recorded("lvs.out"))
    linear, striped = (next(one for one in found if one.name == name) for name in ("lin", "str"))
    assert linear.legs == {"/dev/ubda": 100}
    assert (linear.segments[0].kind, linear.segments[0].stripe_size) == ("linear", 0)
    assert striped.legs == {"/dev/ubda": 100, "/dev/ubdb": 100, "/dev/ubdc": 100}
    assert (striped.extents, striped.extent_size, striped.size) == (300, 4 << 20, 1258291200)
    assert (striped.segments[0].stripes, striped.segments[0].stripe_size) == (3, 4 << 20)
    assert striped.path == "/dev/mapper/vg-str"
    assert striped.data_percent is None
    of_a_locale = recorded("lvs.out").replace('"data_percent":""', '"data_percent":"81,25"')
    assert survey.parse_segments(of_a_locale)[0].data_percent == 81.25
    free = {one.name: one.free for one in survey.parse_physical(recorded("pvs.out"))}
    assert (free["/dev/ubda"], free["/dev/ubdb"]) == (5, 105)


def test_parameters_of_file_systems() -> None:
    assert survey.of_xfs(recorded("xfs_info.out")) == Parameters(4096, 4 << 20, 12 << 20)
    assert survey.of_ext(recorded("tune2fs.out")) == Parameters(4096, 65536, 3 * 65536)
    assert survey.of_xfs("usage: xfs_info") is None
    assert survey.of_ext("tune2fs: no such file") is None


def test_mounts() -> None:
    found = mounts.parse(recorded("mountinfo.out"))
    assert found["22"].target == "/run/mnt/str"
    assert found["22"].device == "254:1"
    assert {"rw", "relatime", "sunit=8192"} <= set(found["22"].options)
    told = r"36 35 98:0 /a\040b /mnt\040two rw shared:1 master:2 - ext3 /dev/root rw,errors=continue"
    odd = mounts.parse(told)["36"]
    assert (odd.root, odd.target, odd.kind) == ("/a b", "/mnt two", "ext3")


def test_a_mount_of_another_namespace_is_refused(tmp_path: Path) -> None:
    """As through /proc/PID/root, with a mount that only that process has."""
    require_root()
    script = f"mount -t tmpfs x {tmp_path} && echo ready && read end"
    with (
        started(["unshare", "--mount", "sh", "-c", script]) as other,
        pytest.raises(SystemFailed, match="another mount namespace"),
    ):
        mounts.mount_of(Path(f"/proc/{other.pid}/root{tmp_path}"))


def test_fstab(tmp_path: Path) -> None:
    fstab = tmp_path / "fstab"
    fstab.write_text(
        "# /dev/old /srv/ldap\\040one xfs nobarrier 0 0\n\n"
        "/dev/vg/a\t/srv/ldap\\040one/ xfs noatime,nobarrier 0 2\nUUID=1 /x ext4\n"
    )
    entry, other = mounts.fstab_of("/srv/ldap one", fstab), mounts.fstab_of("/x", fstab)
    assert entry is not None
    assert (entry.number, entry.source, entry.options) == (3, "/dev/vg/a", ("noatime", "nobarrier"))
    assert other is not None
    assert other.options == ("defaults",)
    assert mounts.fstab_of("/y", fstab) is None
    assert mounts.fstab_of("/x", tmp_path / "none") is None


def test_a_partition_stands_on_its_disk(tmp_path: Path) -> None:
    disk = tmp_path / "devices/pci/block/nvme0n1"
    part = disk / "nvme0n1p1"
    part.mkdir(parents=True)
    (disk / "queue").mkdir()
    queue = {"scheduler": "[none] mq-deadline kyber", "physical_block_size": "4096", "rotational": "0"}
    queue |= {"read_ahead_kb": "128", "write_cache": "write through"}
    of_part = {"partition": "1", "start": "63", "size": "2097000"}
    for place, attributes in ((disk, {"size": "2097152"}), (disk / "queue", queue), (part, of_part)):
        for name, text in attributes.items():
            (place / name).write_text(text + "\n")
    (tmp_path / "dev/block").mkdir(parents=True)
    (tmp_path / "dev/block/259:1").symlink_to(part)
    upper, lower = survey.stack("259:1", tmp_path)
    assert (upper.name, upper.kind, upper.start, upper.on) == ("nvme0n1p1", "partition", 63 * 512, ("nvme0n1",))
    assert upper.physical_sector == 4096
    assert (lower.kind, lower.size, lower.scheduler) == ("disk", 1 << 30, "none")
    assert (lower.write_cache, lower.read_ahead, lower.rotational) == ("write through", 131072, False)
    assert survey.stack("8:0", tmp_path) == ()


def test_this_host_is_surveyed(tmp_path: Path) -> None:
    facts = survey.facts_of(tmp_path)
    status = os.statvfs(tmp_path)
    assert facts.space.size == status.f_blocks * status.f_frsize
    assert Path(facts.mount.target) in (tmp_path, *tmp_path.parents)
    if facts.top is not None:
        assert stat.S_ISBLK(os.stat(facts.top.path).st_mode)


def test_a_tool_that_is_absent_or_refuses_is_noted() -> None:
    asker = ToolRunner()
    assert asker.output("the tide", "no-such-tool-xyz") is None
    assert asker.output("a file", "ls", "/no/such/file") is None
    assert asker.output("truth", "true") == ""
    (absent, refused) = asker.unseen
    assert (absent.what, absent.why) == ("the tide", "no-such-tool-xyz is not installed")
    assert "No such file" in refused.why


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "WARNING: not JSON",
        "[]",
        '{"report": [{"other": []}]}',
        '{"report": [{"seg": [{"lv_name": "a"}], "pv": [{"pv_name": "/dev/sda"}]}]}',
        '{"report": [{"seg": [{"lv_name": 1}], "pv": [{"pv_name": 1}]}]}',
    ],
)
def test_an_answer_that_cannot_be_read_is_told_as_not_looked_at(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tool in ("lvs", "pvs"):
        (tmp_path / tool).write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    asker = ToolRunner()
    assert survey.volumes(asker) == survey.Volumes()
    assert [one.what for one in asker.unseen] == ["logical volumes", "physical volumes"]
    assert all("its output cannot be parsed" in one.why for one in asker.unseen)
