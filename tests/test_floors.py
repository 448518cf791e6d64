"""Imports go downwards only, and each door has one importer. Read from the source, so that a lazy import counts too."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Where a module stands: the longest prefix that is named here.
FLOORS = {
    **{f"loader.{name}": 0 for name in ("plain", "errors", "units", "log", "progress", "child", "defaults", "_native")},
    "loader": 1,
    "loader.server": 2,
    "loader.mdb": 2,
    "loader.storage": 1,  # below the other doors: what they keep in files goes through it
    "loader.run": 2,
    "loader.sources": 3,
    "loader.sinks": 3,
    "loader.operations": 4,
    "loader.cli": 5,
    "seeders": 6,
}
DOORS = {"loader.server", "loader.mdb", "loader.run"}  # do not know each other

# What only some parts may import.
GUARDED = {
    "ldap": ("loader.server",),
    "ldif": ("loader.server",),
    "lmdb": ("loader.mdb",),
    "fsspec": ("loader.storage",),
    "paramiko": ("loader.storage",),
    "pyrage": ("loader.age",),
    "s3fs": ("loader.storage",),
    "loader._native": (
        *("loader.dn", "loader.ldif", "loader.mdb", "loader.server.wire"),
        *("loader.sinks.changing", "loader.sinks.ldap", "loader.sinks.mdb", "loader.sinks.slapadd"),
        *("loader.sources.dit", "loader.sources.mdb", "loader.sources.selection"),
    ),
}


@dataclass(frozen=True)
class Import:
    """`importer` imports `imported`; a `from` import names the module or the thing in it."""

    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def within(module: str, part: str) -> bool:
    return module == part or module.startswith(part + ".")


def part_of(module: str) -> str:
    return max((part for part in FLOORS if within(module, part)), key=len)


def imports_of(module: str, source: str) -> Iterator[Import]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: relative imports hide the floor"
            for alias in node.names:
                yield Import(module, f"{node.module}.{alias.name}", node.lineno)


def problems(found: Import) -> Iterator[str]:
    if found.imported.endswith(".*"):
        yield f"{found}: names come from nowhere"
    for guarded, doors in GUARDED.items():
        if within(found.imported, guarded) and not any(within(found.importer, door) for door in doors):
            yield f"{found}: only {' and '.join(doors)} may"
    if not any(within(found.imported, root) for root in ("loader", "seeders")):
        return
    here, there = part_of(found.importer), part_of(found.imported)
    if FLOORS[there] > FLOORS[here]:
        yield f"{found}: upwards"
    if there == "loader.cli" and here != there and not found.importer.endswith("_cmd"):
        yield f"{found}: only verbs may"
    if {here, there} <= DOORS and here != there:
        yield f"{found}: the doors do not know each other"


def sources() -> list[tuple[str, str]]:
    """(module name, text) of everything in loader/ and seeders/."""
    found = []
    for path in sorted([*ROOT.glob("loader/**/*.py"), *ROOT.glob("seeders/**/*.py")]):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append((name, path.read_text(encoding="utf-8")))
    return found


def test_imports_go_downwards_only() -> None:
    modules = dict(sources())
    found = [
        problem for module, source in modules.items() for one in imports_of(module, source) for problem in problems(one)
    ]
    assert not found, "\n".join(found)
    # It looked at the whole tree.
    assert {"loader.errors", "loader.cli", "loader.run.steps", "seeders.replica.strategies"} <= modules.keys()
    assert {part_of(module) for module in modules} >= FLOORS.keys() - {"loader._native"}


# What comes from outside is written out on its way to a terminal (loader/plain.py), so only these print.
PRINTING = {
    "loader.cli.report",
    "loader.progress",
    "loader.log",
    "loader.mdb.isolated",  # to the process that asked
    "loader.cli.manual",  # no part of a run
}
_DATA = {"seeders.synthetic.generate_cmd"}  # LDIF, a template


def calls(source: str) -> list[tuple[int, str]]:
    """The line of each call, and what is called."""
    nodes = ast.walk(ast.parse(source))
    return [(node.lineno, ast.unparse(node.func)) for node in nodes if isinstance(node, ast.Call)]


def printed(source: str) -> list[int]:
    """Lines that print, or write to stdout or stderr."""
    begins = ("sys.stdout.write", "sys.stdout.buffer.write", "sys.stderr.write")
    names = ("print", "click.echo", "click.secho")
    return [line for line, called in calls(source) if called in names or called.startswith(begins)]


def test_only_the_layer_that_makes_text_fit_prints() -> None:
    found = [
        f"{module}:{line}" for module, source in sources() if module not in PRINTING | _DATA for line in printed(source)
    ]
    assert not found, "\n".join(found)
    assert printed("print(dn)\nsys.stderr.write(dn)\nclick.echo(dn)\nshow(dn)") == [1, 2, 3]


def test_one_place_writes_the_manifest_of_an_export() -> None:
    """Those of backups are others."""
    writers = {module for module, source in sources() if re.search(r"write\w*\([^\n]*\bMANIFEST\b", source)}
    assert {module for module in writers if ".backup" not in module} == {"loader.operations.shards"}


@pytest.mark.parametrize(
    ("module", "line", "reason"),
    [
        ("loader.errors", "from loader import units", None),
        ("loader.errors", "from loader import dn", "upwards"),
        ("loader.operations.build", "import seeders.replica.strategies", "upwards"),
        ("loader.cli", "from seeders.replica import replica_cmd", "upwards"),
        ("seeders.replica.strategies", "from loader.operations import build", None),
        ("loader.run.steps", "from loader.mdb import meta", "do not know each other"),
        ("loader.mdb.copy", "from loader.storage import files", None),
        ("loader.storage.held", "from loader.run import lock", "upwards"),
        ("seeders.replica.strategies", "from loader.cli import report", "only verbs"),
        ("seeders.replica.replica_cmd", "from loader.cli import report", None),
        ("loader.sources.ldap", "import ldap.filter", "only loader.server"),
        ("loader.operations.indexing", "from loader._native import ScanResult", "only loader.dn and loader.ldif and"),
        ("loader.sinks.mdb", "from loader import _native", None),
        ("loader.mdb.copy", "from loader import _native", None),
        ("loader.sinks.slapadd", "from loader.errors import *", "from nowhere"),
        ("loader.sinks.slapadd", "def f():\n    import lmdb", "only loader.mdb"),
    ],
)
def test_it_can_fail(module: str, line: str, reason: str | None) -> None:
    found = [problem for one in imports_of(module, line) for problem in problems(one)]
    assert bool(found) == bool(reason), found
    assert reason is None or any(reason in problem for problem in found)
