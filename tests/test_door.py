"""Files are made, opened for writing, given away and moved through loader/storage, the door to the file system.

What stands in ALLOWED works in a place where nobody else can plant anything, and says so. Read from the source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import pytest

from tests.test_floors import sources, within

DOOR = "loader.storage"
# Module -> where it writes.
ALLOWED: Mapping[str, str] = {
    "loader.cli.ending": "a new file of mkstemp in the state directory",
    "loader.cli.manual": "the checkout's own docs/",
    "loader.mdb.copy": "the private directory that the caller made",
    "loader.mdb.environment": "a temporary directory",
    "loader.mdb.map_size": "an environment in the run directory",
    "loader.native.values.make_tables": "the checkout's own sources",
    "loader.operations.backup.output": "the private directory that the caller made",
    "loader.operations.backup.pack": "the private directory that the caller made",
    "loader.operations.empty_suffix": "the run directory",
    "loader.operations.pieces": "the run directory",
    "loader.operations.publish": "an environment in the run directory",
    "loader.operations.shards": "from the run directory into an output directory that is held open",
    "loader.operations.tune.text": "a temporary directory",
    "loader.run.catalogue": "a temporary directory",
    "loader.server.compiled_schema": "a temporary directory",
    "loader.server.hidden_config": "a temporary directory",
    "loader.standard": "/dev/null",
    "seeders.replica.strategies.online": "the run directory",
}
_OS = {"chown", "lchown", "chmod", "rename", "replace", "link", "symlink", "truncate", "mkfifo"}
_SHUTIL = {
    "copy",
    "copy2",
    "copyfile",
    "copytree",
    "move",
    "chown",
    "copymode",
    "copystat",
    "rmtree",
}
_PATH = {"write_text", "write_bytes", "touch", "symlink_to", "hardlink_to", "chmod", "rename"}
_WRITING = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}


def _words(call: ast.Call) -> tuple[str, str]:
    """("os", "rename") of os.rename(...); ("", "open") of open(...); (".", "touch") of anything.touch()."""
    if isinstance(call.func, ast.Name):
        return "", call.func.id
    if not isinstance(call.func, ast.Attribute):
        return "", ""
    owner = call.func.value
    return owner.id if isinstance(owner, ast.Name) else ".", call.func.attr


def _mode(call: ast.Call, place: int) -> str:
    given = [one.value for one in call.keywords if one.arg == "mode"]
    mode = given[0] if given else call.args[place] if len(call.args) > place else None
    return mode.value if isinstance(mode, ast.Constant) and isinstance(mode.value, str) else ""


def _writes(call: ast.Call) -> bool:
    owner, name = _words(call)
    if (owner, name) == ("os", "open"):
        return any(
            isinstance(one, ast.Attribute) and one.attr in _WRITING for one in ast.walk(call)
        )
    if name == "open":
        return bool(set("wax+") & set(_mode(call, 1 if owner in ("", "io") else 0)))
    if owner in ("os", "shutil"):
        return name in (_OS if owner == "os" else _SHUTIL)
    # str.replace takes two, and dataclasses.replace keywords.
    renames = name == "replace" and owner != "dataclasses" and len(call.args) == 1
    if name == "touch" and call.args:  # of an entry
        return False
    return bool(owner) and (name in _PATH or (renames and not call.keywords))


def found(module: str, source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _writes(node):
            yield f"{module}:{node.lineno}: {ast.unparse(node)}"


def test_all_goes_through_the_door() -> None:
    past = {
        module: list(found(module, source))
        for module, source in sources()
        if not within(module, DOOR)
    }
    strays = [line for module, lines in past.items() if module not in ALLOWED for line in lines]
    assert not strays, "\n".join(strays)
    assert {module for module, lines in past.items() if lines} == ALLOWED.keys()


@pytest.mark.parametrize(
    ("line", "writes"),
    [
        ("open(path, 'w')", True),
        ("open(path)", False),
        ("path.open('r+b')", True),
        ("path.open('rb')", False),
        ("os.open(path, os.O_RDONLY | os.O_CREAT)", True),
        ("os.open(path, os.O_RDONLY)", False),
        ("os.chown(path, 1, 1)", True),
        ("shutil.copytree(one, other)", True),
        ("shutil.rmtree(path)", True),  # waits for a FIFO
        ("path.write_text('x')", True),
        ("(one / name).replace(other)", True),
        ("text.replace('a', 'b')", False),
        ("dataclasses.replace(one, a=1)", False),
        ("path.chmod(0o600)", True),
    ],
)
def test_it_can_fail(line: str, writes: bool) -> None:
    assert bool(list(found("loader.x", line))) == writes
