"""docs/runbook.md and seeding.md as they stand, with their profile: only names and paths are those of the test. And the
README."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support.command import Done, ditseed
from tests.support.seeding import Pair, pair

pytestmark = pytest.mark.slapd

ROOT = Path(__file__).parents[2]
RUNBOOK = "".join((ROOT / "docs" / page).read_text() for page in ("runbook.md", "seeding.md"))
SEED = "ditseed replica seed --strategy search"
IN_SHORT = (ROOT / "README.md").read_text().partition("## A new replica")[2].partition("\n## ")[0]


def here(text: str, both: Pair) -> str:
    names = {
        "ldap://provider": both.provider.uri,
        "cn=replicator,dc=example,dc=com": "cn=replicator",
        "/root/replicator.pw": both.provider.replicator_password_file,
        "/etc/ldap/slapd.d": both.consumer.config_path,
        "ldap://new-replica": both.consumer.uri,
        "/srv/export": both.export_dir,
        "provider.ldif": both.slapcat_file,
        "/mnt/provider/var/lib/ldap": both.provider.database_dir,
    }
    for name, mine in names.items():
        text = text.replace(name, str(mine))
    return text


def steps(both: Pair, home: Path, *words: str) -> Done:
    """The command of the runbook that contains these words, run to its end."""
    lines = [line for line in RUNBOOK.splitlines() if line.startswith("ditseed ")]
    [line] = [one for one in lines if all(word in one.split() for word in words)]
    arguments = shlex.split(here(line, both))[1:]
    env = {
        "XDG_CONFIG_HOME": str(home),
        # Of the test's servers, each has a password of its own.
        "DITSEED_CONSUMER_PASSWORD_FILE": str(both.consumer.replicator_password_file),
    }
    return ditseed(*arguments, env=env).ok()


def labels(printed: str) -> set[str]:
    """Of the steps and of the report's lines, but what is there only where entries were read twice."""
    lines = [line for line in printed.splitlines() if not line.startswith("reading in ")]
    return {re.split(r"  |: ", line.strip())[0] for line in lines} - {"read twice"}


def require_as_printed(done: Done, command: str) -> None:
    """It prints what the runbook says that it prints, but for numbers."""
    blocks = re.findall(r"```\n([^`]*)```\n\n[^`]*?\bprints\b[^`]*?:\n\n```\n([^`]*)```", RUNBOOK)
    [told] = [out for commands, out in blocks if commands.splitlines()[-1] == command]
    steps = re.findall(r"^[a-z-]+: [0-9].*$", done.err, re.MULTILINE)  # not the warnings
    assert labels("\n".join([*steps, done.out])) == labels(told)


@pytest.mark.rows(2)
@pytest.mark.parametrize("wanted", [("search",), ("ldif", "/srv/export"), ("ldif", "provider.ldif"), ("clone",)])
def test_the_runbook_seeds_a_replica(tmp_path: Path, wanted: tuple[str, ...]) -> None:
    [profile] = re.findall(r"config\.toml <<'END'\n(.*?)END\n", RUNBOOK, re.DOTALL)
    home = tmp_path / "xdg"
    (home / "ditseed").mkdir(parents=True)
    with pair(tmp_path, 30) as both:
        (home / "ditseed/config.toml").write_text(here(profile, both))
        both.prepare("slapcat")
        if "/srv/export" in wanted:
            steps(both, home, "export", "-o")
        if "search" in wanted:
            done = steps(both, home, "search", "--dry-run")
            require_as_printed(done, f"{SEED} --dry-run")
            env = {"XDG_CONFIG_HOME": str(home)}
            done = ditseed("replica", "seed", "--strategy", "search", env=env).ok()
            require_as_printed(done, SEED)
            done = ditseed("replica", "status", env=env).ok()
            require_as_printed(done, "ditseed replica status")
        else:
            steps(both, home, "--strategy", *wanted)
        both.consumer.start()
        assert "equal" in steps(both, home, "verify", "--consumer").out
        assert "finished" in ditseed("replica", "status", env={"XDG_CONFIG_HOME": str(home)}).ok().out


def test_the_readme_seeds_a_replica(tmp_path: Path) -> None:
    [line] = re.findall(r"^ditseed (replica seed .*)", IN_SHORT.replace("\\\n", ""), re.MULTILINE)
    with pair(tmp_path, 30) as both:
        words = shlex.split(here(line, both))
        assert words.pop() == "--dry-run"
        assert "suffix" in ditseed(*words, "--dry-run").ok().out
        ditseed(*words).ok()
        both.consumer.start()
        where = words[words.index("-H") :]
        password = {"DITSEED_CONSUMER_PASSWORD_FILE": str(both.consumer.replicator_password_file)}
        asked = ("replica", "verify", *where, "--consumer", both.consumer.uri)
        assert "equal" in ditseed(*asked, env=password).ok().out
