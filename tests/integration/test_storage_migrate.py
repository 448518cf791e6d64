"""`ditseed storage migrate` of a database to another kind of file system, in the storage VM: killed at every point of
every step, resumed, and rolled back from there."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from fixtures import storage_vm
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from tests.resume.test_migrate import BACK, POINTS
from tests.support.command import COMMAND, ditseed
from tests.support.require import require

pytestmark = [pytest.mark.slapd]

MIGRATED = """
set -e
trap '[ $? = 0 ] || tail -n 30 log >&2' EXIT
from={source} to=/run/mnt/new uri=ldapi://%2Frun%2Fldapi
mkdir -p $to
mount -t ext4 /dev/ubda $from
mkfs.xfs -q -f /dev/ubdb
mount -t xfs /dev/ubdb $to
echo "/dev/ubda $from ext4 noatime 0 2" >/run/fstab
cp /run/fstab /run/fstab.old
cat >/run/stop <<'END'
#!/bin/sh
pid=$(cat /run/pid 2>/dev/null) && kill "$pid" 2>/dev/null || exit 1
while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
END
cat >/run/start <<'END'
#!/bin/sh
kill -0 "$(cat /run/pid 2>/dev/null)" 2>/dev/null && exit 0
slapd -d 0 -h ldapi://%2Frun%2Fldapi -F {config} >/dev/null 2>&1 &
echo $! >/run/pid
END
chmod 700 /run/stop /run/start
migrate() {{
    echo $from | {ditseed} storage migrate $from $to --fstab /run/fstab --service /run/stop /run/start \
        -H $uri --watch 0 --apply --progress none "$@" >>log 2>&1
}}
killed() {{ # POINT [--rollback]
    echo "$1" >>log
    export DITSEED_KILL_AT=$1
    shift
    status=0
    migrate "$@" || status=$?
    unset DITSEED_KILL_AT
    [ $status = 137 ]
}}
content() {{
    ldapsearch -x -LLL -z 500 -H $uri -b "{suffix}" "*" + || [ $? = 4 ] # there are more
    sha256sum <$from/data.mdb
}}
answers() {{
    content >now
    cmp before now
}}
is_there() {{ [ "$(findmnt -n -o FSTYPE -M $from | tail -n 1)" = "$1" ]; }}
moved() {{
    is_there xfs
    grep -q "^UUID=.* $from xfs " /run/fstab
    answers
}}
as_before() {{
    is_there ext4
    cmp /run/fstab /run/fstab.old
    answers
    find $to -mindepth 1 -delete
}}
/run/start
until ldapwhoami -x -H $uri >/dev/null 2>&1; do sleep 0.1; done
content >before
grep -q "^entryCSN: " before
for point in {points}; do
    killed $point
    migrate
    moved
    migrate --rollback
    as_before
    killed $point
    case $point in preflight.start | preflight.unrecorded) ;; *) migrate --rollback ;; esac
    as_before
    echo "$point: well"
done
for point in {back}; do
    migrate
    moved
    killed $point --rollback
    migrate --rollback
    as_before
    echo "$point: well"
done
/run/stop
"""


def migrated(entries: int, megabytes: int, points: list[str], back: list[str], memory: int) -> None:
    require(storage_vm.missing_storage_vm())
    with tempfile.TemporaryDirectory(prefix="t-", dir="/var/tmp") as name:
        home = Path(name)
        os.chmod(home, 0o755)
        server = Slapd(Settings(maxsize=8 << 30), directory=home / "s")
        disks = [home / "old", home / "new"]
        for disk in disks:
            with disk.open("wb") as file:
                file.truncate(megabytes << 20)
        ditseed("build", "--from", "people", "-n", entries, "--config", server.config_path).ok()
        # mkfs.ext4 fills the volume itself: no loop device is needed.
        subprocess.run(["mkfs.ext4", "-q", "-d", str(server.database_dir), str(disks[0])], check=True)
        script = MIGRATED.format(
            source=server.database_dir,
            config=server.config_path,
            suffix=server.suffix,
            ditseed=COMMAND,
            points=" ".join(points),
            back=" ".join(back),
        )
        ended = storage_vm.run(script, disks, modules=[], memory=memory)
        assert ended.status == 0, (ended.out[-500:], ended.err[-3000:])
        assert ended.out.splitlines() == [f"{point}: well" for point in (*points, *back)]


@pytest.mark.long
def test_from_ext4_to_xfs() -> None:
    migrated(2000, 400, ["copy.block"], [], 512)


@pytest.mark.heavy
@pytest.mark.timeout(4 * 3600)
def test_two_gigabytes_at_every_point() -> None:
    migrated(1_200_000, 8000, POINTS, BACK, 4096)
