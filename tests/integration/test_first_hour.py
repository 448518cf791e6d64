"""What goes wrong in the first hour, told by its own name: a replica that is down or behind, an output that is not
free, a disk that is read-only, a configuration that only slapd may read, a cron that finds nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loader import errors
from tests.support.backups import read_only
from tests.support.command import ditseed, environment
from tests.support.nobody import NOBODY
from tests.support.require import require
from tests.support.seeding import Pair, pair, verifying

pytestmark = pytest.mark.slapd
ROOT = Path(__file__).parents[2]
# As cron(8) of Debian starts a command of /etc/cron.d, and sudo(8) by Debian's secure_path.
CRON = {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "LOGNAME": "root"}
OWN = {name: os.environ[name] for name in ("HOME", "DITSEED_STATE_DIR")}  # not of this host
SECURE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("pair"), people=20) as made:
        ditseed(*made.seed("search")).ok()
        yield made


@pytest.mark.long("asked")
@pytest.mark.parametrize("known", [False, True], ids=["asked", "with --config"])
def test_verify_of_a_replica_that_is_down(both: Pair, known: bool) -> None:
    config = ("--config", both.consumer.config_path) if known else ()
    began = time.monotonic()
    done = ditseed(*verifying(both.provider, both.consumer, "--wait", "2", *config))
    done.refused(errors.ServerDown)
    assert both.consumer.uri in done.err
    assert "[server.down]" in done.err
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["", "dry"])
def test_an_export_into_a_directory_of_others(both: Pair, tmp_path: Path, dry: tuple[str, ...]) -> None:
    (tmp_path / "precious").write_text("mine")
    for source in ((*both.bind, "-b", both.provider.suffix), (both.provider.database_dir,)):
        done = ditseed("export", *source, "-o", tmp_path, *dry)
        done.refused(errors.OutputNotEmpty)
        assert "--replace" not in done.err, "export has no such option"
        assert "-o" in done.err.partition("hint:")[2]
    assert [one.name for one in tmp_path.iterdir()] == ["precious"]


@pytest.mark.parametrize("below", ["", "new"])
def test_an_output_on_a_read_only_file_system(both: Pair, tmp_path: Path, below: str) -> None:
    require(None if os.geteuid() == 0 else "mounts, which needs root")
    with read_only(tmp_path):
        for verb in (
            ("export", *both.bind, "-b", both.provider.suffix, "-o", tmp_path / below),
            ("clone", both.provider.database_dir, tmp_path / below),
            ("generate", "people", "-n", "10", "-o", tmp_path / below),
            ("backup", "run", "--init", "--from", both.provider.database_dir, "-R", tmp_path / below),
        ):
            done = ditseed(*verb)
            done.refused(errors.ReadOnly, "mounted read-only")
            assert "root" not in done.err.partition("hint:")[2], "root may not write there either"


@pytest.mark.parametrize("closed", ["slapd.conf", "", "*", "cn=config/cn=schema/*.ldif"])
def test_a_configuration_that_only_slapd_may_read(both: Pair, scratch: Path, closed: str) -> None:
    """Packages give slapd.d to its account; some leave the directory itself open. Or an include was added by hand."""
    require(None if os.geteuid() == 0 else "only root can become somebody else")
    copy = scratch / "config"
    if closed == "slapd.conf":
        shutil.copy(both.consumer.home / closed, copy)
    else:
        shutil.copytree(both.consumer.config_path, copy)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755)
    for path in copy.glob(closed) if "*" in closed else [copy]:
        path.chmod(0o700)
    done = ditseed("verify", "--config", copy, prefix=NOBODY)
    done.refused(errors.NotPermitted, f"no permission to read {copy}")
    assert "sudo" in done.err.partition("hint:")[2]
    assert "slaptest" not in done.err


def test_a_directory_that_is_no_configuration(scratch: Path) -> None:
    """Nothing is said of what lies in it, such as a slapd.d one level below."""
    require(None if os.geteuid() == 0 else "only root can become somebody else")
    scratch.chmod(0o755)
    (scratch / "slapd.d").mkdir(mode=0o700)
    ditseed("verify", "--config", scratch, prefix=NOBODY).refused(errors.ConfigUnreadable)


def cron_lines() -> list[str]:
    """What a documentation page wants in /etc/cron.d."""
    page = (ROOT / "docs/backup.md").read_text()
    block = re.search(r"```\n# /etc/cron.d/ditseed\n(.*?)```", page, re.DOTALL)
    assert block is not None
    return block[1].strip().splitlines()


def installed(tmp_path: Path, script: str, *words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run it where the link of the README's installation is in a /usr/local/bin of its own."""
    line = re.search(r"^ln -s .* (/usr/local/bin)/ditseed$", (ROOT / "README.md").read_text(), re.M)
    assert line is not None
    place = tmp_path / "bin"
    place.mkdir()
    link = line[0].replace("$PWD", str(ROOT)).replace(line[1], str(place))
    subprocess.run(["sh", "-c", link], check=True)
    command = ["unshare", "--mount", "sh", "-c", f"mount --bind {place} {line[1]} && {script}", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_the_cron_line_of_the_documentation(both: Pair, tmp_path: Path) -> None:
    given, command = CRON | OWN, ""
    for line in cron_lines():  # as cron(8) reads them
        name, equals, value = line.partition("=")
        if equals and name.isupper():
            given[name] = value
        else:
            *_, account, command = line.split(None, 6)
            assert account == "root"
    ditseed("backup", "init", "-R", tmp_path / "backup").ok()
    here = {"/etc/ldap/slapd.d": both.provider.config_path, "/srv/backup": tmp_path / "backup"}
    for name, path in here.items():
        command = command.replace(name, str(path))
    done = installed(tmp_path, 'exec /bin/sh -c "$0"', command, env=given)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    listed = ditseed("backup", "list", "-R", tmp_path / "backup", "--json").ok()
    assert listed.facts["backups"][0]["suffix"] == both.provider.suffix


def test_sudo_finds_it(tmp_path: Path) -> None:
    done = installed(tmp_path, "ditseed --version", env={"PATH": SECURE_PATH})
    assert "ditseed, version" in done.stdout, done.stderr


def test_the_help_of_backup_gives_the_same_cron_line() -> None:
    shown = ditseed("backup", "run", "--help", env=environment()).ok().out
    for line in cron_lines():
        assert " ".join(line.split()).replace(" -b dc=example,dc=com", "") in " ".join(shown.split()), line
