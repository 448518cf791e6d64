"""Who has an LMDB environment open: asked of the kernel, answered by a real one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from loader.errors import TargetInUse
from loader.storage import holders
from loader.storage.holders import occupants
from tests.support.nobody import NOBODY
from tests.support.processes import announced, started
from tests.support.require import require_root

OPENER = """
import sys, lmdb
with lmdb.open(sys.argv[1], readonly=sys.argv[2] == "read", create=sys.argv[2] != "read"):
    print("open", flush=True)
    sys.stdin.read()
"""


@contextmanager
def opened(directory: Path, how: str = "write") -> Iterator[subprocess.Popen[str]]:
    """Another process with the environment open, which it closes."""
    with announced(OPENER, directory, how) as process:
        yield process
        process.communicate()


@pytest.mark.parametrize("how", ["write", "read"])
def test_a_process_that_has_it_open_is_named(tmp_path: Path, how: str) -> None:
    """To ask disturbs nobody: a lock of this process on the file would end with the question (POSIX locks do); the
    holder's must not."""
    for no_environment in (tmp_path, tmp_path / "nowhere"):
        holders.require_unused(no_environment)
    with opened(tmp_path):
        pass  # so that there is something to read
    assert (tmp_path / "lock.mdb").exists()
    assert holders.holder(tmp_path) is None
    holders.require_unused(tmp_path)
    with opened(tmp_path, how) as process:
        for _ in range(3):
            assert holders.holder(tmp_path) == process.pid
        with pytest.raises(TargetInUse, match=rf"\(python.*, process {process.pid}\)"):
            holders.require_unused(tmp_path)
        process.kill()
        process.wait()
        assert holders.holder(tmp_path) is None


SHOWN = """
import sys
from pathlib import Path
from loader.storage.holders import occupants
print(*occupants(Path(sys.argv[1]), sys.argv[2:]), sep="\\n")
"""


def elsewhere(directory: Path, name: Path, *command: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """`command` in a mount namespace where `directory` is mounted on `name`, too. It prints a line when it is ready."""
    script = 'mount --bind "$1" "$2"; shift 2; exec "$@"'
    return started(["unshare", "-m", "sh", "-c", script, "sh", str(directory), str(name), *command])


def environment_open(name: Path) -> tuple[str, ...]:
    return sys.executable, "-c", OPENER, str(name), "write"


@pytest.fixture
def home(var_tmp: Path) -> Path:
    require_root()
    for name in ("database", "other"):
        (var_tmp / name).mkdir()
    return var_tmp


def test_in_another_mount_namespace(home: Path) -> None:
    """As slapd in a container: /proc shows its files under names that do not exist here."""
    (home / "database/sub").mkdir()
    with elsewhere(home / "database", home / "other", *environment_open(home / "other")) as user:
        (found,) = occupants(home / "database")
        assert (found.pid, found.writes) == (user.pid, True)
        assert str(found).endswith("writes to it, in another mount namespace")
        assert [one.pid for one in occupants(home)] == [user.pid]
        assert occupants(home / "database/sub") == []
    working = ("sh", "-c", f"cd {home}/other/sub && echo && exec cat")
    with elsewhere(home / "database", home / "other", *working) as user:
        (found,) = occupants(home / "database")
        assert (found.pid, found.writes) == (user.pid, False)
        assert str(found).endswith("works in it, in another mount namespace")
    # In a container, /var/lib/ldap may be the container's own.
    with elsewhere(home / "other", home / "database", *environment_open(home / "database")):
        assert occupants(home / "database") == []


def test_by_its_locks(home: Path) -> None:
    """A process whose descriptors cannot be seen."""
    database, apart = home / "database", ("unshare", "--pid", "--fork", "--mount-proc")
    with opened(database) as user:
        for path in database.iterdir():
            path.chmod(0o644)
        for prefix, names, told in (
            (NOBODY, (), f"(process {user.pid}) has a file in it locked"),
            (apart, ("",), f"a process of another PID namespace has the database {database} open"),
        ):
            program = [sys.executable, "-c", SHOWN, database, *names]
            shown = subprocess.run([*prefix, *program], capture_output=True, text=True, check=True)
            assert shown.stdout.strip().endswith(told)
