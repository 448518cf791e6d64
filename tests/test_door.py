"""Files are made, opened for writing, given away and moved through loader/storage, the door to the file system.

A module in ALLOWED works where nobody else can plant anything, or says why its calls follow nothing. In loader/storage
only the door itself, held.py, may do all that without a reason. Read from the source.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Mapping
from typing import TypeGuard

import pytest

from tests.test_floors import sources, within

DOOR = "loader.storage.held"
# Module -> where it writes.
ALLOWED: Mapping[str, str] = {
    "loader.cli.ending": "a new file of mkstemp in the state directory",
    "loader.cli.manual": "the checkout's own docs/",
    "loader.mdb.copy": "the private directory that the caller made",
    "loader.mdb.edits": "an environment in the run directory",
    "loader.mdb.environment": "a temporary directory",
    "loader.native.values.make_tables": "the checkout's own sources",
    "loader.operations.backup.pack": "the private directory that the caller made",
    "loader.operations.export": "the run directory",
    "loader.operations.packaged": "the run directory",
    "loader.operations.publish": "an environment in the run directory",
    "loader.operations.shards": "from the run directory into an output directory that is held open",
    "loader.server.configuration": "a temporary directory",
    "loader.standard": "/dev/null",
    "loader.storage.probes": "a nameless file through its descriptor",
    "loader.storage.files": "files of a private directory; an output only where nobody else can write, or rename",
    "loader.storage.remote": "directories on the server of a repository",
    "loader.storage.sftp": "files on the server of a repository, as the account of the login",
    "loader.storage.trees": "below descriptors of a new volume that only root enters; through O_PATH what is there",
    "seeders.replica.online": "the run directory",
}
_BECOMES = {"chown", "chmod", "utime", "setxattr", "removexattr"}  # follow a link unless told not to
_OS = {*_BECOMES, "lchown", "rename", "replace", "link", "symlink", "truncate", "mkfifo", "mknod"}
_OS |= {"makedirs", "removedirs"}
_SHUTIL = {"copy", "copy2", "copyfile", "copytree", "move", "chown", "copymode", "copystat", "rmtree"}
_OWNERS = {"os": _OS, "shutil": _SHUTIL}
_PATH = {"lchmod", "write_text", "write_bytes", "touch", "symlink_to", "hardlink_to", "chmod", "rename", "rmdir"}
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


def _writes(call: ast.Call, constants: Mapping[str, ast.expr]) -> bool:
    owner, name = _words(call)
    if (owner, name) == ("os", "open"):
        parts = [*ast.walk(call)]
        parts += [
            one
            for part in parts
            if isinstance(part, ast.Name) and part.id in constants
            for one in ast.walk(constants[part.id])
        ]
        return any(isinstance(one, ast.Attribute) and one.attr in _WRITING for one in parts)
    if name == "open":
        return bool(set("wax+") & set(_mode(call, 1 if owner in ("", "io") else 0)))
    if owner == "os" and name in _BECOMES:
        # Of a link in the last component the link itself is changed; dir_fd does not say that.
        stays = any(ast.unparse(one) == "follow_symlinks=False" for one in call.keywords)
        # os.utime(descriptor, ...): a file that is open.
        if stays or (call.args and ast.unparse(call.args[0]).endswith(("descriptor", ".fileno()"))):
            return False
    if owner in ("os", "shutil"):
        return name in _OWNERS[owner]
    if name == "mkdir" and owner:  # its last component follows no link, those above do
        return any(one.arg == "parents" for one in call.keywords)
    # str.replace takes two, and dataclasses.replace keywords.
    renames = name == "replace" and owner != "dataclasses" and len(call.args) == 1
    if name == "touch" and call.args:  # of an entry
        return False
    return bool(owner) and (name in _PATH or (renames and not call.keywords))


def found(module: str, source: str) -> Iterator[str]:
    tree = ast.parse(source)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    constants = {
        one.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for one in node.targets
        if isinstance(one, ast.Name)
    }
    for node in ast.walk(tree):
        if (isinstance(node, ast.Call) and _writes(node, constants)) or _hides(node, called):
            yield f"{module}:{node.lineno}: {ast.unparse(node)}"


def _hides(node: ast.AST, called: Container[int]) -> TypeGuard[ast.expr | ast.stmt]:
    """A function that writes under another name, or handed to another function."""
    if isinstance(node, ast.Import):
        return any(one.name in _OWNERS and one.asname for one in node.names)
    if isinstance(node, ast.ImportFrom):
        return any(one.name in _OWNERS.get(node.module or "", ()) for one in node.names)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.attr in _OWNERS.get(node.value.id, ()) and id(node) not in called
    return False


def test_all_goes_through_the_door() -> None:
    past = {module: list(found(module, source)) for module, source in sources() if not within(module, DOOR)}
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
        ("_NEW = os.O_CREAT | os.O_EXCL\nos.open(name, _NEW, dir_fd=place)", True),
        ("_LIST = os.O_RDONLY | os.O_DIRECTORY\nos.open(name, _LIST)", False),
        ("os.chown(path, 1, 1)", True),
        ("shutil.rmtree(path)", True),  # waits for a FIFO in the place of a directory
        ("os.chmod(name, 0o600, dir_fd=place)", True),
        ("os.chown(name, 1, 1, dir_fd=place)", True),
        ("os.chown(name, 1, 1, dir_fd=place, follow_symlinks=False)", False),
        ("os.chown(name, 1, 1, follow_symlinks=follow)", True),
        ("os.utime(descriptor, ns=times)", False),
        ("os.fchmod(descriptor, 0o600)", False),
        ("path.mkdir(parents=True)", True),
        ("path.mkdir(mode=0o700)", False),
        ("from os import chmod", True),
        ("import shutil as files", True),
        ("undoing.append(partial(shutil.rmtree, path))", True),
        ("os.supports_fd", False),
        ("path.write_text('x')", True),
        ("(one / name).replace(other)", True),
        ("text.replace('a', 'b')", False),
        ("dataclasses.replace(one, a=1)", False),
    ],
)
def test_it_can_fail(line: str, writes: bool) -> None:
    assert bool(list(found("loader.x", line))) == writes
