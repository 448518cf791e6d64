"""What the storage does without a database, as fio(1) measures it."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from loader import child
from loader.operations.storage.bench.results import Disk
from loader.storage import temporary
from loader.storage.asking import Unseen

_SECONDS = 5  # of each of the two that have no end of their own
_WHAT = "fio"
_TIMED = ("--time_based", f"--runtime={_SECONDS}", "--bs=4k")
_JOBS = (
    ("write", ("--rw=write", "--bs=1M", "--end_fsync=1")),
    ("read", ("--stonewall", "--rw=read", "--bs=1M")),
    ("random", ("--stonewall", "--rw=randread", *_TIMED)),
    ("fsync", ("--stonewall", "--rw=randwrite", "--fsync=1", *_TIMED)),
)


class _Side(msgspec.Struct):
    bw_bytes: float
    iops: float


class _Job(msgspec.Struct):
    jobname: str
    read: _Side
    write: _Side


class _Told(msgspec.Struct):
    jobs: list[_Job]


def measure(directory: Path, size: int) -> Disk | Unseen:
    """Direct reads and writes of a file of `size` bytes in `directory`; or why there are none."""
    if shutil.which("fio") is None:
        return Unseen(_WHAT, "fio is not installed")
    with temporary.directory("bench", directory) as place:
        answer = child.ask(_command(place, size))
    if answer.status:
        said = "; ".join(answer.words[-2:]) or f"exit status {answer.status}"
        return Unseen(_WHAT, said)
    try:
        # fio may say a word before its JSON.
        told = msgspec.json.decode(answer.out[answer.out.find(b"{") :], type=_Told)
    except msgspec.MsgspecError as error:
        return Unseen(_WHAT, f"its answer cannot be read ({error})")
    jobs = {one.jobname: one for one in told.jobs}
    return Disk(
        write=jobs["write"].write.bw_bytes,
        read=jobs["read"].read.bw_bytes,
        random_reads=jobs["random"].read.iops,
        fsyncs=jobs["fsync"].write.iops,
    )


def _command(place: Path, size: int) -> list[str]:
    shared = (f"--directory={place}", "--filename=fio", f"--size={size}")
    jobs = [word for name, words in _JOBS for word in (f"--name={name}", *words)]
    how = ("--direct=1", "--ioengine=psync", "--output-format=json", "--eta=never")
    return ["fio", *how, *shared, *jobs]
