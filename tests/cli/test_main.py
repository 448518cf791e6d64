"""Manners of the command as a whole: help, errors, signals, pipes, faults of its own."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.waiting import until
from loader.cli import OWN_VERBS, manual, options, verbs
from loader.errors import Internal, LibldapMissing, NotInstalled, UsageProblem
from loader.run.lease import Lease
from tests.support import command, leases
from tests.support.command import Done, environment
from tests.support.packaging import setup_cfg
from tests.support.processes import has_ended
from tests.support.scripted import scripted
from tests.support.verbs import LEAVES


def in_setup_cfg() -> dict[str, str]:
    lines = setup_cfg()["options.entry_points"]["ditseed.verbs"].strip().splitlines()
    return dict(re.split(r"\s*=\s*", line.strip(), maxsplit=1) for line in lines)


def test_verbs_are_those_of_setup_cfg_in_its_order() -> None:
    assert list(OWN_VERBS.items()) == list(in_setup_cfg().items())
    found = {entry.name: entry.value for entry in entry_points(group="ditseed.verbs")}
    assert found == OWN_VERBS, "run bin/setup"


def test_a_verb_of_another_package_comes_last(tmp_path: Path) -> None:
    """Such a package is a module and what setuptools writes of its entry points."""
    (tmp_path / "elsewhere.py").write_text(
        'import click\n\n\n@click.command()\ndef command():\n    """Say hello.\n"""\n    click.echo("hello")\n'
    )
    about = tmp_path / "elsewhere-1.dist-info"
    about.mkdir()
    (about / "entry_points.txt").write_text("[ditseed.verbs]\nhello = elsewhere:command\n")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n")
    where = {"PYTHONPATH": str(tmp_path)}
    assert command.ditseed("hello", env=where).ok().out == "hello\n"
    shown = command.ditseed("--help", env=where).ok().out.splitlines()
    assert shown[-1].split() == ["hello", "Say", "hello."]


def test_help_lists_every_verb_with_one_line() -> None:
    shown = command.ditseed("--help").ok().out
    lines = shown.partition("\nVerbs:\n")[2].splitlines()
    assert [line.split()[0] for line in lines] == list(in_setup_cfg())
    assert all(re.fullmatch(r"  \S+ +\S.*", line) for line in lines)
    assert "missing" not in shown
    assert max(map(len, shown.splitlines())) <= 100
    for name, place in verbs().items():  # the lines are read from the source; this is the long way
        begins = (options.load(place).help or "").strip()[:25]
        assert begins
        assert f" {begins}" in shown, name


# Prints the help of each command in one process, and fails at the first that imports what only a run needs.
IMPORTED = """
import json, sys
from loader.cli import ditseed, ending
HEAVY = {"rich", "ldap", "lmdb", "ssl", "subprocess", "xxhash", "zstandard", "loader._native"}
LIGHT = {"loader.operations." + name for name in ("backup", "options", "backup.options")}
for words in json.loads(sys.argv[1]):
    sys.argv = ["ditseed", *words, "--help"]
    assert ending.run(ditseed, "ditseed") == 0
    work = {name for name in sys.modules if name.startswith("loader.operations.")} - LIGHT
    assert not (work := work | HEAVY & sys.modules.keys()), (words, work)
"""


def test_help_imports_no_work_of_a_verb(state: Path) -> None:
    """Nor for a lease that is open."""
    leases.write(state, Lease("nosync", "ldap://127.0.0.1:1", "o=x", "undo it"))
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, json.dumps([[], *(one.command_path.split()[1:] for one in LEAVES)])],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.alone
def test_help_is_quick() -> None:
    """In a new interpreter, measured against one that imports click alone: the least of some, taken in turn."""
    help_text = [str(command.COMMAND), "--help"]
    click_alone = [sys.executable, "-c", "import click"]
    pairs = [(processor_time(help_text), processor_time(click_alone)) for _ in range(5)]
    ours, least = map(min, zip(*pairs, strict=True))
    assert ours < 3 * least, pairs


def processor_time(words: list[str]) -> float:
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, env=environment()) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


def test_the_version_is_that_of_the_package() -> None:
    assert re.fullmatch(r"ditseed, version \d+\.\d+\.\d+\S*\n", command.ditseed("--version").ok().out)


def test_without_python_ldap_a_verb_that_needs_it_says_what_to_install(tmp_path: Path) -> None:
    """As where python-ldap was compiled for the libldap of another release, which has gone. What works on files alone
    does not load it."""
    reason = "libldap-2.5.so.0: cannot open shared object file"
    (tmp_path / "ldap.py").write_text(f"raise ImportError({reason!r}, name='_ldap')\n")
    # Each verb looks at the leases that are left on this host.
    leases.write(tmp_path, Lease("nosync", "ldap://127.0.0.1:1", "o=x", "undo it"))
    there = {"PYTHONPATH": str(tmp_path), "DITSEED_STATE_DIR": str(tmp_path)}
    command.ditseed("--help", env=there).ok()
    for verb, *words in (["verify"], ["build", "--config", "/none"], ["export", "-o", "out"]):
        command.ditseed(verb, str(tmp_path), *words, env=there).refused(UsageProblem)
    command.ditseed("compare", tmp_path, tmp_path, env=there).refused(LibldapMissing, reason, "python3-ldap")


def test_an_installation_without_its_core_says_so(tmp_path: Path) -> None:
    """As while bin/setup still builds it."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['loader._native'] = None\n")
    there = {"PYTHONPATH": str(tmp_path), "DITSEED_STATE_DIR": str(tmp_path)}
    command.ditseed("compare", tmp_path, tmp_path, env=there).refused(NotInstalled, "_native", "bin/setup")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hlep"], "no such verb: hlep (did you mean `ditseed help`?)"),
        (["exprot"], "no such verb: exprot (did you mean `ditseed export`?)"),
        (["backup", "list", "--repos"], "(Did you mean one of: '--help', '--repo', "),
        (["backup", "restor"], "(did you mean `ditseed backup restore`?)"),
        (["help", "replica", "sede"], "(did you mean `ditseed replica seed`?)"),
        (["frobnicate"], "no such verb: frobnicate (there are replica, export, "),
        ([], "Verbs:"),
    ],
    ids=" ".join,
)
def test_without_a_verb_that_there_is_the_one_like_it_or_the_help_is_shown(arguments: list[str], said: str) -> None:
    done = command.ditseed(*arguments)
    assert (done.status, done.out) == (UsageProblem.exit_status, ""), done
    assert said in done.err, done


@pytest.mark.parametrize("words", [(), ("export",), ("replica",), ("replica", "seed")])
def test_help_of_a_verb_is_what_help_after_it_prints(words: tuple[str, ...]) -> None:
    assert command.ditseed("help", *words).ok() == command.ditseed(*words, "--help").ok()


def test_an_error_has_message_code_hint_and_status() -> None:
    done = command.ditseed("export", "-H", "ldap://127.0.0.1:1", "-b", "o=x", "-o", "/tmp/never-made")
    message, hint = done.err.splitlines()[-2:]
    assert re.fullmatch(r"ditseed: ldap://127\.0\.0\.1:1: cannot reach the server.* \[server\.down\]", message)
    assert hint.startswith("hint: Check that slapd is running there")
    assert (done.status, done.out) == (30, "")


def interrupted(number: signal.Signals, *arguments: object) -> Done:
    """Runs a command with a server that answers nothing, and sends it a signal once it has asked."""
    with scripted() as server:
        process = command.start(*arguments, "-H", server.uri)
        assert server.asked.wait(60)
        process.send_signal(number)
        out, err = process.communicate(timeout=300)
    return Done(process.returncode, out, err)


@pytest.mark.parametrize(
    ("number", "status", "name"),
    [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM"), (signal.SIGHUP, 129, "SIGHUP")],
)
def test_a_signal_ends_it_with_a_hint(tmp_path: Path, number: signal.Signals, status: int, name: str) -> None:
    done = interrupted(number, "export", "-b", "o=x", "-o", tmp_path / "out", "--json")
    assert done.facts["error"]["status"] == done.status == status
    assert done.facts["error"]["code"] == "cancelled"
    assert f"ditseed: stopped by {name} [cancelled]\nhint: The same command resumes here." in done.err
    assert "Traceback" not in done.err


def test_a_signal_while_the_ending_is_told(tmp_path: Path) -> None:
    """Nobody reads stderr, so the process waits in the middle of its message."""
    reader, writer = os.pipe()
    filled = fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)
    os.write(writer, bytes(filled))
    arguments = command.arguments_of("verify", tmp_path / "none")
    process = subprocess.Popen(arguments, stderr=writer, env=environment())
    os.close(writer)
    try:
        until(lambda: "pipe_write" in Path(f"/proc/{process.pid}/wchan").read_text())
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    finally:
        with os.fdopen(reader, "rb") as said:
            words = said.read()[filled:]
    assert process.wait() == 130, words
    assert b"Traceback" not in words


def test_a_verb_that_keeps_no_run_does_not_promise_to_go_on() -> None:
    done = interrupted(signal.SIGINT, "tune", "maxsize")
    assert (done.status, "hint: The same command starts over." in done.err) == (130, True), done


@pytest.mark.slapd
def test_a_signal_ends_the_tools_it_started(target: Slapd, tmp_path: Path) -> None:
    """A slapadd left behind would go on writing into the next run's files."""
    command.ditseed("generate", "people", "-n", "40000", "-o", tmp_path / "tree").ok()
    given = ("--config", target.config_path, "--engine", "slapadd")
    process = command.start("build", tmp_path / "tree", *given)
    asked = ["pgrep", "--parent", str(process.pid), "--exact", "slapadd"]
    tool = int(until(lambda: subprocess.run(asked, stdout=subprocess.PIPE, check=False).stdout))
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=300)
    # By ditseed, or after it by the kernel (the parent death signal) if the signal came before Popen had returned.
    assert (process.returncode, out, has_ended(tool)) == (143, "", True)
    assert "stopped by SIGTERM" in err
    assert "Traceback" not in err


def test_a_reader_that_goes_away_is_met_with_silence() -> None:
    """`ditseed ... | head -1`; and a pipe that was closed before."""
    line = f"{command.COMMAND} generate people -n 200000 | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert re.fullmatch("dn: .*\n141\n", done.stdout)
    assert done.stderr == ""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer) as closed:
        help_text = [command.COMMAND, "--help"]
        done = subprocess.run(help_text, stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


FAULT = """
import sys
import click
from loader.cli import ending
@click.command()
def broken():
    raise ValueError("no one thought of this\\nuserPassword: S3CRET")
sys.exit(ending.run(broken, "broken"))
"""


@pytest.mark.parametrize("makeable", [True, False])
def test_a_fault_of_its_own_goes_into_a_file_for_a_report(tmp_path: Path, makeable: bool) -> None:
    """In the state directory, or elsewhere if that cannot be made."""
    state = tmp_path / "state"
    if not makeable:
        state.write_text("a file")
    where = environment({"DITSEED_STATE_DIR": str(state)})
    words = [sys.executable, "-c", FAULT]
    done = subprocess.run(words, env=where, capture_output=True, text=True, check=False)
    assert done.returncode == Internal.exit_status
    message, hint = done.stderr.splitlines()
    assert message == "ditseed: internal error: ValueError: no one thought of this [internal]"
    report = Path(re.search(r"with the file (\S+);", hint)[1])  # type: ignore[index]
    assert (report.parent == state / "faults") == makeable
    assert report.stat().st_mode & 0o777 == 0o600
    text = report.read_text()
    report.unlink()
    assert "Traceback (most recent call last)" in text
    assert "ditseed 0." in text
    assert "S3CRET" not in text


def test_an_error_of_the_system_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = command.ditseed("generate", "people", "-n", "10", "-o", tmp_path / "file" / "below")
    assert done.status != Internal.exit_status, done.err
    assert str(tmp_path / "file") in done.err
    assert "Traceback" not in done.err


def test_with_json_an_error_is_an_object_on_stdout(tmp_path: Path) -> None:
    """As is wrong use."""
    done = command.ditseed("backup", "list", "-R", tmp_path / "nowhere", "--json")
    assert done.facts["report"] == 1
    error = done.facts["error"]
    assert error.keys() == {"code", "status", "message", "hint"}
    assert (error["code"], error["status"]) == ("storage.no_such_path", done.status)
    assert str(tmp_path / "nowhere") in error["message"]
    assert error["hint"].startswith("Check the path")
    assert "[storage.no_such_path]" in done.err
    done = command.ditseed("build", "x.ldif", "--json", "--no-such-option")
    assert done.facts["error"]["code"] == "usage"
    assert done.facts["error"]["status"] == done.status == UsageProblem.exit_status
    assert command.ditseed("build", "--", "--json").out == "", "the name of a file"


@pytest.mark.parametrize("arguments", [("export", "/nowhere", "-o", "-"), ("clone", "/nowhere", "-", "--compact")])
def test_an_error_is_never_among_data(arguments: tuple[str, ...]) -> None:
    """Whoever reads the LDIF or the copy must not meet it."""
    done = command.ditseed(*arguments, "--json")
    told = json.loads(done.err.splitlines()[-1])
    assert (told["error"]["status"], done.out) == (done.status, "")


@pytest.mark.parametrize(("shell", "name"), manual.SHELLS.items())
def test_completion_prints_the_script_that_the_packages_have(shell: str, name: str) -> None:
    assert command.ditseed("completion", shell).ok().out == (manual.DOCS / "completion" / name).read_text()


def test_completion_completes_a_verb() -> None:
    script = f'eval "$({command.COMMAND} completion bash)"; COMP_WORDS=(ditseed exp) COMP_CWORD=1; _ditseed_completion'
    line = f'{script} {command.COMMAND}; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", line], env=environment(), capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("export explain\n", "")
