"""Prints the test files that a change can affect, for `bin/test --changed`: those that import a changed file, directly
or through others, and those that name a verb whose code does. Prints the number of the other test files on stderr.

Usage: python -m tests.support.changed [REVISION]   changes since the common ancestor with REVISION (default: main)
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from loader.cli import OWN_VERBS

ROOT = Path(__file__).parents[2]
CODE = ("loader", "seeders", "fixtures", "tests")
NATIVE = "loader/native"
# Files that every test depends on: if one of them has changed, all tests are affected.
EVERYTHING = ("setup.cfg", "pyproject.toml", "bin/setup", "tests/conftest.py")
DATA = ("fixtures/", "tests/", "schemas/")
PROSE = ("tests/test_documented.py",)
_WALK = re.compile(r"^\| `([a-z ]+)` \|.*\| ([a-z, ]*) ?\|$", re.M)
_NEEDED = re.compile(r"^(\w+)\.workspace", re.M)

Graph = Mapping[str, set[str]]


def affected(changes: Iterable[str]) -> set[str]:
    """Returns test files, as paths below the checkout's root."""
    paths = set(changes)
    if paths.intersection(EVERYTHING):
        return set(test_files())
    paths |= {name for name in files() if any(_names_data(name, path) for path in paths)}
    crates = {path.split("/")[2] for path in paths if path.startswith(f"{NATIVE}/")}
    reached = closure(paths, importers())
    verbs = verbs_of(reached) | verbs_of_crates(crates)
    if crates:
        reached.update(name for name in test_files() if "/native/" in name)
    texts = [
        path for path in paths if path.startswith(("bin/", "docs/", "schemas/"))
    ]  # as tests of tools and pages name
    found = {name for name in test_files() if name in reached or verbs & words(name)}
    found |= {name for name in test_files() if any(path in (ROOT / name).read_text() for path in texts)}
    return found | (set(PROSE) if any(path.endswith(".md") for path in paths) else set())


def _names_data(name: str, path: str) -> bool:
    """Returns whether a file of code names this data file, or its directory below fixtures/ or tests/."""
    if path.endswith((".py", ".md")) or not path.startswith(DATA):
        return False
    return not _segments(name).isdisjoint((path.split("/")[1], Path(path).name))


@cache
def _segments(name: str) -> set[str]:
    """Returns the segments of a file's strings, which may be paths."""
    return {segment for word in _constants(name) for segment in word.split("/")}


def closure(start: Iterable[str], edges: Graph) -> set[str]:
    reached, waiting = set(), list(start)
    while waiting:
        one = waiting.pop()
        if one not in reached:
            reached.add(one)
            waiting += edges.get(one, ())
    return reached


@cache
def files() -> tuple[str, ...]:
    listed = (path for place in CODE for path in (ROOT / place).rglob("*.py"))
    return tuple(str(path.relative_to(ROOT)) for path in listed)


def test_files() -> list[str]:
    return [name for name in files() if Path(name).name.startswith("test_")]


@cache
def tree(name: str) -> ast.Module:
    return ast.parse((ROOT / name).read_text())


@cache
def importers() -> Graph:
    """Returns file -> the files that import it, inside functions too."""
    found: dict[str, set[str]] = defaultdict(set)
    for name in files():
        for module in _imported(tree(name)):
            found[module].add(name)
    return found


def _imported(code: ast.Module) -> Iterator[str]:
    for node in ast.walk(code):
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
        else:
            continue
        yield from filter(None, map(_file_of, names))


@cache
def _file_of(module: str) -> str | None:
    path = module.replace(".", "/")
    known = set(files())
    return next((one for one in (f"{path}.py", f"{path}/__init__.py") if one in known), None)


def verbs_of(reached: set[str]) -> set[str]:
    return {verb for verb, place in OWN_VERBS.items() if _file_of(place.partition(":")[0]) in reached}


def verbs_of_crates(crates: set[str]) -> set[str]:
    """Returns the verbs whose walk in ARCHITECTURE.md names one of the crates, or a crate that depends on one."""
    if not crates:
        return set()
    users: dict[str, set[str]] = defaultdict(set)
    for manifest in (ROOT / NATIVE).glob("*/Cargo.toml"):
        for name in _NEEDED.findall(manifest.read_text()):
            users[name].add(manifest.parent.name)
    reached = closure(crates, users) - {"bridge"}
    rows = _WALK.findall((ROOT / "ARCHITECTURE.md").read_text())
    found = {verb.split()[0] for verb, named in rows if reached & set(re.findall(r"\w+", named))}
    return found or set(OWN_VERBS)


@cache
def words(test: str) -> set[str]:
    """Returns the strings in a test file and in the test modules that it imports; verbs are among them."""
    reached = {test, *(name for name in _imported(tree(test)) if name.startswith("tests/"))}
    return {word for name in reached for word in _constants(name)}


def _constants(name: str) -> Iterator[str]:
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def changes_since(revision: str) -> list[str]:
    """Returns the paths of changed files, committed or not, and of new files."""
    base = _git("merge-base", revision, "HEAD")[0]
    untracked = _git("ls-files", "--others", "--exclude-standard")
    return [*_git("diff", "--name-only", base), *untracked]


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def main() -> None:
    changes = changes_since(sys.argv[1] if len(sys.argv) > 1 else "main")
    found = affected(changes)
    print(*sorted(found), sep="\n")
    left = len(test_files()) - len(found)
    print(f"{len(changes)} changed files; {len(found)} test files, {left} left out", file=sys.stderr)


if __name__ == "__main__":
    main()
