"""What the Ansible collection gives to ditseed is what ditseed's command line takes; tests/integration/test_ansible.py
runs it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from fixtures.ansible_core import COLLECTION
from loader.cli import ditseed, manual
from loader.errors import ChangedSince, TargetInUse
from tests.support.packaging import setup_cfg

ROOT = Path(__file__).parents[2]
ROLE = COLLECTION / "roles/replica"
_QUOTED = re.compile(r"'(-[^']*)'")


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


DEFAULTS, VARS = loaded(ROLE / "defaults/main.yml"), loaded(ROLE / "vars/main.yml")
COMMANDS = [name for name in VARS if name.endswith("_argv")]


def words(items: list[str]) -> Iterator[str]:
    """A command as it is run with every option: a list that is named is put in, and any other template is a value."""
    for item in items:
        template = re.fullmatch(r"\{\{ (.*) \}\}", item)
        if template is None:
            yield item
        elif isinstance(named := {**DEFAULTS, **VARS}.get(template[1]), list):
            yield from words(named)
        else:
            yield from _QUOTED.findall(item) or ["x"]


def refused(command: list[str]) -> str | None:
    """Why the command line does not take it; None if it does."""
    context, rest = click.Context(ditseed, info_name="ditseed"), command[1:]
    while below := {one.info_name: one for one in manual.subcommands(context)}:
        name = rest.pop(0)
        if name not in below:
            return f"no verb {name}"
        context = below[name]
    try:
        context.command.make_parser(context).parse_args(rest)
    except click.UsageError as error:
        return error.format_message()
    return None


@pytest.mark.slow("ditseed_export_argv")
@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_line_takes_every_command(name: str) -> None:
    command = list(words(VARS[name]))
    assert refused(command) is None, command
    assert "--json" in command


def test_every_option_is_looked_at() -> None:
    for gone in ("ditseed gone", "ditseed replica seed --gone x", "ditseed export --output"):
        assert refused(gone.split())
    items = ["{{ ditseed_command }}", "{{ ['--replace'] if ditseed_replace else [] }}", "-b"]
    assert list(words(items)) == ["x", "--replace", "-b"]
    assert {"--replace", "-H", "-y"} <= set(words(VARS["ditseed_seed_argv"]))


def tasks(found: Any) -> Iterator[dict[str, Any]]:
    """Those of blocks, and of their rescue, too."""
    for one in found:
        yield one
        for part in ("block", "rescue", "always", "tasks"):
            yield from tasks(one.get(part, []))


FILES = [*ROLE.glob("tasks/*.yml"), *COLLECTION.glob("playbooks/*.yml")]
TASKS = [one for path in FILES for one in tasks(loaded(path))]
_COMMAND = "ansible.builtin.command"


def test_ditseed_is_run_by_these_commands_only() -> None:
    argvs = [one["ansible.builtin.command"]["argv"] for one in TASKS if _COMMAND in one]
    known = {f"{{{{ {name} | flatten }}}}" for name in COMMANDS}
    services = {f"{{{{ ditseed_slapd_{name} }}}}" for name in ("running", "stop", "start")}
    assert set(argvs) == known | services
    assert not [one for one in TASKS if {"ansible.builtin.shell", "ansible.builtin.raw"} & set(one)]
    assert not [one["name"] for one in TASKS if _COMMAND in one and "changed_when" not in one]


def test_passwords_are_in_private_files_and_in_no_command() -> None:
    secrets = ("{{ ditseed_password ", "{{ ditseed_consumer_password ")
    holding = [one for one in TASKS if any(name in str(one) for name in secrets)]
    assert len(holding) == len(secrets)
    assert all(one["no_log"] is True for one in holding)
    assert all(one["ansible.builtin.copy"]["mode"] == "0600" for one in holding)
    assert not [name for name in VARS if any(one in str(VARS[name]) for one in secrets)]


def test_every_variable_is_specified_and_documented() -> None:
    specified = loaded(ROLE / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    used = {name for path in COLLECTION.rglob("*.yml") for name in re.findall(r"\bditseed_\w+", path.read_text())}
    assert set(DEFAULTS) <= set(specified) <= used
    page = (ROOT / "docs/ansible.md").read_text()
    assert [name for name in (*specified, "ditseed_waves") if f"`{name}`" not in page] == []


def test_the_version_and_the_exit_statuses_are_ditseeds() -> None:
    assert loaded(COLLECTION / "galaxy.yml")["version"] == setup_cfg()["metadata"]["version"]
    assert VARS["ditseed_in_use"] == TargetInUse.exit_status
    assert VARS["ditseed_changed_since"] == ChangedSince.exit_status
