"""The OpenLDAP that is measured: this host's, or one in a root directory of its own, which is entered by chroot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from loader import child
from loader.errors import UsageProblem
from loader.server import tools
from loader.storage import files, held, private_mounts

SUFFIX = "dc=example,dc=com"
BACKENDS = ("mdb", "bdb", "hdb")
INDEXES = ("objectClass,entryUUID,entryCSN eq", "uid,cn,sn,mail eq")
_SCHEMAS = ("core", "cosine", "inetorgperson")
# Debian, the Red Hat family, what `make install` and Symas take.
_SCHEMA_PLACES = (
    *("/etc/ldap/schema", "/etc/openldap/schema"),
    *("/usr/local/etc/openldap/schema", "/opt/symas/etc/openldap/schema"),
)
_MODULE_PLACES = (
    *("/usr/lib/ldap", "/usr/lib64/openldap", "/usr/lib/openldap", "/usr/libexec/openldap"),
    *("/usr/local/libexec/openldap", "/opt/symas/lib/openldap"),
)
# With the C library's, where programs of an installation are.
_PATH = "PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/local/libexec:/opt/symas/sbin:/usr/bin:/bin"
# Below the root directory: a tmpfs is mounted over it, so that nothing is written to what is there.
_MEETING = Path("tmp")
_WORK, _DATABASE = _MEETING / "work", _MEETING / "database"
_ENTRY = 8192  # bytes of maxsize that an entry gets: plenty
_LEAST = 64 << 20
_VERSION = re.compile(r"slapd\w* (?P<number>\d+(?:\.\d+)+)")


class Installation(msgspec.Struct, frozen=True):
    """`root`: "/" for this host's."""

    root: Path = Path("/")

    @property
    def is_here(self) -> bool:
        return self.root == Path("/")

    def require(self) -> None:
        """Root runs what is there. Raises NoSuchPath, DirectoryUnsafe, UsageProblem."""
        with files.explained(self.root), held.opened(self.root) as opened:
            held.require_private(opened.status, self.root)
        if not (self.root / _MEETING).is_dir():
            raise UsageProblem(reason=f"{self.root} is no root directory: it has no /{_MEETING}")

    @contextmanager
    def entered(self, work: Path) -> Iterator[None]:
        """`work` is seen there meanwhile. Raises ToolFailed."""
        if self.is_here:
            yield
            return
        meeting = (self.root / _MEETING, "-t", "tmpfs", "-o", "mode=0755", "tmpfs")
        with private_mounts.mounted(*meeting):
            for one in (_WORK, _DATABASE):
                (self.root / one).mkdir()
            with private_mounts.mounted(self.root / _WORK, "--bind", str(work)):
                yield

    @contextmanager
    def seeing(self, directory: Path) -> Iterator[None]:
        """Once it is entered: `directory` is seen there meanwhile, for a database."""
        if self.is_here:
            yield
            return
        with private_mounts.mounted(self.root / _DATABASE, "--bind", str(directory)):
            yield

    def names(self, work: Path, directory: Path) -> tuple[str, str]:
        """What the two are called there."""
        return (str(work), str(directory)) if self.is_here else (f"/{_WORK}", f"/{_DATABASE}")

    def command(self, tool: str, *arguments: str) -> list[str]:
        """Raises ToolMissing."""
        if self.is_here:
            return tools.server_tool(tool, *arguments)
        return ["chroot", str(self.root), "/usr/bin/env", _PATH, tool, *arguments]

    def version(self) -> str:
        """Raises ToolMissing, UsageProblem."""
        answer = child.ask(self.command("slapd", "-VV"))
        found = next(filter(None, map(_VERSION.search, answer.words)), None)
        if found is None:
            said = "; ".join(answer.words[-2:]) or f"exit status {answer.status}"
            raise UsageProblem(reason=f"{self.root}: slapd -VV does not tell its version: {said}")
        return found["number"]

    def configuration(self, backend: str, directory: str, entries: int) -> str:
        """A slapd.conf. `directory`: as slapd sees it. Raises UsageProblem."""
        schemas = self._first(_SCHEMA_PLACES, "core.schema")
        if schemas is None:
            raise UsageProblem(
                reason=f"{self.root}: no core.schema is in {', '.join(_SCHEMA_PLACES)}"
            )
        lines = [f"include {schemas}/{name}.schema" for name in _SCHEMAS]
        modules = self._first(_MODULE_PLACES, f"back_{backend}.*")
        if modules:  # else it is built into slapd, or slapd says that it has none
            lines += [f"modulepath {modules}", f"moduleload back_{backend}"]
        lines += [f"database {backend}", f'suffix "{SUFFIX}"', f'directory "{directory}"']
        lines += [f"index {one}" for one in INDEXES]
        lines += [f"maxsize {max(_LEAST, entries * _ENTRY)}"] if backend == "mdb" else []
        return "\n".join((*lines, ""))

    def _first(self, places: tuple[str, ...], pattern: str) -> str | None:
        return next((one for one in places if [*self.root.glob(f"{one[1:]}/{pattern}")]), None)
